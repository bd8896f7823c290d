"""Jobs that come while a forecast looks ahead: rows appended to its snapshot, absent at first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from kaisched.cluster.rows import LOWEST_PRIORITY, RARE
from kaisched.core.metadata import NO_METADATA
from kaisched.core.snapshot import Snapshot
from kaisched.core.states import TaskState


class NewJob(NamedTuple):
    """A gang of equal pods that comes at an instant, in seconds since 1970."""

    at_s: float
    queue: int
    shape: int
    pods: int
    minimum: int
    priority: int
    is_preemptible: bool


def with_jobs(snapshot: Snapshot, new: Sequence[NewJob]) -> tuple[Snapshot, range]:
    """Return a snapshot with rows for more jobs, whose pods are gone, and these rows."""
    if not new:
        return snapshot, range(0)
    jobs, tasks, podsets = snapshot.jobs, snapshot.tasks, snapshot.podsets
    first, count = len(jobs.name), len(new)
    first_task, first_podset = len(tasks.name), len(podsets.name)
    pods = np.array([it.pods for it in new], np.int64)
    ends = first_task + np.cumsum(pods)
    begins = ends - pods
    rows, job_of = np.arange(first, first + count), np.repeat(np.arange(count), pods)
    shape = np.array([it.shape for it in new], np.int64)
    created_s = np.array([it.at_s for it in new], np.float64)
    queue = np.array([it.queue for it in new], np.int64)
    names = [f"forecast/{number}" for number in range(count)]
    more_jobs = {
        "queue_of_job": queue,
        "priority": [it.priority for it in new],
        "is_preemptible": [it.is_preemptible for it in new],
        "created_s": created_s,
        "refusal": np.zeros(count),
        "first_task": begins,
        "first_podset": first_podset + np.arange(count),
        "podset_count": np.ones(count),
        "shape_of_job": shape,
        "active": np.zeros(count),
        "pending": np.zeros(count),
        "last_start_s": np.full(count, np.nan),
        "rare": np.tile(RARE, (count, 1)),
        "metadata_version": np.zeros(count),
    }
    more_tasks = {
        "job_of_task": rows[job_of],
        "podset_of_task": first_podset + job_of,
        "shape_of_task": shape[job_of],
        "state": np.full(len(job_of), int(TaskState.GONE)),
        "node_of_task": np.full(len(job_of), -1),
        "nominated_node": np.full(len(job_of), -1),
        "order_priority": np.full(len(job_of), LOWEST_PRIORITY),
        "created_s": created_s[job_of],
        "label_set_of_task": np.full(len(job_of), -1),
    }
    pod_names = [f"{names[job]}-{number}" for number, job in enumerate(job_of.tolist())]
    return replace(
        snapshot,
        jobs=replace(
            jobs,
            name=[*jobs.name, *names],
            tasks=[*jobs.tasks, *map(range, begins.tolist(), ends.tolist())],
            queue_name=[*jobs.queue_name[:first], *(snapshot.queues.name[it] for it in queue)],
            metadata=[*jobs.metadata, *[NO_METADATA] * count],
            **_longer(jobs, more_jobs),
        ),
        podsets=replace(
            podsets,
            name=[*podsets.name, *["default"] * count],
            **_longer(
                podsets,
                {
                    "job_of_podset": rows,
                    "minimum": [it.minimum for it in new],
                    "active": np.zeros(count),
                    "pending": np.zeros(count),
                },
            ),
        ),
        tasks=replace(
            tasks,
            name=[*tasks.name, *pod_names],
            uid=[*tasks.uid, *pod_names],
            **_longer(tasks, more_tasks),
        ),
    ), range(first, first + count)


def _longer(table: Any, more: dict[str, Any]) -> dict[str, Any]:
    """Return columns of a table with more rows, in their own types."""
    columns = {name: getattr(table, name) for name in more}
    return {
        name: np.concatenate([column, np.asarray(more[name]).astype(column.dtype)])
        for name, column in columns.items()
    }
