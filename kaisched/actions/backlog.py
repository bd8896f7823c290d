"""The waiting jobs in order, kept between cycles: a full cluster is asked about its heads only.

A hint. In a cluster that is full for weeks each cycle has thousands of waiting jobs, of which room
for one or two has come free. The backlog keeps them sorted in classes of one queue, shape and size,
takes in the rows that changed since the last cycle, and hands out the first few of the classes that
fit: as many as could possibly be placed, and one more. What it hands out decides the same as all
candidates would, and it steps aside (answers None) wherever that cannot be told: several pod sets
or shapes in a job, elastic pods, gates that may close, room being released, or a plugin that does
not promise to look at a job's own row only.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from kaisched.actions.candidates import Candidates
from kaisched.actions.heads import FEW

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from kaisched.core.axis import CodeVec, IntVec, RowVec
    from kaisched.framework.session import Session

_HINT: Final = "backlog"
_SCARCE: Final = "backlog.scarce"
"""Whether little room was left for those who waited the last time all of them were looked at."""
_WORTH: Final = 24
"""Fewer waiting jobs than this are gathered anew faster than kept (measured: 0.2 ms either way)."""


def waiting_heads(session: Session, action: str) -> Candidates | None:
    """Return the only candidates that matter, or None where all have to be gathered."""
    ask = session.ask
    if not session.hints.get(_SCARCE):
        return None
    if session.has_moved or not ask.is_job_bound or session.policy.queue_depth.get(action):
        return None
    if session.jobs_waiting < _WORTH:
        return None
    if session.placement.has_releasing:
        return None
    backlog = session.hints.get(_HINT)
    if not (isinstance(backlog, Backlog) and backlog.serves(session)):
        backlog = session.hints[_HINT] = Backlog(session)
    backlog.take_in(session, action)
    if backlog.odd or ask.gates(session):
        return None
    return backlog.heads(session)


def note_room(session: Session, candidates: Candidates) -> None:
    """Remember whether the next cycle should look at the backlog's heads only."""
    session.hints[_SCARCE] = candidates.most <= FEW


class Backlog:
    """Waiting jobs by class, each class a sorted list."""

    def __init__(self, session: Session) -> None:
        """Start with no rows."""
        self._generation = session.snapshot.generation
        self._queues = session.queues
        self._policy = session.policy
        self._columns: tuple[NDArray[Any], ...] = ()
        self._rows = 0
        self._where: dict[int, tuple[int, tuple[Any, ...]]] = {}
        self._class: dict[tuple[int, int, int], int] = {}
        self._lists: list[list[tuple[Any, ...]]] = []
        self._queue: list[int] = []
        self._shape: list[int] = []
        self._size: list[int] = []
        self._asked: tuple[RowVec, IntVec] | None = None
        """The shapes and the sizes of the classes as columns, made anew when a class joins."""
        self._gated: dict[int, int] = {}
        self.odd: set[int] = set()
        """Waiting jobs that do not fit the classes."""

    def serves(self, session: Session) -> bool:
        """Tell whether row numbers, queues and the plugins' order still mean the same."""
        return (
            self._generation == session.snapshot.generation
            and self._queues is session.queues
            and self._policy is session.policy
        )

    # -- keeping up ------------------------------------------------------------------------------

    def take_in(self, session: Session, action: str) -> None:
        """Sort in what has changed since the last look."""
        rows = self._changed(session)
        for row in rows:
            self._forget(row)
        if not rows:
            return
        pending, refusal = session.jobs.pending, session.jobs.refusal
        waits = [row for row in rows if pending[row] > 0 and refusal[row] == 0]
        if not waits:
            return
        waiting = np.array(waits, np.int64)
        codes = session.ask.job_gate(session, action, waiting)
        if codes is not None and codes.any():
            refused = codes != 0
            self._gated.update(zip(waiting[refused].tolist(), codes[refused].tolist(), strict=True))
            waiting = waiting[~refused]
        self._sort_in(session, waiting)

    def _changed(self, session: Session) -> list[int]:
        """Return the job rows in which something plugins may look at has changed."""
        jobs, podsets = session.jobs, session.podsets
        columns: tuple[NDArray[Any], ...] = (
            jobs.pending,
            jobs.active,
            jobs.refusal,
            jobs.queue_of_job,
            jobs.priority,
            jobs.is_preemptible,
            jobs.shape_of_job,
            jobs.podset_count,
            jobs.created_s,
            podsets.minimum,
        )
        changed = set(range(self._rows, len(jobs.pending)))
        for old, new in zip(self._columns, columns, strict=False):
            if old is new or (old.base is not None and old.base is new.base):
                continue  # the very same buffer: rows are only ever appended to it
            rows = (old != new[: len(old)]).nonzero()[0]
            if new is podsets.minimum:
                rows = podsets.job_of_podset[rows]
            changed.update(rows.tolist())
        self._columns = columns
        self._rows = len(jobs.pending)
        return sorted(changed)

    def _forget(self, row: int) -> None:
        self._gated.pop(row, None)
        self.odd.discard(row)
        known = self._where.pop(row, None)
        if known is not None:
            index, entry = known
            line = self._lists[index]
            del line[bisect_left(line, entry)]

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
        classes = zip(jobs.queue_of_job[rows].tolist(), shape.tolist(), size.tolist(), strict=True)
        for row, named, *key in zip(rows.tolist(), classes, *keys, strict=True):
            index = self._index(named)
            entry = (*key, row)
            insort(self._lists[index], entry)
            self._where[row] = (index, entry)

    def _index(self, named: tuple[int, int, int]) -> int:
        index = self._class.get(named)
        if index is None:
            index = self._class[named] = len(self._lists)
            self._lists.append([])
            self._queue.append(named[0])
            self._shape.append(named[1])
            self._size.append(named[2])
            self._asked = None
        return index

    # -- answering -------------------------------------------------------------------------------

    def heads(self, session: Session) -> Candidates | None:
        """Return the first jobs of every class that fits, or None when too much fits."""
        self._note_gated(session)
        asked = self._asked
        if asked is None:
            columns = np.array(self._shape, np.int64), np.array(self._size, np.int64)
            asked = self._asked = columns
        bound = session.placement.upper_bound(asked[0])
        fits = (bound >= asked[1]).nonzero()[0].tolist()
        first: list[tuple[Any, ...]] = []
        most = 0
        rooms = bound.tolist()
        for index in fits:
            line = self._lists[index]
            if line:
                room, size = rooms[index], self._size[index]
                if room > FEW:
                    session.hints[_SCARCE] = False
                    return None
                most = max(most, room)
                # One more than fits: the next in line stays a queue's head until its turn.
                queue = self._queue[index]
                first.extend((queue, *entry) for entry in line[: room // size + 1])
        first.sort()
        return _candidates(session, np.array([entry[-1] for entry in first], np.int64), most)

    def _note_gated(self, session: Session) -> None:
        if self._gated:
            codes: CodeVec = np.array(list(self._gated.values()), np.int16)
            session.outcome.refusal[list(self._gated)] = codes


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
