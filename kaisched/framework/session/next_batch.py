"""The next batch of one job as of now: its pods by shape, and the sum of their requests."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import numpy as np

from kaisched.core.axis import PODS
from kaisched.framework.session.host import host_of
from kaisched.framework.session.other_subgroups import possible_batch
from kaisched.framework.session.task_order import pending_tasks

if TYPE_CHECKING:
    from kaisched.core.axis import Amounts, RowVec
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
        batch = pods_of_batch(session, job)
    counts = Counter(session.tasks.shape_of_task[batch].tolist())
    return list(counts.items()), len(batch)


def pods_of_batch(session: SessionView, job: int) -> RowVec:
    """Return the pods of the next batch of a job of several pod sets, or with subgroups.

    Of other subgroups if no nodes could ever hold those that come first.
    """
    host = host_of(session)
    step = host.ask.next_batch(host, job)
    return pending_tasks(session, job)[:1] if step is None else possible_batch(host, job, step)


def asked_of(session: SessionView, job: int) -> Amounts:
    """``(R,)`` what the job's next batch asks for."""
    shapes, _ = batch_of(session, job)
    ask = np.zeros(len(session.axis), np.int64)
    for shape, count in shapes:
        ask += session.shapes.charge[:, shape] * count
    return ask


def least_asked_of(session: SessionView, job: int) -> Amounts:
    """``(R,)`` the least that the job's next batch could count, on the largest cards of a GPU.

    Limits and quotas are asked with this while no node is chosen.
    """
    if session.shapes.by_card is None:
        return asked_of(session, job)
    charge = host_of(session).least_charge
    ask = np.zeros(len(session.axis), np.int64)
    for shape, count in batch_of(session, job)[0]:
        ask += charge[:, shape] * count
    return ask


def possible_asks(session: SessionView, job: int) -> list[Amounts]:
    """Return what the job's next batch counts on the largest and on the smallest cards of a GPU.

    One amount ``(R,)`` where that is the same.
    """
    most = asked_of(session, job)
    if session.shapes.by_card is None:
        return [most]
    least = least_asked_of(session, job)
    return [most] if (least == most).all() else [least, most]


def main_resource(session: SessionView, ask: Amounts) -> int:
    """Return the resource of which ``ask`` ``(R,)`` takes the largest part of the cluster."""
    asked = [row for row in np.flatnonzero(ask).tolist() if row != PODS]
    total = session.total
    return max(asked, key=lambda row: int(ask[row]) / max(1, int(total[row])), default=PODS)
