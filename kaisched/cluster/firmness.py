"""Non-preemptible work: only within the quota of its queue.

A job starts as such work only where the quota has room. But whoever may write a pod, its group or
its owner may also declare what runs already, on borrowed room, and would keep it for ever. Where
tenants do not trust each other, what is beyond the quota of its queue counts as preemptible.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from kaisched.core.axis import ALLOCATED_STATES, PODS
from kaisched.core.devices import charges
from kaisched.units import UNLIMITED

if TYPE_CHECKING:
    from kaisched.core.axis import Amounts, RowVec
    from kaisched.core.snapshot import Snapshot


def within_quotas(snapshot: Snapshot) -> Snapshot:
    """Return the snapshot with what is beyond quotas as preemptible; the same if nothing is.

    The jobs that were created last lose their protection first.
    """
    quota = snapshot.queues.deserved
    bounded = quota != UNLIMITED
    bounded[PODS] = False  # nobody has a quota of pod slots
    excess = np.where(bounded, snapshot.allocated_non_preemptible - quota, 0)
    over = np.any(excess > 0, axis=0)
    if not over.any():
        return snapshot
    tasks, jobs = snapshot.tasks, snapshot.jobs
    job = tasks.job_of_task
    rows = (ALLOCATED_STATES[tasks.state] & (job >= 0)).nonzero()[0]
    queue = jobs.queue_of_job[job[rows]]
    rows = rows[(queue >= 0) & over[queue] & ~jobs.is_preemptible[job[rows]]]
    held = _by_job(snapshot, rows)
    is_preemptible = jobs.is_preemptible.copy()
    fixed = snapshot.allocated_non_preemptible.copy()
    for one in sorted(held, key=lambda it: (-float(jobs.created_s[it]), jobs.name[it])):
        of = int(jobs.queue_of_job[one])
        if ((excess[:, of] > 0) & (held[one] > 0)).any():
            is_preemptible[one] = True
            excess[:, of] -= held[one]
            fixed[:, of] -= held[one]
    return replace(
        snapshot,
        jobs=replace(jobs, is_preemptible=is_preemptible),
        allocated_non_preemptible=fixed,
    )


def _by_job(snapshot: Snapshot, rows: RowVec) -> dict[int, Amounts]:
    """Return what each job holds with some tasks, ``(R,)``."""
    found: dict[int, Amounts] = {}
    each = charges(snapshot, rows)
    for at, job in enumerate(snapshot.tasks.job_of_task[rows].tolist()):
        found[job] = found.get(job, 0) + each[:, at]
    return found
