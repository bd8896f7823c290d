"""The next batch of one job as of now: its pods by shape, and the sum of their requests."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import numpy as np

from kaisched.core.axis import PODS
from kaisched.framework.session.host import host_of
from kaisched.framework.session.task_order import pending_tasks

if TYPE_CHECKING:
    from kaisched.core.axis import Amounts
    from kaisched.framework.session.view import SessionView


def batch_of(session: SessionView, job: int) -> tuple[list[tuple[int, int]], int]:
    """Return ([(shape, pods)], pods in all) of the job's next batch.

    Shapes are in the order of their first pods: the numbers of shapes differ from store to store.
    """
    host, jobs = host_of(session), session.jobs
    row = np.array([job])
    if int(jobs.podset_count[job]) == 1:
        size = int(host.ask.batch_size(host, row)[0])
        if int(jobs.shape_of_job[job]) >= 0:
            return [(int(jobs.shape_of_job[job]), size)], size
        batch = pending_tasks(session, job)[:size]
    else:
        step = host.ask.next_batch(host, job)
        batch = pending_tasks(session, job)[:1] if step is None else step
    counts = Counter(session.tasks.shape_of_task[batch].tolist())
    return list(counts.items()), len(batch)


def asked_of(session: SessionView, job: int) -> Amounts:
    """``(R,)`` what the job's next batch asks for."""
    shapes, _ = batch_of(session, job)
    ask = np.zeros(len(session.axis), np.int64)
    for shape, count in shapes:
        ask += session.shapes.charge[:, shape] * count
    return ask


def main_resource(session: SessionView, ask: Amounts) -> int:
    """Return the resource of which ``ask`` ``(R,)`` takes the largest part of the cluster."""
    asked = [row for row in np.flatnonzero(ask).tolist() if row != PODS]
    total = session.total
    return max(asked, key=lambda row: int(ask[row]) / max(1, int(total[row])), default=PODS)
