"""Pending tasks of a job that has just been added, in consecutive rows."""

from __future__ import annotations

from collections.abc import Sequence

from kaisched.cluster.accounts import Accounts


def add_only_task(accounts: Accounts, job: int, name: str, shape: int) -> None:
    """Do the same as :func:`add_tasks` for the one task most jobs have, without arrays."""
    rows, jobs, queues = accounts.tasks, accounts.jobs, accounts.queues
    podset, queue = jobs.first_podset.cells[job], jobs.queue_of_job.cells[job]
    task = rows.append(name, name, shape, job, podset)
    rows.created_s.cells[task] = jobs.created_s.cells[job]
    jobs.first_task.cells[job] = task
    jobs.tasks.data[job] = range(task, task + 1)
    jobs.pending.cells[job] = 1
    accounts.podsets.pending.cells[podset] = 1
    jobs.shape_of_job.cells[job] = shape
    if queue >= 0:
        queues.pending.add(queue, accounts.shapes.charge_of_shape[shape])


def add_tasks(accounts: Accounts, job: int, tasks: Sequence[tuple[str, int]]) -> None:
    """Add (name, shape) of each task to the first pod set of a job that has none yet."""
    rows, jobs, shapes = accounts.tasks, accounts.jobs, accounts.shapes
    podset, queue = int(jobs.first_podset.data[job]), int(jobs.queue_of_job.data[job])
    count = len(tasks)
    first = rows.reserve(count)
    end = first + count
    names = [name for name, _ in tasks]
    shape_of_task = [shape for _, shape in tasks]
    rows.name.data.extend(names)
    rows.uid.data.extend(names)
    rows.row_of_name.update(zip(names, range(first, end), strict=True))
    rows.job_of_task.data[first:end] = job
    rows.podset_of_task.data[first:end] = podset
    rows.shape_of_task.data[first:end] = shape_of_task
    rows.created_s.data[first:end] = jobs.created_s.data[job]
    jobs.first_task.data[job] = first
    jobs.tasks.data[job] = range(first, end)
    jobs.pending.data[job] = count
    accounts.podsets.pending.data[podset] = count
    shape = shape_of_task[0]
    if shape_of_task.count(shape) == count:
        jobs.shape_of_job.data[job] = shape
        asked = shapes.charge.data[:, shape] * count
    else:
        asked = shapes.charge.data[:, shape_of_task].sum(axis=1)
    if queue >= 0:
        accounts.queues.pending.own()[:, queue] += asked
