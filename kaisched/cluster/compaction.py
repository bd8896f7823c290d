"""Dropping the rows of ended jobs and gone tasks once they outnumber the living."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final, TypeVar

import numpy as np

from kaisched.cluster.accounts import Accounts
from kaisched.cluster.columns import ListColumn
from kaisched.cluster.shapes import LabelRows
from kaisched.core.axis import BoolVec, RowVec
from kaisched.core.tables import SubGroup

T = TypeVar("T")

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

    jobs.keep_columns(kept_jobs)
    podsets.keep_columns(kept_podsets)
    tasks.keep_columns(kept_tasks)
    _renumber(tasks.job_of_task.data, tasks.size, job_map)
    _renumber(tasks.podset_of_task.data, tasks.size, podset_map)
    _renumber(podsets.job_of_podset.data, podsets.size, job_map)
    _renumber(jobs.first_podset.data, jobs.size, podset_map)
    podsets.dropped = set()
    _keep_list(podsets.name, kept_podsets)
    _keep_list(tasks.name, kept_tasks)
    _keep_list(tasks.uid, kept_tasks)
    tasks.row_of_name = {name: row for row, name in enumerate(tasks.name.data)}
    tasks.gone = 0
    _keep_jobs(accounts, kept_jobs, job_map, podset_map, task_map)
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
    _renumber(tasks.shape_of_task.data, tasks.size, shape_map)
    _renumber(jobs.shape_of_job.data, jobs.size, shape_map)
    _renumber(tasks.label_set_of_task.data, tasks.size, label_map)


def _keep_jobs(
    accounts: Accounts, kept: RowVec, job_map: RowVec, podset_map: RowVec, task_map: RowVec
) -> None:
    jobs = accounts.jobs
    rows = kept.tolist()
    _keep_list(jobs.name, kept)
    _keep_list(jobs.metadata, kept)
    jobs.queue_name = [jobs.queue_name[row] for row in rows]
    jobs.is_dead = [False] * len(rows)
    jobs.dead = 0
    jobs.row_of_name = {name: row for row, name in enumerate(jobs.name.data)}
    jobs.replace_structure(
        {
            int(job_map[job]): _renumbered_tree(tree, podset_map)
            for job, tree in jobs.structure.items()
            if job_map[job] >= 0
        }
    )
    old_tasks = jobs.tasks.data
    jobs.tasks.replace([_renumbered(old_tasks[row], task_map) for row in rows])
    first = [tasks[0] if tasks else -1 for tasks in jobs.tasks.data]
    jobs.first_task.data[: len(rows)] = first


def _mapping(is_kept: BoolVec) -> tuple[RowVec, RowVec]:
    """Return the kept rows, and the new row of each old one with -1 at the end for "none"."""
    kept = np.flatnonzero(is_kept)
    mapping = np.full(len(is_kept) + 1, -1, np.int64)
    mapping[kept] = np.arange(len(kept))
    return kept, mapping


def _renumber(column: RowVec, size: int, mapping: RowVec) -> None:
    column[:size] = mapping[column[:size]]


def _renumbered(tasks: range | tuple[int, ...], mapping: RowVec) -> range | tuple[int, ...]:
    new = [row for row in mapping[list(tasks)].tolist() if row >= 0] if tasks else []
    if new and new[-1] - new[0] == len(new) - 1 and new == sorted(new):
        return range(new[0], new[-1] + 1)
    return tuple(new)


def _renumbered_tree(tree: SubGroup, mapping: RowVec) -> SubGroup:
    children = tuple(_renumbered_tree(child, mapping) for child in tree.children)
    return replace(tree, podset=int(mapping[tree.podset]), children=children)


def _keep_list(column: ListColumn[T], kept: RowVec) -> None:
    column.replace([column.data[row] for row in kept.tolist()])
