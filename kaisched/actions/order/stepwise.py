"""The fair order one job at a time: only the first jobs of the queues are compared.

This costs one question for each level and job, about the queues that changed since the last one:
cheap in a cycle that can place only a few pods. Predicting whole sequences (see fair_order.py) pays
when many pods are placed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from kaisched.actions.order.contest import Contest
from kaisched.actions.order.gates import first_shut
from kaisched.actions.order.job_order import sorted_rows
from kaisched.actions.order.sequence import Pick

if TYPE_CHECKING:
    from kaisched.actions.order.candidates import Candidates
    from kaisched.core.axis import BoolVec, RowVec
    from kaisched.framework.session.session import Session

FEW: Final = 16
"""Where at most so many pods of a shape fit, heads are compared one job at a time (measured: in a
full cluster 8 to 32 cost 3 % less than 6; one job costs a tenth of predicting all sequences)."""
FEW_OF_QUEUES: Final = 8
"""So are they where at most one pod fits for so many queues with candidates."""


def are_few(most: int, queues: int) -> bool:
    """Tell whether so few pods fit that comparing heads costs less than predicting sequences."""
    return most <= max(FEW, queues // FEW_OF_QUEUES)


class StepwiseOrder:
    """Hands out candidates one after the other, without predictions."""

    def __init__(
        self, session: Session, action: str, candidates: Candidates, *, is_gated: bool = True
    ) -> None:
        """Sort the candidates into their leaf queues.

        Without gates every candidate is tried: evictions may make room under a limit.
        """
        self._session = session
        self._action = action
        self._candidates = candidates
        self._is_gated = is_gated
        self._alive: BoolVec = np.ones(len(candidates), np.bool_)
        self._next: Pick | None = None
        self._sort(np.arange(len(candidates)))

    def peek(self, ahead: int = 0) -> Pick | None:
        """Return the next item; the items behind it are unknown."""
        if ahead:
            return None
        if self._next is None:
            self._next = self._choose()
        return self._next

    def placed(self, item: Pick) -> None:
        """Report that the next item was placed."""
        self._alive[item.at] = False
        self._next = None
        if not self._has_dropped:
            self._advance(self._leaf_of_queue[int(self._candidates.queue[item.at])])

    def refused(self, item: Pick) -> None:
        """Report that the next item was not placed; it leaves the order."""
        self.placed(item)

    def again(self, item: Pick) -> None:
        """Put the item just placed back with its next batch."""
        self._alive[item.at] = True
        self._sort(np.flatnonzero(self._alive))
        self._next = None

    def drop(self, gone: RowVec) -> None:
        """Take out candidates that can no longer be placed."""
        self._alive[gone] = False
        self._next = None
        self._has_dropped = True

    def waiting(self) -> BoolVec:
        """``(C,)`` which candidates still wait for their turn."""
        return self._alive

    def _sort(self, rows: RowVec) -> None:
        candidates = self._candidates
        if len(rows) == 1:
            self._order, self._tie = rows, np.arange(len(rows))
        else:
            self._order, self._tie = sorted_rows(self._session, candidates, rows)
        queue, tie = candidates.queue[self._order], self._tie
        cuts = (queue[1:] != queue[:-1]).nonzero()[0] + 1
        self._start: RowVec = np.concatenate(([0], cuts))
        """By leaf: the place of its first waiting candidate."""
        self._end: RowVec = np.concatenate((cuts, [len(queue)]))
        self._settled: RowVec = self._start.copy()
        """By leaf: the end of the part in which names have settled the ties."""
        self._is_tied: BoolVec = np.append(tie[1:] == tie[:-1], np.False_)
        """Whether a place and the next one are a tie."""
        self._heads: RowVec = self._order.take(self._start)
        """By leaf: its first waiting candidate, -1 for none."""
        self._settle(np.arange(len(self._heads)))
        self._has_dropped = False
        """Whether any leaf may have lost its head."""
        self._leaf_of_queue = {row: leaf for leaf, row in enumerate(queue[self._start].tolist())}
        self._contest = Contest(self._session, candidates, queue.take(self._start))

    def _advance(self, leaf: int) -> None:
        """Find the head of one leaf, whose head waits no more."""
        first, end = int(self._start[leaf]) + 1, int(self._end[leaf])
        if first < end and not self._alive[self._order[first]]:
            first += int(self._alive.take(self._order[first:end]).argmax())
        if first >= end or not self._alive[self._order[first]]:
            self._heads[leaf] = -1
            return
        self._start[leaf] = first
        self._heads[leaf] = self._order[first]
        if self._is_tied[first] and first >= self._settled[leaf]:
            self._settle(np.array([leaf]))

    def _find_heads(self) -> None:
        """Find the heads of the leaves whose head waits no more."""
        self._has_dropped = False
        order, heads, alive = self._order, self._heads, self._alive
        leaves = ((heads >= 0) & ~alive.take(heads)).nonzero()[0]
        if not leaves.size:
            return
        low, high = int(self._start[leaves[0]]), int(self._end[leaves[-1]])
        waits = alive.take(order[low:high]).nonzero()[0] + low
        waits = np.append(waits, len(order))  # behind the last place
        first = waits.take(waits.searchsorted(self._start.take(leaves)))
        has_head = first < self._end.take(leaves)
        heads[leaves[~has_head]] = -1
        leaves, first = leaves[has_head], first[has_head]
        heads[leaves] = order.take(first)
        self._start[leaves] = first
        self._settle(leaves)

    def _settle(self, leaves: RowVec) -> None:
        """Let names settle the ties at the heads of some leaves."""
        start = self._start.take(leaves)
        is_open = self._is_tied.take(start) & (start >= self._settled.take(leaves))
        if not np.count_nonzero(is_open):
            return
        order, tie, alive = self._order, self._tie, self._alive
        names, job = self._session.jobs.name, self._candidates.job
        for leaf in leaves[is_open].tolist():
            first, end = int(self._start[leaf]), int(self._end[leaf])
            stop = first + int(np.searchsorted(tie[first:end], tie[first], side="right"))
            tied = order[first:stop].tolist()
            tied.sort(key=lambda at: (not alive[at], names[int(job[at])]))
            order[first:stop] = tied
            self._settled[leaf] = stop
            self._heads[leaf] = tied[0]

    def _choose(self) -> Pick | None:
        """Choose the next candidate among the heads of the leaf queues."""
        if self._has_dropped:
            self._find_heads()
        at = self._contest.winner(self._heads)
        if at < 0:
            return None
        return Pick(at, self._gate(at) if self._is_gated else 0)

    def _gate(self, at: int) -> int:
        """Return the first refusal on the candidate's path, leaf first."""
        if not self._session.ask.gates(self._session, self._action):
            return 0
        ask = self._candidates.least_asks(self._session, np.array([at]))[:, 0]
        return first_shut(self._session, self._action, int(self._candidates.job[at]), ask)
