"""How long jobs may still run, and how they are queued again when their time is over."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import numpy as np

from kaisched.core.tables import NO_LIMIT_S

if TYPE_CHECKING:
    from kaisched.core.axis import FloatVec, RowVec
    from kaisched.core.tables import JobTable, QueueTable

FACT: Final = "timelimit"
"""When the time of jobs was last over, by name, in seconds since 1970."""


def limits_s(queues: QueueTable, jobs: JobTable, job: RowVec) -> FloatVec:
    """Return ``(K,)`` how long jobs may run at a stretch, NO_LIMIT_S where nothing limits it."""
    queue = jobs.queue_of_job[job]
    if queues.max_run_time_s is None:
        return np.full(len(job), NO_LIMIT_S)
    kinds = jobs.is_preemptible[job].astype(np.int64), jobs.workload_of(job)
    found: FloatVec = np.where(queue >= 0, queues.max_run_time_s[*kinds, queue], NO_LIMIT_S)
    return found


def limited_jobs(queues: QueueTable, jobs: JobTable) -> tuple[RowVec, FloatVec]:
    """Return the running jobs whose time is limited, and when it is over."""
    if queues.max_run_time_s is None:
        return np.empty(0, np.int64), np.empty(0)
    rows: RowVec = np.flatnonzero(jobs.active > 0)
    ends_s = jobs.last_start_s[rows] + limits_s(queues, jobs, rows)
    is_limited = np.isfinite(ends_s)  # nobody knows the start of some, for a moment
    return rows[is_limited], ends_s[is_limited]


def limiting_queue(queues: QueueTable, jobs: JobTable, job: int) -> str:
    """Return the name of the queue whose limit holds for a job: the topmost with that limit."""
    limit_s = queues.max_run_time_s
    queue = int(jobs.queue_of_job[job])
    if limit_s is None or queue < 0:
        return ""
    row = np.array([job])
    of_queue = limit_s[int(jobs.is_preemptible[job]), int(jobs.workload_of(row)[0])]
    parent = int(queues.tree.parent_of_queue[queue])
    while parent >= 0 and of_queue[parent] == of_queue[queue]:
        queue, parent = parent, int(queues.tree.parent_of_queue[parent])
    return queues.name[queue]


def requeued(jobs: JobTable, facts: Mapping[str, object]) -> JobTable:
    """Return the jobs, those whose time was over as old as that is.

    So they stand behind their equals, wherever the age of a job counts. Without such jobs the table
    is the same object.
    """
    since = facts.get(FACT)
    if not (since and isinstance(since, Mapping)):
        return jobs
    created_s = jobs.created_s.copy()
    for row, name in enumerate(jobs.name):
        if name in since:
            created_s[row] = max(created_s[row], since[name])
    created_s.setflags(write=False)
    return replace(jobs, created_s=created_s)
