"""Lumps: jobs whose core is more than their queue can count on, so that they run whole or not."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from kaisched import (
    ACTIVE_STATES,
    PARTS,
    PODS,
    Amounts,
    BoolVec,
    FloatVec,
    IntVec,
    RowVec,
    Session,
    TaskState,
)

_PENDING = int(TaskState.PENDING)


@dataclass(frozen=True, slots=True)
class Lump:
    """A job that cannot be divided, and is more than its queue's part."""

    job: int
    leaf: int
    amounts: dict[int, int]
    """Resource to what its core holds, or what its next batch asks for; no zeros, no pod slots."""
    start_s: float
    """NaN while it waits."""

    @property
    def is_running(self) -> bool:
        """Tell whether it runs."""
        return not math.isnan(self.start_s)


def lumps_of(session: Session, part: FloatVec) -> list[Lump]:
    """Return the preemptible lumps: all that run, and the first waiting ones of each leaf queue.

    Of several waiting lumps of a queue the one of the highest priority counts, then the oldest.

    Args:
        session: what runs and waits when the cycle begins.
        part: ``(R, Q)`` what each queue can count on, parts per billion of the cluster.

    """
    bound = part / PARTS * session.snapshot.total[:, None]
    bound[PODS] = np.inf
    jobs = session.jobs
    usable = jobs.is_preemptible & (jobs.queue_of_job >= 0) & (jobs.refusal == 0)
    running = np.flatnonzero(usable & (jobs.active > 0))
    found = [
        Lump(job, leaf, amounts, _start_s(session, job))
        for job, leaf, amounts in _large(session, running, bound, is_running=True)
    ]
    waiting = np.flatnonzero(usable & (jobs.pending > 0))
    first: dict[int, Lump] = {}
    for job, leaf, amounts in _large(session, waiting, bound, is_running=False):
        known = first.get(leaf)
        if known is None or _order(session, job) < _order(session, known.job):
            first[leaf] = Lump(job, leaf, amounts, math.nan)
    return [*found, *first.values()]


def _start_s(session: Session, job: int) -> float:
    """Return when a job started; a start that nobody knows was long ago."""
    start_s = float(session.jobs.last_start_s[job])
    return -math.inf if math.isnan(start_s) else start_s


def _order(session: Session, job: int) -> tuple[int, float, str]:
    jobs = session.jobs
    return -int(jobs.priority[job]), float(jobs.created_s[job]), jobs.name[job]


def _large(
    session: Session, job: RowVec, bound: FloatVec, *, is_running: bool
) -> list[tuple[int, int, dict[int, int]]]:
    """Return (job, leaf, amounts) of the jobs that exceed the bound of their queue somewhere."""
    jobs = session.jobs
    is_flat = (jobs.podset_count[job] == 1) & (jobs.shape_of_job[job] >= 0)
    flat, others = job[is_flat], job[~is_flat].tolist()
    amounts = np.empty((len(bound), len(job)), np.int64)
    size = _sizes(session, flat, is_running=is_running)
    amounts[:, : len(flat)] = session.shapes.request[:, jobs.shape_of_job[flat]] * size
    for at, each in enumerate(others, len(flat)):
        amounts[:, at] = _whole(session, each, is_running=is_running)
    amounts[PODS] = 0
    rows = np.concatenate((flat, np.array(others, np.int64)))
    is_large: BoolVec = np.logical_or.reduce(amounts > bound[:, jobs.queue_of_job[rows]], axis=0)
    return [
        (
            int(rows[at]),
            int(jobs.queue_of_job[rows[at]]),
            {row: amount for row, amount in enumerate(amounts[:, at].tolist()) if amount},
        )
        for at in np.flatnonzero(is_large).tolist()
    ]


def _sizes(session: Session, job: RowVec, *, is_running: bool) -> IntVec:
    """Return the pods of each job's core, or of its next batch; jobs of one pod set."""
    first = session.jobs.first_podset[job]
    minimum, active = session.podsets.minimum[first], session.podsets.active[first]
    if is_running:
        return np.minimum(minimum, active)
    missing = np.maximum(minimum - active, 1)
    return np.where(session.podsets.pending[first] >= missing, missing, 0)


def _whole(session: Session, job: int, *, is_running: bool) -> Amounts:
    """Return what a job of several pod sets or shapes needs; running or waiting pods of it."""
    tasks, podsets = session.tasks, session.podsets
    rows = np.array(session.jobs.tasks[job], np.int64)
    state, podset = tasks.state[rows], tasks.podset_of_task[rows]
    counts = ACTIVE_STATES[state] if is_running else state == _PENDING
    chosen: list[int] = []
    for each in np.unique(podset).tolist():
        missing = int(podsets.minimum[each])
        if not is_running:
            missing -= int(podsets.active[each])
        chosen.extend(rows[counts & (podset == each)][: max(missing, 0)].tolist())
    shape = tasks.shape_of_task[chosen]
    amounts: Amounts = session.shapes.request[:, shape].sum(axis=1)
    return amounts
