"""The fair order one job at a time: only the first jobs of the queues are compared.

This costs one question for each level and job, about the queues that changed since the last one:
cheap in a cycle that can place only a few pods. Predicting whole sequences (see predicted.py) pays
when many pods are placed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from kaisched.actions.order.gates import first_shut
from kaisched.actions.order.job_order import sorted_rows
from kaisched.actions.order.predicted import Pick
from kaisched.framework.session.claim_payers import shape_changes

if TYPE_CHECKING:
    from kaisched.actions.order.candidates import Candidates
    from kaisched.core.axis import Amounts, BoolVec, RowVec
    from kaisched.framework.session.session import Session


# The contest of queues: at every level the best sibling, each with the head of its best child.
#
# Keys are kept from one choice to the next, and asked again where a queue's head or what it holds
# has changed. That is what a plugin's keys may depend on, unless it declares otherwise with
# ``rests_on_sums``.

_Entry = tuple[Any, ...]
"""The keys of a queue, then the queue and its head: the lowest is next."""


class _Level:
    """The queues of one depth that have candidates at or below them, ascending."""

    def __init__(self, session: Session, rows: RowVec) -> None:
        """Start without heads."""
        parent = session.fair_tree.parent_of_queue.take(rows)
        same = parent[1:] == parent[:-1]  # the children of one queue are contiguous
        self.rows = rows
        self.parents: list[int] = parent.tolist()
        is_contested = np.zeros(len(rows), np.bool_)
        is_contested[1:] |= same
        is_contested[:-1] |= same
        self.is_contested: list[bool] = is_contested.tolist()
        """False for a queue without siblings: it wins whatever its keys."""
        self.heads: RowVec = np.full(len(rows), -1)
        """The head of each queue when its keys were asked, -1 for none."""
        self.held: Amounts = np.zeros((len(session.axis), len(rows)), np.int64)
        """What each queue held then."""
        self.entries: dict[int, dict[int, _Entry]] = {above: {} for above in self.parents}
        """By parent, the entry of each child that has a head."""


class Contest:
    """Finds the next candidate among the heads of leaf queues."""

    def __init__(self, session: Session, candidates: Candidates, leaves: RowVec) -> None:
        """Take the leaf queues that have candidates, ascending."""
        self._session, self._candidates = session, candidates
        self._leaves = leaves
        self._is_kept = session.ask.rests_on_sums(session)
        tree = session.fair_tree
        self._heads: RowVec = np.full(len(tree), -1)
        """``(Q,)`` the head of each queue as of now, -1 for none."""
        self._levels: list[_Level] = []
        self._winner = -1
        if len(leaves) > 1:
            paths = tree.path_of_leaf[leaves]
            rows = np.unique(paths[paths >= 0])
            depth = tree.depth_of_queue.take(rows)
            deepest = int(depth.max())
            self._levels = [_Level(session, rows[depth == at]) for at in range(deepest, -1, -1)]

    def winner(self, heads: RowVec) -> int:
        """Return the candidate that is next, -1 for none; ``heads`` are those of the leaves."""
        if not self._levels:
            return int(heads[0]) if len(heads) else -1
        self._heads[self._leaves] = heads
        for level in self._levels:
            for parent in self._ask_again(level):
                children = level.entries[parent]
                winner = min(children.values())[-1] if children else -1
                if parent < 0:
                    self._winner = winner
                else:
                    self._heads[parent] = winner
        return self._winner

    def _ask_again(self, level: _Level) -> set[int]:
        """Bring the entries of a level up to date; return the parents of those that changed."""
        session = self._session
        heads = self._heads.take(level.rows)
        held = (session.ledger.held if session.has_moved else session.held).take(level.rows, axis=1)
        is_stale = heads != level.heads
        if self._is_kept:
            is_stale |= np.logical_or.reduce(held != level.held, axis=0)
        else:
            is_stale |= heads >= 0
        level.heads, level.held = heads, held
        asked = []
        parents = set()
        for at in is_stale.nonzero()[0].tolist():
            parent, row, head = level.parents[at], int(level.rows[at]), int(heads[at])
            parents.add(parent)
            if head < 0:
                level.entries[parent].pop(row, None)
            elif level.is_contested[at]:
                asked.append(at)
            else:
                level.entries[parent][row] = (row, head)
        if asked:
            self._ask(level, np.array(asked), heads, held)
        return parents

    def _ask(self, level: _Level, asked: RowVec, heads: RowVec, held: Amounts) -> None:
        """Ask for the keys of some queues of a level."""
        session, candidates = self._session, self._candidates
        rows, head = level.rows.take(asked), heads.take(asked)
        keys = session.ask.contest(
            session,
            rows,
            candidates.job.take(head),
            held.take(asked, axis=1),
            candidates.asks(session, head),
        )
        columns = (*keys, rows, head)
        entries = zip(*(column.tolist() for column in columns), strict=True)
        for at, entry in zip(asked.tolist(), entries, strict=True):
            level.entries[level.parents[at]][entry[-2]] = entry


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
        self._counted = shape_changes(session)
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
        if self._counted != shape_changes(self._session):
            self._counted = shape_changes(self._session)
            self._candidates.take_shapes_anew(self._session)
            if np.count_nonzero(self._alive):
                self._sort(np.flatnonzero(self._alive))
        if self._has_dropped:
            self._find_heads()
        at = self._contest.winner(self._heads)
        if at < 0:
            return None
        return Pick(at, self._gate(at) if self._is_gated else 0)

    def _gate(self, at: int) -> int:
        """Return the first refusal on the candidate's path, leaf first."""
        ask = self._candidates.least_asks(self._session, np.array([at]))[:, 0]
        return first_shut(self._session, self._action, int(self._candidates.job[at]), ask)
