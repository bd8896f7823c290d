"""Finds indivisible jobs: their core is larger than their queue's part, so they need slices."""

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
    charges,
    jobs_by_age,
    ordered_tasks,
)

_PENDING = int(TaskState.PENDING)


@dataclass(frozen=True, slots=True)
class Indivisible:
    """A job that cannot be divided and is larger than its queue's part."""

    job: int
    leaf: int
    amounts: dict[int, int]
    """Resource to what the core holds, or what the next batch asks for; no zeros, no pod slots."""
    start_s: float
    """Start of the job; NaN while it waits."""

    @property
    def is_running(self) -> bool:
        """Tell whether the job runs."""
        return not math.isnan(self.start_s)


def indivisible_jobs_of(session: Session, part: FloatVec) -> list[Indivisible]:
    """Return the preemptible indivisible jobs: all running, and the first waiting of each leaf.

    Running jobs come by age and name. Of the waiting jobs of a queue, the job of the highest
    priority counts, then the oldest, then the first by name.

    Args:
        session: running and waiting jobs when the cycle begins.
        part: ``(R, Q)`` each queue's part, parts per billion of the cluster.

    """
    bound = part * (session.total / PARTS)[:, None]
    bound[PODS] = np.inf
    jobs = session.jobs
    usable = jobs.is_preemptible & (jobs.queue_of_job >= 0) & (jobs.refusal == 0)
    running = (usable & (jobs.active > 0)).nonzero()[0]
    waiting = (usable & (jobs.pending > 0)).nonzero()[0]
    job = np.concatenate((running, waiting))
    runs = np.arange(len(job)) < len(running)
    leaf = jobs.queue_of_job.take(job)
    amounts = _amounts(session, job, runs)
    large = np.logical_or.reduce(amounts > bound.take(leaf, axis=1), axis=0).nonzero()[0]
    begun = int(np.searchsorted(large, len(running)))
    runs_whole = np.searchsorted(running, jobs_by_age(session, running[large[:begun]]))
    waits = large[begun:]
    return [
        Indivisible(each, queue, _some(column), _start_s(session, each) if is_running else math.nan)
        for chosen in (runs_whole, waits[_first_of_each(session, job[waits], leaf[waits])])
        for each, queue, column, is_running in zip(
            job[chosen].tolist(),
            leaf[chosen].tolist(),
            amounts[:, chosen].T.tolist(),
            runs[chosen].tolist(),
            strict=True,
        )
    ]


def _some(column: list[int]) -> dict[int, int]:
    """Return the amounts above 0, by resource."""
    return {row: amount for row, amount in enumerate(column) if amount and row != PODS}


def _start_s(session: Session, job: int) -> float:
    """Return when a job started; an unknown start counts as long ago."""
    start_s = float(session.jobs.last_start_s[job])
    return -math.inf if math.isnan(start_s) else start_s


def _first_of_each(session: Session, job: RowVec, leaf: RowVec) -> list[int]:
    """Return the places of the first job of each leaf, by priority, age and name."""
    jobs = session.jobs
    columns = (leaf.tolist(), (-jobs.priority[job]).tolist(), jobs.created_s[job].tolist())
    first: dict[int, tuple[int, float, str, int]] = {}
    for at, (queue, priority, created_s, row) in enumerate(
        zip(*columns, job.tolist(), strict=True)
    ):
        key = (priority, created_s, jobs.name[row], at)
        if queue not in first or key < first[queue]:
            first[queue] = key
    return [at for *_, at in first.values()]


def _amounts(session: Session, job: RowVec, runs: BoolVec) -> Amounts:
    """Return ``(R, K)`` what the core of each job holds, or what its next batch asks for."""
    jobs = session.jobs
    shape = jobs.shape_of_job.take(job)
    is_odd = (jobs.podset_count.take(job) != 1) | (shape < 0)
    if (by_card := session.shapes.by_card) is not None:
        is_odd |= by_card.memory_mib.take(shape) > 0  # what pods hold depends on their nodes
    odd = is_odd.nonzero()[0].tolist()
    amounts: Amounts = session.shapes.charge.take(shape, axis=1) * _sizes(session, job, runs)
    for at in odd:
        amounts[:, at] = _whole(session, int(job[at]), is_running=bool(runs[at]))
    return amounts


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
    rows = ordered_tasks(session, np.array(session.jobs.tasks[job], np.int64))
    state, podset = tasks.state[rows], tasks.podset_of_task[rows]
    counts = ACTIVE_STATES[state] if is_running else state == _PENDING
    chosen: list[int] = []
    for each in np.unique(podset).tolist():
        missing = int(podsets.minimum[each])
        if not is_running:
            missing -= int(podsets.active[each])
        chosen.extend(rows[counts & (podset == each)][: max(missing, 0)].tolist())
    amounts: Amounts = charges(session, chosen).sum(axis=1)
    return amounts
