"""Combines answers that are sets of nodes; see :mod:`~kaisched.framework.plugins.combine`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kaisched.framework.plugins.combine import Combination
from kaisched.framework.plugins.validity import sets_fault

if TYPE_CHECKING:
    from collections.abc import Callable

    from kaisched.framework.plugins.answers import Answers
    from kaisched.framework.session.claims import NodeSet


class Intersections(Combination):
    """Every set of one plugin with every set of the next: nodes in both, in plugin order."""

    name = "intersections"
    check = staticmethod(sets_fault)
    fails = "No set: the job is not placed."
    without = "all nodes are one set"

    def instead(self, against: int) -> tuple[NodeSet, ...]:
        """Leave the job without nodes."""
        del against
        return ()

    def over(self, answers: Answers) -> Callable[..., list[NodeSet] | None]:
        """Return the sets that all plugins allow, or None without an answer."""

        def ask(*asked: Any) -> list[NodeSet] | None:
            found: list[NodeSet] | None = None
            for answer in answers:
                said = answer.ask(self, asked, len(asked[0].nodes))
                if said is None:
                    continue
                if found is None:
                    found = list(said)
                else:
                    found = [one.meet(other) for one in found for other in said]
            return found

        return ask
