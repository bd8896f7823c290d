"""Proposes cures for refusals of proportion: other bounds, the end of work, preemptibility."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from kaisched import (
    ACTIVE_STATES,
    GPU,
    PODS,
    UNLIMITED,
    Change,
    Kind,
    Proposal,
    Session,
    asked_of,
    charges,
    end_of_work,
    larger_bounds,
    roll_up,
)
from kaisched_plugins.proportion import refusals


def cures(session: Session, job: int, code: int) -> Iterator[Proposal]:
    """Yield the changes to try for a job that is refused with a code, likely ones first."""
    queues = session.queues
    if code == refusals.OVER_LIMIT:
        yield from larger_bounds(session, job, Kind.LIMIT, queues.limit)
        yield from end_of_work(session, job, queues.limit)
    else:
        yield from larger_bounds(session, job, Kind.QUOTA, queues.deserved)
        if code == refusals.OVER_QUOTA:
            yield Kind.PREEMPTIBLE, (Change(session.jobs.name[job]),)
            yield from end_of_work(session, job, queues.deserved)
        elif code == refusals.NOT_OVER_SHARE:
            yield from _bounds_of_others(session, job)


def _bounds_of_others(session: Session, job: int) -> Iterator[Proposal]:
    """Yield a quota for the queue that holds most of a resource without GPUs and without a quota.

    Of all that the job asks for; a queue above may lack the quota, too. A queue that mentions GPUs
    alone deserves all the rest without bound, so that its work without GPUs gives way to nobody.
    With the quota it keeps what its work on GPUs holds.
    """
    queues, tree, tasks = session.queues, session.queues.tree, session.tasks
    running = np.flatnonzero(ACTIVE_STATES[tasks.state] & (tasks.job_of_task >= 0))
    queue = session.jobs.queue_of_job[tasks.job_of_task[running]]
    running, queue = running[queue >= 0], queue[queue >= 0]
    held, kept = np.zeros_like(queues.deserved), np.zeros_like(queues.deserved)
    each = charges(session, running)
    for row, amounts in enumerate(each):
        np.add.at(held[row], queue, amounts)
        np.add.at(kept[row], queue, amounts * (each[GPU] > 0))
    kept = roll_up(kept, tree)
    mine = tree.path(int(session.jobs.queue_of_job[job])).tolist()
    is_free = np.append(queues.deserved >= UNLIMITED, np.zeros((len(held), 1), np.bool_), axis=1)
    is_free[:, mine] = False
    on_path = np.any(is_free[:, tree.path_of_leaf], axis=2)  # itself, or a queue above it
    free = np.where(on_path & tree.is_leaf, held - kept, 0)
    free[:, mine] = 0
    for resource in np.flatnonzero(asked_of(session, job) > 0).tolist():
        most = int(free[resource].argmax()) if len(queues) else 0
        if resource not in (GPU, PODS) and len(queues) and free[resource, most] > 0:
            name, apart = session.axis.names[resource], set(tree.path(most).tolist()) - {*mine}
            yield (
                Kind.QUOTA,
                tuple(
                    Change(queues.name[row], name, int(kept[resource, row]))
                    for row in sorted(apart)
                    if queues.deserved[resource, row] >= UNLIMITED
                ),
            )
