"""Combines answers that are sets of nodes; see :mod:`~kaisched.framework.plugins.combine`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from kaisched.framework.plugins.combine import Combination
from kaisched.framework.plugins.validity import sets_fault
from kaisched.framework.session.node_sets import LazyNodeSets, NodeSet, NodeSets

if TYPE_CHECKING:
    from collections.abc import Callable

    from kaisched.framework.plugins.answers import Answer, Answers, Asked


class Intersections(Combination):
    """Every set of one plugin with every set of the next: nodes in both, in plugin order."""

    name = "intersections"
    check = staticmethod(sets_fault)
    fails = "No set: the job is not placed."
    without = "all nodes are one set"

    def instead(self, against: int) -> NodeSets:
        """Leave the job without nodes."""
        del against
        return NodeSets()

    def over(self, answers: Answers) -> Callable[..., NodeSets | None]:
        """Return the sets that all plugins allow, or None without an answer."""

        def ask(*asked: Any) -> NodeSets | None:
            found: NodeSets | None = None
            for answer in answers:
                said = answer.ask(self, asked, len(asked[0].nodes))
                if said is None:
                    continue
                if isinstance(said, int):
                    return NodeSets(code=said)
                is_lazy = isinstance(said, LazyNodeSets)
                sets = _Checked(self, answer, asked, said) if is_lazy else said
                these = NodeSets(sets, sources=(said,))
                found = these if found is None else found.meet(these)
            return found

        return ask


class _Checked(LazyNodeSets):
    """Sets of one plugin, each checked when it is made."""

    def __init__(
        self, rule: Intersections, answer: Answer, asked: Asked, sets: LazyNodeSets
    ) -> None:
        super().__init__(len(sets))
        self._rule, self._answer, self._asked, self._sets = rule, answer, asked, sets

    def make(self, at: int) -> NodeSet:
        """Return the set at a position; a set without nodes where the plugin fails."""
        count = len(self._asked[0].nodes)
        error: Exception | str
        try:
            made = self._sets[at]
            error = sets_fault([made], count)
        except Exception as raised:  # noqa: BLE001 - any failure of a plugin is contained
            error = raised
        else:
            if not error:
                return made
        self._rule.failed(self._answer, self._asked, count, error)
        return NodeSet(self._answer.plugin, np.zeros(count, np.bool_))
