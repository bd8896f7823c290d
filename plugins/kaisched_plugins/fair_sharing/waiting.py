"""The jobs that wait, by queue, as those that would start if a plan made room for them."""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from kaisched import Amounts, Session
from kaisched_plugins.fair_sharing.allowed import Rules
from kaisched_plugins.fair_sharing.choosing import standing
from kaisched_plugins.fair_sharing.tables import Table
from kaisched_plugins.fair_sharing.work import Work

_WAITING: Final = "fair-sharing.waiting"
_CONSTRAINTS: Final = (
    "node_selector",
    "node_terms",
    "node_types",
    "queue_terms",
    "host_ports",
    "pod_affinity",
    "pod_anti_affinity",
    "volume_terms",
    "wait",
)
"""A job with one of them may fit nowhere, whatever is free: nothing is declined for its sake."""


class Class(NamedTuple):
    """Waiting jobs of one queue that ask for the same."""

    queue: int
    shape: int
    jobs: list[int]
    """The first to be served first."""


def waiting_of(session: Session, table: Table) -> dict[int, list[Class]]:
    """Return the classes of waiting jobs by queue; whether they still wait is asked later.

    Those of the queues in a pool are the pool's.
    """
    known: dict[int, list[Class]] | None = session.found.get(_WAITING)
    if known is not None:
        return known
    jobs = session.jobs
    waits = (jobs.pending > 0) & (jobs.queue_of_job >= 0) & (jobs.refusal == 0)
    rows = np.flatnonzero(waits & (jobs.shape_of_job >= 0))
    rows = rows[np.lexsort((rows, jobs.created_s[rows], -jobs.priority[rows]))]
    podset = jobs.first_podset[rows]
    columns = (
        jobs.queue_of_job[rows],
        jobs.shape_of_job[rows],
        session.podsets.minimum[podset],
        jobs.active[rows],
    )
    classes: dict[tuple[int, ...], Class] = {}
    for row, *key in zip(rows.tolist(), *(column.tolist() for column in columns), strict=True):
        made = classes.get(tuple(key))
        if made is None:
            made = classes[tuple(key)] = Class(key[0], key[1], [])
        made.jobs.append(row)
    constraints = session.shapes.constraints
    found: dict[int, list[Class]] = {}
    for each in classes.values():
        if not any(getattr(constraints[each.shape], name) for name in _CONSTRAINTS):
            found.setdefault(int(table.home[each.queue]), []).append(each)
    session.found[_WAITING] = found
    return found


def first_of(session: Session, each: Class) -> int:
    """Return the first job of a class that still waits, or -1."""
    return next((job for job in each.jobs if session.pending_count(job)), -1)


def free_on_nodes(session: Session) -> Amounts:
    """``(R,)`` what is free on all nodes, with the victims gone."""
    nodes = np.arange(len(session.nodes.name))
    resources = range(len(session.axis))
    free = [np.maximum(session.free(at, nodes), 0).sum() for at in resources]
    return np.array(free, np.int64)


def waiting_work(session: Session, rules: Rules, table: Table, job: int, amounts: Amounts) -> Work:
    """Return a waiting job as work that asks."""
    jobs = session.jobs
    priority = int(jobs.priority[job])
    return Work(
        job,
        int(table.home[jobs.queue_of_job[job]]),
        table.ask(amounts),
        priority,
        float(jobs.created_s[job]),
        name=jobs.name[job],
        usage=rules.used_by(int(jobs.queue_of_job[job])),
        standing=standing(session, job),
        is_high=rules.is_high(priority),
    )
