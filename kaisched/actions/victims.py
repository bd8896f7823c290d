"""The order in which running work is offered as victims: that of candidates, turned around.

The most over-served queue first, and in it the lowest priority and the youngest job: the same tree
and the same keys, both comparisons reversed. What has been offered counts as gone, from its queue
and from its job: so elastic pods of all jobs of a priority come before the core of any, if the
shard orders its jobs so.
"""

from __future__ import annotations

import heapq
from collections import deque
from itertools import groupby, islice
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from kaisched.actions.units import split

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kaisched.actions.units import Part
    from kaisched.core.axis import Amounts, FloatVec, IntVec, RowVec
    from kaisched.framework.session import Session

_FIRST_BLOCK: Final = 4
_LARGEST_BLOCK: Final = 64
"""Units of one queue whose keys are asked at once; twice as many each time. Guesses."""


def victim_order(session: Session, job: RowVec) -> Iterator[Part]:
    """Return the units of running jobs of ``job`` one by one, the first to be evicted first.

    Jobs of unknown queues are left out. Counts and shares are those of the moment of the call: the
    caller may evict what it is handed without its being taken from its queue twice.
    """
    jobs = session.jobs
    active = session.ledger.job_active if session.has_moved else jobs.active
    job = job[(jobs.queue_of_job[job] >= 0) & (active[job] > 0)]
    surplus = _surplus(session, job)
    held = session.ledger.held if session.has_moved else session.held
    return _drained(session, _leaves(session, job, surplus), held.copy())


def _surplus(session: Session, job: RowVec) -> dict[int, list[Part]]:
    """Return the elastic units of the jobs that have some, by job row."""
    jobs, podsets = session.jobs, session.podsets
    active = session.ledger.podset_active if session.has_moved else podsets.active
    first = jobs.first_podset[job]
    elastic = (jobs.podset_count[job] > 1) | (active[first] > podsets.minimum[first])
    surplus: dict[int, list[Part]] = {}
    for row in job[elastic].tolist():
        parts = [part for part in split(session, row) if not part.is_core]
        if parts:
            surplus[row] = parts
    return surplus


def _leaves(
    session: Session, job: RowVec, surplus: dict[int, list[Part]]
) -> dict[int, Iterator[Part]]:
    """Return each leaf queue's units, last in job order first."""
    if not job.size:
        return {}
    cores = np.array(list(surplus), np.int64)
    rows = np.concatenate((job, cores))
    keys: list[Any] = list(session.ask.job_order(session, job))
    if cores.size:
        later = _keys_without(session, surplus, cores)
        keys = [np.concatenate(pair) for pair in zip(keys, later, strict=True)]
    columns = [session.jobs.queue_of_job[rows], *keys, session.jobs.created_s[rows]]
    order: RowVec = np.lexsort(columns[::-1])
    same = np.ones(len(rows) - 1, np.bool_)
    for key in columns:
        ranked = key[order]
        same &= ranked[1:] == ranked[:-1]
    tie = np.concatenate(([0], np.cumsum(~same)))
    queue = columns[0][order]
    starts = np.flatnonzero(np.diff(queue, prepend=-1))
    parts = zip(np.split(order, starts[1:]), np.split(tie, starts[1:]), strict=True)
    return {
        leaf: _backwards(session, rows, len(job), surplus, *part)
        for leaf, part in zip(queue[starts].tolist(), parts, strict=True)
    }


def _keys_without(
    session: Session, surplus: dict[int, list[Part]], cores: RowVec
) -> list[IntVec | FloatVec]:
    """Return the job order of elastic jobs as it would be with only their cores running."""
    statement = session.statement()
    for parts in surplus.values():
        for part in parts:
            for task in part.tasks:
                statement.evict(task)
    keys = session.ask.job_order(session, cores)
    statement.rollback()
    return keys


def _backwards(
    session: Session,
    rows: RowVec,
    jobs: int,
    surplus: dict[int, list[Part]],
    order: RowVec,
    tie: IntVec,
) -> Iterator[Part]:
    """Yield units from the end; a tie is settled by name only when its turn has come.

    Entries of ``rows`` from ``jobs`` on are the cores of elastic jobs.
    """
    names = session.jobs.name
    pairs = zip(tie[::-1].tolist(), order[::-1].tolist(), strict=True)
    for _, tied in groupby(pairs, lambda pair: pair[0]):
        for at in sorted((at for _, at in tied), key=lambda at: names[int(rows[at])], reverse=True):
            job = int(rows[at])
            if at < jobs and job in surplus:
                yield from surplus[job]
            else:
                yield from (part for part in split(session, job) if part.is_core)


def _drained(session: Session, leaves: dict[int, Iterator[Part]], held: Amounts) -> Iterator[Part]:
    """Merge the leaves' units up the tree, the most over-served sibling first at each level."""
    tree = session.queues.tree
    streams = {leaf: _Stream(session, leaf, units, held) for leaf, units in leaves.items()}
    for level in range(max((int(tree.depth_of_queue[row]) for row in leaves), default=0), 0, -1):
        children: dict[int, list[_Stream]] = {}
        for row in [row for row in streams if tree.depth_of_queue[row] == level]:
            parent = int(tree.parent_of_queue[row])
            children.setdefault(parent, []).append(streams.pop(row))
        for parent, below in children.items():
            streams[parent] = _Stream(session, parent, _merged(below), held)
    return _merged(list(streams.values()))


def _merged(streams: list[_Stream]) -> Iterator[Part]:
    """Yield units of the stream that is served best, as they are given up."""
    if len(streams) == 1:
        yield from streams[0].units  # nobody to compare it with
        return
    heap = [(stream.key, -stream.row, stream) for stream in streams if stream.advance()]
    heapq.heapify(heap)
    while heap:
        _, row, stream = heap[0]
        yield stream.part
        if stream.advance():
            heapq.heapreplace(heap, (stream.key, row, stream))
        else:
            heapq.heappop(heap)


class _Stream:
    """One queue's units, and its key among its siblings before each of them goes.

    Keys depend on what the queue then holds, so that they are asked for a block of units at once.
    """

    __slots__ = ("_block", "_held", "_length", "_session", "key", "part", "row", "units")

    def __init__(self, session: Session, row: int, units: Iterator[Part], held: Amounts) -> None:
        """Stand before the first unit; ``held`` is ``(R, Q)``."""
        self._session = session
        self._held = held[:, row].copy()
        self._block: deque[tuple[tuple[float, ...], Part]] = deque()
        self._length = _FIRST_BLOCK
        self.units = units
        self.row = row

    def advance(self) -> bool:
        """Go to the next unit; False when there is none."""
        if not self._block:
            self._fill()
            if not self._block:
                return False
        self.key, self.part = self._block.popleft()
        return True

    def _fill(self) -> None:
        parts = list(islice(self.units, self._length))
        if not parts:
            return
        self._length = min(2 * self._length, _LARGEST_BLOCK)
        amounts = amounts_of(self._session, parts)
        gone = amounts.cumsum(axis=1)
        before = self._held[:, None] - gone + amounts
        self._held -= gone[:, -1]
        rows = np.full(len(parts), self.row)
        asks = np.zeros_like(before)
        keys = self._session.ask.queue_order(self._session, rows, before, asks)
        # Turned around: who would be served last gives first, and of equals the youngest.
        columns = [(-key.astype(np.float64)).tolist() for key in keys]
        ranked = zip(*columns, strict=True) if columns else [()] * len(parts)
        self._block.extend(zip(ranked, parts, strict=True))


def amounts_of(session: Session, parts: Sequence[Part]) -> Amounts:
    """``(R, V)`` what units hold."""
    request, shape_of_task = session.shapes.request, session.tasks.shape_of_task
    sizes = [len(part.tasks) for part in parts]
    flat = [task for part in parts for task in part.tasks]
    each = request.take(shape_of_task[flat], axis=1)
    if len(flat) == len(sizes):
        return each
    return np.add.reduceat(each, np.cumsum([0, *sizes[:-1]]), axis=1)
