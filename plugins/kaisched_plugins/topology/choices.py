"""The sets of nodes that are tried for a batch, one after the other (C1 to C4)."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import accumulate, islice
from typing import Final, NamedTuple

import numpy as np

from kaisched import BoolVec, LazyNodeSets, NodeSet, RowVec
from kaisched_plugins.topology.choosing import LAST, Chooser
from kaisched_plugins.topology.few import Sums, few_domains, most_tried

LABELLED, ALL = -1, -2
"""In place of a level: all nodes with all labels, and all nodes."""
ONE: Final = np.ones(1, np.bool_)
"""In place of the domains of a level: one set."""


class Stage(NamedTuple):
    """Domains of one level that are tried one after the other, ordered when the first one is."""

    by: Chooser
    """Whose capacities say which domains, and in which order."""
    level: int
    """-1 for all labelled nodes together, -2 for all nodes."""
    able: BoolVec
    filler: Chooser
    """Whose capacities say how a domain is filled."""
    sums: Sums | None = None
    """What a few of the preferred domains must have to be tried before all of them inside one of
    these; None where the order in which they are filled gives the fewest."""

    def ordered(self) -> RowVec:
        """Return the domains, the best first."""
        return self.by.ordered(self.level, self.able) if self.level >= 0 else np.zeros(1, np.int64)

    def steps(self, most: int) -> Iterator[tuple[int, RowVec | None]]:
        """Yield each domain after the choices of few preferred ones inside of it, at most so many.

        None stands for all of them.
        """
        assert self.sums is not None
        for domain in self.ordered().tolist():
            if most > 0:
                ranked = self.filler.ranked(self.level, domain)
                for some in islice(few_domains(self.sums, ranked), most):
                    most -= 1
                    yield domain, some
                most -= 1  # it takes time to look for choices, too
            yield domain, None


class Choices(LazyNodeSets):
    """The domains of some levels in the order in which they are tried."""

    def __init__(self, stages: Sequence[Stage], nodes: int, *, are_peers: bool = False) -> None:
        self._stages = stages
        self._nodes = nodes
        self._are_peers = are_peers
        self._ordered: dict[int, RowVec] = {}
        self._few: dict[int, list[tuple[int, RowVec | None]]] = {}
        left = most_tried(stages[0].by.pods) if stages else 0
        sizes: list[int] = []
        for number, stage in enumerate(stages):
            if stage.sums is None:
                sizes.append(int(np.count_nonzero(stage.able)))
                continue
            self._few[number] = steps = list(stage.steps(left))
            left = max(0, left - len(steps))
            sizes.append(len(steps))
        self._ends = list(accumulate(sizes))
        super().__init__(self._ends[-1] if self._ends else 0)

    def make(self, at: int) -> NodeSet:
        """Make the set of nodes at a position."""
        number = bisect_right(self._ends, at)
        stage, place = self._stages[number], at - self._ends[number]  # counted from the end
        domain = 0
        if number in self._few:
            domain, some = self._few[number][place]
            if some is not None:
                return stage.filler.set_of_few(some)
        elif stage.level >= 0:
            if number not in self._ordered:
                self._ordered[number] = stage.ordered()
            domain = int(self._ordered[number][place])
        if stage.level >= 0:
            return stage.filler.set_of(stage.level, domain, peers=self._are_peers)
        return self._whole(stage)

    def _whole(self, stage: Stage) -> NodeSet:
        """Return all labelled nodes, or all nodes."""
        filler = stage.filler
        members, order = filler.tree.is_member, filler.order(-1, 0)
        reorders = not filler.is_uniform
        if stage.level == LABELLED:
            return NodeSet("all labelled nodes", members, order=order, reorders=reorders)
        order = np.where(members, 0, LAST) if order is None else order
        every = np.ones(self._nodes, np.bool_)
        return NodeSet("all nodes", every, order=order, reorders=reorders)
