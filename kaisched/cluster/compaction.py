"""Dropping the rows of ended jobs and gone tasks once they outnumber the living."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from kaisched.cluster.accounts import Accounts
from kaisched.cluster.rows import renumber
from kaisched.cluster.shapes import LabelRows
from kaisched.core.axis import BoolVec, RowVec

_SLACK: Final = 1024
"""So many dead rows are not worth the work."""


@dataclass(frozen=True, slots=True)
class Remap:
    """New row of each old one, -1 for dropped ones: ``(J,)`` for jobs and ``(T,)`` for tasks."""

    job: RowVec
    task: RowVec


def is_due(accounts: Accounts) -> bool:
    """Tell whether dead rows outnumber living ones by far."""
    jobs, tasks = accounts.jobs, accounts.tasks
    return (
        2 * tasks.gone > tasks.size + _SLACK
        or 2 * jobs.dead > jobs.size + _SLACK
        or 2 * len(accounts.podsets.dropped) > accounts.podsets.size + _SLACK
    )


def compact(accounts: Accounts, labels: LabelRows) -> Remap:
    """Keep only living jobs with their pod sets and the tasks that are not gone, in their order."""
    jobs, podsets, tasks = accounts.jobs, accounts.podsets, accounts.tasks
    is_live = ~np.array(jobs.is_dead, np.bool_)
    kept_jobs, job_map = _mapping(is_live)
    is_used = is_live[podsets.job_of_podset.data[: podsets.size]]
    is_used[sorted(podsets.dropped)] = False
    kept_podsets, podset_map = _mapping(is_used)
    kept_tasks, task_map = _mapping(tasks.live())

    jobs.keep(kept_jobs, job_map, podset_map, task_map)
    podsets.keep(kept_podsets, job_map)
    tasks.keep(kept_tasks, job_map, podset_map)
    _keep_shapes(accounts, labels)
    return Remap(job_map[:-1], task_map[:-1])


def _keep_shapes(accounts: Accounts, labels: LabelRows) -> None:
    """Drop the shapes and label sets of which no task is left: names of pods end up in labels."""
    jobs, tasks, shapes = accounts.jobs, accounts.tasks, accounts.shapes
    is_used = np.zeros(len(shapes), np.bool_)
    is_used[tasks.shape_of_task.data[: tasks.size]] = True
    is_used[:] |= shapes.are_pinned
    kept, shape_map = _mapping(is_used)
    of_shapes = [shapes.constraints.data[row].label_set for row in kept.tolist()]
    is_seen = np.zeros(len(labels.labels.data) + 1, np.bool_)  # the last one stands for "none"
    is_seen[tasks.label_set_of_task.data[: tasks.size]] = True
    is_seen[of_shapes] = True
    kept_labels, label_map = _mapping(is_seen[:-1])
    shapes.keep(kept, label_map)
    labels.keep(kept_labels)
    renumber(tasks.shape_of_task.data, tasks.size, shape_map)
    renumber(jobs.shape_of_job.data, jobs.size, shape_map)
    renumber(tasks.label_set_of_task.data, tasks.size, label_map)


def _mapping(is_kept: BoolVec) -> tuple[RowVec, RowVec]:
    """Return the kept rows, and the new row of each old one with -1 at the end for "none"."""
    kept = np.flatnonzero(is_kept)
    mapping = np.full(len(is_kept) + 1, -1, np.int64)
    mapping[kept] = np.arange(len(kept))
    return kept, mapping
