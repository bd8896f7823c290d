"""The contest of queues: at every level the best sibling, each with the head of its best child.

Keys are kept from one choice to the next, and asked again where a queue's head or what it holds has
changed. That is what a plugin's keys may depend on, unless it declares otherwise with
``rests_on_sums``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from kaisched.actions.order.candidates import Candidates
    from kaisched.core.axis import Amounts, RowVec
    from kaisched.framework.session.session import Session

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
