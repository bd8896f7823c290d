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
    bound = part * (session.snapshot.total / PARTS)[:, None]
    bound[PODS] = np.inf
    jobs = session.jobs
    usable = jobs.is_preemptible & (jobs.queue_of_job >= 0) & (jobs.refusal == 0)
    running = (usable & (jobs.active > 0)).nonzero()[0]
    waiting = (usable & (jobs.pending > 0)).nonzero()[0]
    found: list[Lump] = []
    first: dict[int, Lump] = {}
    for job, leaf, amounts, is_running in _large(session, running, waiting, bound):
        if is_running:
            found.append(Lump(job, leaf, amounts, _start_s(session, job)))
            continue
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
    session: Session, running: RowVec, waiting: RowVec, bound: FloatVec
) -> list[tuple[int, int, dict[int, int], bool]]:
    """Return (job, leaf, amounts, whether it runs) where the bound of the queue is passed."""
    jobs = session.jobs
    job = np.concatenate((running, waiting))
    runs = np.zeros(len(job), np.bool_)
    runs[: len(running)] = True
    shape = jobs.shape_of_job.take(job)
    size = _sizes(session, job, runs)
    odd = ((jobs.podset_count.take(job) != 1) | (shape < 0)).nonzero()[0].tolist()
    amounts: Amounts = session.shapes.request.take(shape, axis=1) * size
    for at in odd:
        amounts[:, at] = _whole(session, int(job[at]), is_running=bool(runs[at]))
    leaf = jobs.queue_of_job.take(job)
    is_large = np.logical_or.reduce(amounts > bound.take(leaf, axis=1), axis=0)
    return [
        (
            int(job[at]),
            int(leaf[at]),
            {
                row: amount
                for row, amount in enumerate(amounts[:, at].tolist())
                if amount and row != PODS
            },
            bool(runs[at]),
        )
        for at in is_large.nonzero()[0].tolist()
    ]


def _sizes(session: Session, job: RowVec, runs: BoolVec) -> IntVec:
    """Return the pods of each job's core, or of its next batch; jobs of one pod set."""
    podsets, first = session.podsets, session.jobs.first_podset.take(job)
    minimum, active = podsets.minimum.take(first), podsets.active.take(first)
    missing = np.maximum(minimum - active, 1)
    asked = np.where(podsets.pending.take(first) >= missing, missing, 0)
    return np.where(runs, np.minimum(minimum, active), asked)


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
