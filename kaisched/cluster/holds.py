"""Queues on hold, as a snapshot shows them: what waits there asks for nothing, with one exception.

A gang that runs and has lost a pod may have another: to hold a queue is not to end what runs in it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

import numpy as np

from kaisched.core.refusals import Refusal
from kaisched.core.tables import HELD, OPEN

if TYPE_CHECKING:
    from kaisched.cluster.queues import QueueRows
    from kaisched.core.axis import Amounts
    from kaisched.core.tables import JobTable, PodSetTable, QueueTable

_ON_HOLD: Final = int(Refusal.QUEUE_ON_HOLD)


def as_held(
    jobs: JobTable, podsets: PodSetTable, queues: QueueRows, pending: Amounts
) -> tuple[JobTable, Amounts]:
    """Return jobs, and what is pending by queue ``(R, Q)``, as they are while queues are stopped.

    What cannot be used is not asked for, so no share is set aside for it.
    """
    if not queues.is_any_stopped:
        return jobs, pending
    asked: Amounts = pending * (queues.table.stop_of_queue == OPEN)
    asked.setflags(write=False)
    return _with_the_broken(jobs, podsets, queues.table), asked


def _with_the_broken(jobs: JobTable, podsets: PodSetTable, queues: QueueTable) -> JobTable:
    """Let jobs of held queues be tried that run with fewer pods than they need."""
    held = (jobs.refusal == _ON_HOLD) & (queues.stop_of_queue[jobs.queue_of_job] == HELD)
    if not held.any():
        return jobs
    is_short = (podsets.active > 0) & (podsets.active < podsets.minimum)
    broken = np.zeros(len(held), np.bool_)
    broken[podsets.job_of_podset[is_short]] = True
    refusal = np.where(held & broken, np.int16(0), jobs.refusal)
    refusal.setflags(write=False)
    return replace(jobs, refusal=refusal)
