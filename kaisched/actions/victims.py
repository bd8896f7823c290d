"""The order in which running work is offered as victims: that of candidates, turned around.

The most over-served queue first, and in it the lowest priority and the youngest job: the same tree
and the same keys, both comparisons reversed. What has been offered counts as gone, from its queue
and from its job: so elastic pods of all jobs of a priority come before the core of any, if the
shard orders its jobs so.
"""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING, Any

import numpy as np

from kaisched.actions.units import split

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kaisched.actions.units import Part
    from kaisched.core.axis import Amounts, FloatVec, IntVec, RowVec
    from kaisched.framework.session import Session


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
    """Yield units; ``held`` is worked down as they go."""
    tree, shape_of_task = session.queues.tree, session.tasks.shape_of_task
    request = session.shapes.request
    children: dict[int, list[int]] = {}  # only queues with victims left; -1 is above the roots
    for queue in sorted({queue for leaf in leaves for queue in tree.path(leaf).tolist()}):
        children.setdefault(int(tree.parent_of_queue[queue]), []).append(queue)
    while children:
        queue = -1
        while queue in children:
            queue = _most_served(session, children[queue], held)
        path = tree.path(queue)
        part = next(leaves[queue], None)
        if part is None:
            _take_out(children, path.tolist())
            continue
        for task in part.tasks:
            held[:, path] -= request[:, [shape_of_task[task]]]
        yield part


def _most_served(session: Session, siblings: list[int], held: Amounts) -> int:
    """Return the queue that would be served last if each asked for nothing more."""
    if len(siblings) == 1:
        return siblings[0]
    rows = np.array(siblings)
    now = held.take(rows, axis=1)
    best = np.arange(len(rows))
    for key in session.ask.queue_order(session, rows, now, np.zeros_like(now)):
        keys = key[best]
        best = best[keys == keys.max()]
    # Siblings stand oldest first, so among equals the last is the youngest.
    return siblings[int(best[-1])]


def _take_out(children: dict[int, list[int]], path: list[int]) -> None:
    """Forget a leaf without further victims, and the queues above that have no other."""
    for queue, parent in zip(path, [*path[1:], -1], strict=True):
        children[parent].remove(queue)
        if children[parent]:
            return
        del children[parent]
