"""Jobs that come while a forecast looks ahead: rows appended to its snapshot, absent at first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from kaisched.cluster.rows import LOWEST_PRIORITY, RARE
from kaisched.core.axis import IntVec, TaskState
from kaisched.core.snapshot import Snapshot
from kaisched.core.tables import NO_METADATA, UNPROTECTED


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
    of = np.repeat(np.arange(count), [it.pods for it in new])
    ends = len(tasks.name) + np.cumsum([it.pods for it in new])
    begins = ends - [it.pods for it in new]
    names = [f"forecast/{number}" for number in range(count)]
    pods = [f"{names[job]}-{number}" for number, job in enumerate(of.tolist())]
    budgets = snapshot.disruption_budgets
    if len(budgets):
        of_task = np.append(budgets.of_task, np.full(len(of), UNPROTECTED))
        budgets = replace(budgets, of_task=of_task)
    longer = replace(
        snapshot,
        disruption_budgets=budgets,
        jobs=replace(
            jobs,
            name=[*jobs.name, *names],
            tasks=[*jobs.tasks, *map(range, begins.tolist(), ends.tolist())],
            queue_name=[*jobs.queue_name[:first], *(snapshot.queues.name[it.queue] for it in new)],
            metadata=[*jobs.metadata, *[NO_METADATA] * count],
            **_longer(jobs, _jobs(new, begins, len(podsets.name))),
        ),
        podsets=replace(
            podsets,
            name=[*podsets.name, *["default"] * count],
            **_longer(podsets, _podsets(new, first)),
        ),
        tasks=replace(
            tasks,
            name=[*tasks.name, *pods],
            uid=[*tasks.uid, *pods],
            **_longer(tasks, _tasks(new, of, first, len(podsets.name))),
        ),
    )
    return longer, range(first, first + count)


def _jobs(new: Sequence[NewJob], first_task: IntVec, first_podset: int) -> dict[str, Any]:
    count = len(new)
    return {
        "queue_of_job": [it.queue for it in new],
        "priority": [it.priority for it in new],
        "is_preemptible": [it.is_preemptible for it in new],
        "created_s": [it.at_s for it in new],
        "refusal": np.zeros(count),
        "first_task": first_task,
        "first_podset": first_podset + np.arange(count),
        "podset_count": np.ones(count),
        "shape_of_job": [it.shape for it in new],
        "active": np.zeros(count),
        "pending": np.zeros(count),
        "last_start_s": np.full(count, np.nan),
        "rare": np.tile(RARE, (count, 1)),
        "metadata_version": np.zeros(count),
    }


def _podsets(new: Sequence[NewJob], first_job: int) -> dict[str, Any]:
    count = len(new)
    return {
        "job_of_podset": first_job + np.arange(count),
        "minimum": [it.minimum for it in new],
        "active": np.zeros(count),
        "pending": np.zeros(count),
    }


def _tasks(new: Sequence[NewJob], of: IntVec, first_job: int, first_podset: int) -> dict[str, Any]:
    """Return the columns of the pods; ``of`` is the new job of each."""
    shape, created_s = np.array([it.shape for it in new]), np.array([it.at_s for it in new])
    return {
        "job_of_task": first_job + of,
        "podset_of_task": first_podset + of,
        "shape_of_task": shape[of],
        "state": np.full(len(of), int(TaskState.GONE)),
        "node_of_task": np.full(len(of), -1),
        "nominated_node": np.full(len(of), -1),
        "order_priority": np.full(len(of), LOWEST_PRIORITY),
        "created_s": created_s[of],
        "label_set_of_task": np.full(len(of), -1),
    }


def _longer(table: Any, more: dict[str, Any]) -> dict[str, Any]:
    """Return columns of a table with more rows, in their own types."""
    columns = {name: getattr(table, name) for name in more}
    return {
        name: np.concatenate([column, np.asarray(more[name]).astype(column.dtype)])
        for name, column in columns.items()
    }
