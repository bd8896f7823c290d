"""The waiting jobs in order, kept between cycles: a full cluster needs only the first of them.

A hint. In a cluster that is full for weeks each cycle has thousands of waiting jobs, of which room
for one or two has come free. The backlog keeps them sorted in classes of one queue, shape, size,
priority and preemptibility, takes in the rows that changed since the last cycle, and hands out the
first few of the classes that fit: as many as could possibly be placed, and one more. Where queues
may refuse some of them, or very many classes fit, it hands out all jobs of those classes. They
decide the same as all candidates would. Where that is not certain the backlog answers None: several
pod sets or shapes in a job, elastic pods, sets of nodes, room being released, or a plugin that does
not promise to read a job's own row only.

Actions that evict ask about the classes as a whole, see claimants.py.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from kaisched.actions.order.candidates import Candidates, drop_gated
from kaisched.actions.order.changes import Changes
from kaisched.actions.order.rations import rations_of
from kaisched.actions.order.stepwise import are_few

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kaisched.core.axis import Amounts, BoolVec, CodeVec, IntVec, RowVec
    from kaisched.framework.session.session import Session

_HINT: Final = "backlog"
_SCARCE: Final = "backlog.scarce"
"""Whether little room was left the last time all waiting jobs were tried."""
_MANY: Final = 64
"""From so many fitting classes on, all their jobs are handed out: that costs less than the first of
each (measured: 0.1 ms for 20,000 jobs)."""
_WORTH: Final = 24
"""Gathering fewer waiting jobs than this anew is faster than keeping them (0.2 ms either way)."""


def waiting_heads(session: Session, action: str) -> Candidates | None:
    """Return the first candidates of the backlog, or None where all have to be gathered."""
    ask = session.ask
    if not session.hints.get(_SCARCE):
        return None
    if not ask.is_job_bound or session.policy.queue_depth.get(action):
        return None
    if not is_worth_keeping(session):
        return None
    if session.capacity.has_releasing or ask.node_sets(session) is not None:
        return None
    backlog = backlog_of(session, action)
    if backlog.odd:
        return None
    moved = backlog.moved(session)
    return None if moved is None else backlog.heads(session, action, moved)


def is_worth_keeping(session: Session) -> bool:
    """Tell whether so many jobs wait that a backlog saves time."""
    return session.jobs_waiting >= _WORTH


def backlog_of(session: Session, action: str) -> Backlog:
    """Return the backlog, brought up to date with this cycle's snapshot."""
    known: object = session.hints.get(_HINT)
    if isinstance(known, Backlog) and known.changes.serves(session):
        backlog = known
    else:
        backlog = session.hints[_HINT] = Backlog(session)
    if session.found.get(_HINT) is not backlog:
        session.found[_HINT] = backlog
        backlog.take_in(session, action)
    return backlog


def note_room(session: Session, candidates: Candidates) -> None:
    """Remember whether the next cycle should try only the first jobs of the backlog."""
    session.hints[_SCARCE] = are_few(candidates.most, candidates.count_queues())


class Classes(NamedTuple):
    """Columns ``(C,)`` of all classes so far, made anew when a class is added."""

    queue: RowVec
    shape: RowVec
    size: IntVec
    priority: IntVec
    is_preemptible: BoolVec
    ask: Amounts
    """``(R, C)`` what one job of the class asks for."""


class Backlog:
    """Waiting jobs by class, each class a sorted list."""

    def __init__(self, session: Session) -> None:
        """Start with no rows."""
        self.changes = Changes(session)
        self._where: dict[int, tuple[int, tuple[Any, ...]]] = {}
        self._named: dict[tuple[int, int, int, int, bool], int] = {}
        self._classes: Classes | None = None
        self._postponed: list[int] = []
        """Rows that a move of this cycle has changed: the next cycle sorts them in."""
        self.lists: list[list[tuple[Any, ...]]] = []
        """By class, an entry for each job in order; the job's row is its last field."""
        self.waits: IntVec = np.zeros(0, np.int64)
        """``(C,)`` jobs of each class."""
        self.class_of_row: RowVec = np.zeros(0, np.int64)
        """``(J,)`` -1 for jobs that are in no class."""
        self.gated: dict[int, int] = {}
        """Waiting jobs that the plugins' job gate refuses, with the code."""
        self.odd: set[int] = set()
        """Waiting jobs that do not fit the classes."""
        self._ordered: RowVec = np.zeros(0, np.int64)
        """The rows of all classes by queue and job order, as of the last call of :meth:`rows`."""
        self._unordered: set[int] = set()
        """Rows that came or left since then."""

    # -- keeping up ------------------------------------------------------------------------------

    def take_in(self, session: Session, action: str) -> None:
        """Sort in the rows that have changed since the last call."""
        rows = self.changes.look(session)
        more = self.changes.rows - len(self.class_of_row)
        if more > 0:
            self.class_of_row = np.concatenate((self.class_of_row, np.full(more, -1)))
        if self._postponed:
            rows = sorted({*rows, *self._postponed})
            self._postponed = []
        for row in rows:
            self._forget(row)
        if not rows:
            return
        jobs = session.jobs
        pending, refusal = jobs.pending, jobs.refusal
        waits = [row for row in rows if pending[row] > 0 and refusal[row] == 0]
        if not waits:
            return
        waiting = np.array(waits, np.int64)
        if session.has_moved:
            # Plugins would answer for the job as this cycle has changed it.
            ledger = session.ledger
            moved = (ledger.job_pending[waiting] != pending[waiting]) | (
                ledger.job_active[waiting] != jobs.active[waiting]
            )
            self._postponed = waiting[moved].tolist()
            waiting = waiting[~moved]
        codes = session.ask.job_gate(session, action, waiting)
        if codes is not None and codes.any():
            refused = codes != 0
            self.gated.update(zip(waiting[refused].tolist(), codes[refused].tolist(), strict=True))
            waiting = waiting[~refused]
        self._sort_in(session, waiting)

    def _forget(self, row: int) -> None:
        self.gated.pop(row, None)
        self.odd.discard(row)
        known = self._where.pop(row, None)
        if known is not None:
            index, entry = known
            entries = self.lists[index]
            del entries[bisect_left(entries, entry)]
            self.waits[index] -= 1
            self.class_of_row[row] = -1
            self._unordered.add(row)

    def _sort_in(self, session: Session, rows: RowVec) -> None:
        jobs = session.jobs
        size = session.ask.batch_size(session, rows)
        shape = jobs.shape_of_job[rows]
        is_whole = (jobs.podset_count[rows] == 1) & (shape >= 0) & (size == jobs.pending[rows])
        self.odd.update(rows[~is_whole].tolist())
        rows, size, shape = rows[is_whole], size[is_whole], shape[is_whole]
        if not rows.size:
            return
        names = jobs.name
        keys = [key.tolist() for key in session.ask.job_order(session, rows)]
        keys.append(jobs.created_s[rows].tolist())
        keys.append([names[row] for row in rows.tolist()])
        columns = (jobs.queue_of_job[rows], shape, size, jobs.priority[rows])
        named = zip(
            *(column.tolist() for column in columns),
            jobs.is_preemptible[rows].tolist(),
            strict=True,
        )
        for row, name, *key in zip(rows.tolist(), named, *keys, strict=True):
            index = self._named.get(name)
            if index is None:
                index = self._join(name)
            entry = (*key, row)
            insort(self.lists[index], entry)
            self.waits[index] += 1
            self.class_of_row[row] = index
            self._where[row] = (index, entry)
            self._unordered.add(row)

    def _join(self, name: tuple[int, int, int, int, bool]) -> int:
        index = self._named[name] = len(self.lists)
        self.lists.append([])
        self.waits = np.append(self.waits, 0)
        self._classes = None
        return index

    # -- answering -------------------------------------------------------------------------------

    def classes(self, session: Session) -> Classes:
        """Return the columns of the classes."""
        classes = self._classes
        if classes is None:
            rows = np.array(list(self._named), np.int64).reshape(-1, 5).T
            queue, shape, size, priority, is_preemptible = rows.copy()
            ask = session.shapes.charge.take(shape, axis=1) * size
            classes = Classes(queue, shape, size, priority, is_preemptible != 0, ask)
            self._classes = classes
        return classes

    def moved(self, session: Session) -> list[int] | None:
        """Return the jobs that this cycle has placed; None if it changed a job that still waits.

        Such a job may need other pods than before: it has lost or got some of them.
        """
        if not session.has_moved:
            return []
        jobs, ledger = session.jobs, session.ledger
        rows = (ledger.job_pending != jobs.pending).nonzero()[0]
        if np.count_nonzero(ledger.job_pending.take(rows)):
            return None
        evictions = session.outcome.evictions
        if evictions:
            lost = session.tasks.job_of_task[[eviction.task for eviction in evictions]]
            if np.count_nonzero(self.class_of_row.take(lost) >= 0):
                return None
        moved: list[int] = rows.tolist()
        return moved

    def heads(self, session: Session, action: str, moved: list[int]) -> Candidates | None:
        """Return the first jobs of every class that fits, or None when too much fits.

        Jobs that were ``moved`` are left out: they wait no more.
        """
        self.note_gated(session)
        classes = self.classes(session)
        tried = self.tried(session, claims=False)
        bound = session.placement.upper_bound(classes.shape.take(tried))
        has_room = bound >= classes.size.take(tried)
        fits, bound = tried[has_room], bound[has_room]
        most = int(bound.max(initial=0))
        queue = classes.queue[fits]
        if not are_few(most, int(np.count_nonzero(np.bincount(queue)))):
            session.hints[_SCARCE] = False
            return None
        if session.ask.gates(session, action):
            rows = self.rows_of(session, fits, moved)
            return drop_gated(session, action, _candidates(session, rows, most))
        if len(fits) >= _MANY:
            return _candidates(session, self.rows_of(session, fits, moved), most)
        first: list[tuple[Any, ...]] = []
        columns = (fits, bound, classes.size[fits], queue)
        for index, room, size, of_queue in zip(*(each.tolist() for each in columns), strict=True):
            # One job more than fits: it remains its queue's head until its turn.
            entries: Iterable[tuple[Any, ...]] = self.lists[index]
            if moved:
                entries = (entry for entry in entries if entry[-1] not in moved)
            first.extend((of_queue, *entry) for entry in islice(entries, room // size + 1))
        first.sort()
        return _candidates(session, np.array([entry[-1] for entry in first], np.int64), most)

    def rows_of(self, session: Session, classes: RowVec, moved: list[int]) -> RowVec:
        """Return the rows of some classes by queue and job order, without those ``moved``."""
        is_asked = np.zeros(len(self.lists) + 1, np.bool_)  # the last: of no class
        is_asked[classes] = True
        rows = self._rows(session)
        rows = rows[is_asked.take(self.class_of_row.take(rows))]
        return rows[~np.isin(rows, moved)] if moved else rows

    def _rows(self, session: Session) -> RowVec:
        """Return the rows of all classes by queue and job order; sort in those that changed."""
        if not self._unordered:
            return self._ordered
        queue_of_job, where = session.jobs.queue_of_job, self._where

        def key(row: int) -> tuple[Any, ...]:
            return int(queue_of_job[row]), *where[row][1]

        is_kept = self.class_of_row.take(self._ordered) >= 0
        is_kept[np.isin(self._ordered, list(self._unordered))] = False
        kept = self._ordered[is_kept]
        new = sorted((row for row in self._unordered if row in where), key=key)
        places = [bisect_left(kept, key(row), key=key) for row in new] if kept.size else 0
        self._ordered = np.insert(kept, places, new)
        self._unordered = set()
        return self._ordered

    def tried(self, session: Session, *, claims: bool) -> RowVec:
        """Return the classes with waiting jobs that this cycle does not put off.

        With ``claims`` return the classes for which pods may be evicted.
        """
        waits = self.waits > 0
        rations = rations_of(session)
        if rations is not None:
            off = self.class_of_row[rations.claims_off if claims else rations.off]
            waits[off[off >= 0]] = False
        tried: RowVec = waits.nonzero()[0]
        return tried

    def note_gated(self, session: Session) -> None:
        """Note the refusals of the jobs that the job gate refuses."""
        if self.gated:
            codes: CodeVec = np.array(list(self.gated.values()), np.int16)
            session.outcome.refusal[list(self.gated)] = codes


def _candidates(session: Session, job: RowVec, most: int) -> Candidates:
    jobs = session.jobs
    return Candidates(
        job,
        jobs.queue_of_job[job],
        jobs.shape_of_job[job],
        jobs.pending[job],
        {},
        most,
        is_sorted=True,
    )
