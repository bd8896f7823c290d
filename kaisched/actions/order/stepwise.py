"""The fair order one job at a time: only the first jobs of the queues are compared.

This costs one question for each level and job, which is cheap in a cycle that can place only a few
pods. Predicting whole sequences (see fair_order.py) pays when many pods are placed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from kaisched.actions.order.gates import first_shut
from kaisched.actions.order.job_order import sorted_rows
from kaisched.actions.order.sequence import Pick

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kaisched.actions.order.candidates import Candidates
    from kaisched.core.axis import BoolVec, RowVec
    from kaisched.framework.session.session import Session

FEW: Final = 16
"""Where at most so many pods of a shape fit, heads are compared one job at a time (measured: in a
full cluster 8 to 32 cost 3 % less than 6; one job costs a tenth of predicting all sequences)."""


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

    def waiting(self) -> BoolVec:
        """``(C,)`` which candidates still wait for their turn."""
        return self._alive

    def _sort(self, rows: RowVec) -> None:
        candidates = self._candidates
        if len(rows) == 1 or (candidates.is_sorted and len(rows) == len(candidates)):
            self._order, self._tie = rows, np.arange(len(rows))
        else:
            self._order, self._tie = sorted_rows(self._session, candidates, rows)
        queue = candidates.queue[self._order]
        cuts = ((queue[1:] != queue[:-1]).nonzero()[0] + 1).tolist()
        self._start: list[int] = [0, *cuts]
        self._leaf: list[int] = queue[self._start].tolist()
        self._end: list[int] = [*cuts, len(queue)]
        self._settled = self._start.copy()
        """By leaf: the end of the part in which names have settled the ties."""

    def _heads(self) -> tuple[list[int], list[int]]:
        """Return (leaf queue rows, their first waiting candidates)."""
        queues: list[int] = []
        heads: list[int] = []
        order, alive = self._order, self._alive
        for leaf, queue in enumerate(self._leaf):
            start, end = self._start[leaf], self._end[leaf]
            if start < end and not alive[order[start]]:
                start += int(alive[order[start:end]].argmax())
                if not alive[order[start]]:
                    start = end
                self._start[leaf] = start
            if start < end:
                queues.append(queue)
                heads.append(self._head(leaf, start, end))
        return queues, heads

    def _head(self, leaf: int, start: int, end: int) -> int:
        """Return a leaf's first candidate, after names have settled a tie at its place."""
        order, tie = self._order, self._tie
        if start >= self._settled[leaf] and start + 1 < end and tie[start + 1] == tie[start]:
            stop = start + int(np.searchsorted(tie[start:end], tie[start], side="right"))
            tied = order[start:stop].tolist()
            names, job = self._session.jobs.name, self._candidates.job
            tied.sort(key=lambda at: (not self._alive[at], names[int(job[at])]))
            order[start:stop] = tied
            self._settled[leaf] = stop
        return int(order[start])

    def _choose(self) -> Pick | None:
        """Choose the next candidate among the heads of the leaf queues."""
        queues, heads = self._heads()
        if not heads:
            return None
        at = heads[0] if len(heads) == 1 else self._best(queues, heads)
        return Pick(at, self._gate(at) if self._is_gated else 0)

    def _best(self, queues: list[int], heads: list[int]) -> int:
        """Return the best head: each queue is represented by its best child, up to the roots."""
        tree = self._session.queues.tree
        if len(tree.levels) == 1:
            return int(min(self._entries(queues, heads))[-1])
        levels: dict[int, dict[int, int]] = {}
        for queue, at in zip(queues, heads, strict=True):
            levels.setdefault(int(tree.depth_of_queue[queue]), {})[queue] = at
        for level in range(max(levels), 0, -1):
            for queue, at in self._winners(levels.get(level, {})).items():
                levels.setdefault(level - 1, {})[int(tree.parent_of_queue[queue])] = at
        return next(iter(self._winners(levels[0]).values()))

    def _winners(self, head_of_queue: dict[int, int]) -> dict[int, int]:
        """Return the best queue of each parent, with its head."""
        queues, heads = list(head_of_queue), list(head_of_queue.values())
        parents = self._session.queues.tree.parent_of_queue[queues].tolist()
        if len(set(parents)) == len(parents):
            return head_of_queue
        winners: dict[int, int] = {}
        parent = None
        entries = zip(parents, self._entries(queues, heads), strict=True)
        for entry in sorted(entries):
            if entry[0] != parent:
                parent = entry[0]
                winners[entry[1][-2]] = entry[1][-1]
        return winners

    def _entries(self, queues: list[int], heads: list[int]) -> Iterator[tuple[Any, ...]]:
        """Return an entry for each queue: keys, then the queue and its head. The lowest is next."""
        session = self._session
        rows, candidates = np.array(queues), np.array(heads)
        held = session.ledger.held if session.has_moved else session.held
        ask, job = self._candidates.asks(session, candidates), self._candidates.job[candidates]
        keys = session.ask.contest(session, rows, job, held.take(rows, axis=1), ask)
        return zip(*(key.tolist() for key in keys), queues, heads, strict=True)

    def _gate(self, at: int) -> int:
        """Return the first refusal on the candidate's path, leaf first."""
        if not self._session.ask.gates(self._session, self._action):
            return 0
        ask = self._candidates.asks(self._session, np.array([at]))[:, 0]
        return first_shut(self._session, self._action, int(self._candidates.job[at]), ask)
