"""Queues of which work without GPUs never gives way to quotas of GPUs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from kaisched.core.axis import CPU, GPU, MEMORY, TaskState
from kaisched.errors import ObjectError
from kaisched.objects.faults import Source
from kaisched.objects.queue import Queue

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kaisched.core.snapshot import Snapshot
    from kaisched.objects.load import Loaded


def unbounded(snapshot: Snapshot, loaded: Loaded, by_projects: bool) -> Iterator[ObjectError]:
    """Yield each queue with a job without GPUs, in it or below, and no quota of CPU or memory.

    It deserves any amount of what it does not mention. So its job can fill a node of which the GPUs
    are another queue's quota. By projects, inner queues have no quota.
    """
    queues, tasks, names = snapshot.queues, snapshot.tasks, snapshot.axis.names
    mentioned = {queue.name: queue.spec.resources for queue in loaded.of(Queue)}
    living = ((tasks.state != int(TaskState.GONE)) & (tasks.job_of_task >= 0)).nonzero()[0]
    asks = snapshot.shapes.charge.take(tasks.shape_of_task[living], axis=1)
    owner = snapshot.jobs.queue_of_job[tasks.job_of_task[living]]
    without = (owner >= 0) & (asks[GPU] == 0)
    first = 1 if by_projects else None
    leaves = np.unique(owner[without]).tolist()
    path = {row: queues.tree.path(row)[:first].tolist() for row in leaves}
    for row in sorted({each for rows in path.values() for each in rows}):
        below, name = range(row, int(queues.tree.end_of_queue[row])), queues.name[row]
        others = np.setdiff1d(np.arange(len(queues)), [*queues.tree.path(row), *below])
        if not (queues.deserved[GPU, others] > 0).any():
            continue
        source = loaded.sources.get((Queue.KIND, name), Source())
        for resource in (CPU, MEMORY):
            at = without & (owner >= below.start) & (owner < below.stop) & (asks[resource] > 0)
            if names[resource] in mentioned.get(name, names) or not at.any():
                continue
            job = snapshot.jobs.name[int(tasks.job_of_task[living[at][0]])]
            yield ObjectError(
                f"deserves {names[resource]} without bound, as it does not mention it: work without"
                f" GPUs, such as {job}, never gives way to the GPUs of other queues' quotas",
                file=source.file,
                document=source.document,
                kind=Queue.KIND,
                name=name,
                path=f"spec.resources.{names[resource]}.quota",
                fix="write a quota, 0 for none; or -1 to have it so",
            )
