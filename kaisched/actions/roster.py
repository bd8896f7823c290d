"""The running jobs in job order, kept between cycles.

A hint. Every action that evicts needs the jobs it might take from in the order of their leaf
queues; of hundreds of them a handful start or end between two cycles. It steps aside (answers None)
where a plugin does not promise that its order rests on a job's own row, and where a job has several
pod sets.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from kaisched.actions.changes import Changes

if TYPE_CHECKING:
    from kaisched.core.axis import RowVec
    from kaisched.framework.session import Session

_HINT: Final = "roster"


class Roster:
    """Running preemptible jobs, sorted."""

    def __init__(self, session: Session) -> None:
        """Start with no rows."""
        self.changes = Changes(session)
        self._where: dict[int, tuple[int, tuple[Any, ...]]] = {}
        self._of_queue: dict[int, list[tuple[Any, ...]]] = {}
        self._rows_of_queue: dict[int, RowVec] = {}
        """Made anew for the queues that changed."""
        self.odd: set[int] = set()
        """Running jobs of several pod sets: their order may change while their counts do not."""
        self._all: list[tuple[Any, ...]] = []
        self._postponed: list[int] = []
        """Rows that a move of this cycle has changed: they are taken in with the next cycle."""

    def take_in(self, session: Session) -> None:
        """Sort in what has changed since the last look."""
        rows = self.changes.look(session)
        if self._postponed:
            rows = sorted({*rows, *self._postponed})
            self._postponed = []
        if not rows:
            return
        for row in rows:
            self._forget(row)
        jobs = session.jobs
        changed = np.array(rows, np.int64)
        runs = changed[
            (jobs.active[changed] > 0)
            & jobs.is_preemptible[changed]
            & (jobs.queue_of_job[changed] >= 0)
        ]
        if session.has_moved and runs.size:
            # Plugins would answer for what the job has become in this cycle.
            ledger = session.ledger
            moved = (ledger.job_active[runs] != jobs.active[runs]) | (
                ledger.job_pending[runs] != jobs.pending[runs]
            )
            self._postponed = runs[moved].tolist()
            runs = runs[~moved]
        is_odd = jobs.podset_count[runs] != 1
        self.odd.update(runs[is_odd].tolist())
        runs = runs[~is_odd]
        if runs.size:
            self._sort_in(session, runs)

    def by_leaf(self) -> RowVec:
        """Return all job rows, the last queue row first and in each the last in order first."""
        parts = []
        for queue in sorted(self._of_queue, reverse=True):
            rows = self._rows_of_queue.get(queue)
            if rows is None:
                entries = self._of_queue[queue]
                rows = np.array([entry[-1] for entry in reversed(entries)], np.int64)
                self._rows_of_queue[queue] = rows
            parts.append(rows)
        return np.concatenate(parts) if parts else np.empty(0, np.int64)

    def last_first(self) -> RowVec:
        """Return all job rows, the last in order first, whatever their queue."""
        return np.array([entry[-1] for entry in reversed(self._all)], np.int64)

    def _forget(self, row: int) -> None:
        self.odd.discard(row)
        known = self._where.pop(row, None)
        if known is None:
            return
        queue, entry = known
        line = self._of_queue[queue]
        del line[bisect_left(line, entry)]
        del self._all[bisect_left(self._all, entry)]
        self._rows_of_queue.pop(queue, None)
        if not line:
            del self._of_queue[queue]

    def _sort_in(self, session: Session, rows: RowVec) -> None:
        jobs = session.jobs
        keys = [key.tolist() for key in session.ask.job_order(session, rows)]
        keys.append(jobs.created_s[rows].tolist())
        numbers = rows.tolist()
        keys.append([jobs.name[row] for row in numbers])
        queues = jobs.queue_of_job[rows].tolist()
        for queue, *entry in zip(queues, *keys, numbers, strict=True):
            place = tuple(entry)
            insort(self._of_queue.setdefault(queue, []), place)
            insort(self._all, place)
            self._rows_of_queue.pop(queue, None)
            self._where[entry[-1]] = (queue, place)


def roster_of(session: Session) -> Roster | None:
    """Return the roster with all that changed up to this cycle taken in, or None."""
    if not session.ask.is_job_bound:
        return None
    roster: Roster | None = session.found.get(_HINT)
    if roster is None:
        roster = session.hints.get(_HINT)
        if not (isinstance(roster, Roster) and roster.changes.serves(session)):
            roster = session.hints[_HINT] = Roster(session)
        session.found[_HINT] = roster
        roster.take_in(session)
    return None if roster.odd else roster


def in_order(session: Session, running: RowVec, *, is_by_leaf: bool) -> RowVec | None:
    """Return running jobs in order, by leaf queue or all together, or None where it is not kept."""
    roster = roster_of(session)
    if roster is None:
        return None
    rows = roster.by_leaf() if is_by_leaf else roster.last_first()
    if len(rows) > len(running):
        runs = np.zeros(len(session.jobs.pending), np.bool_)
        runs[running] = True
        rows = rows[runs.take(rows)]
    return rows if len(rows) == len(running) else None
