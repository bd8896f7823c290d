"""Patience: for some time the preferred level of a job that waits counts as required (W1 to W4)."""

from __future__ import annotations

import numpy as np

from kaisched import Session, SubGroup, TopologyConstraint


def strict_of(session: Session, job: int, group: SubGroup) -> TopologyConstraint | None:
    """Return the constraint of a patient job as it counts now; None if it is not patient.

    That of a subgroup stays a wish, and so does that of a job of which pods run.
    """
    wish, jobs = group.topology, session.jobs
    if wish is None or not wish.preferred or group is not jobs.structure.get(job):
        return None
    runs = jobs.active[job] > 0 or session.job_active_now[job] > 0
    if runs or session.now_s >= end_s(session, job, wish):
        return None
    return wish._replace(required=wish.preferred)


def end_s(session: Session, job: int, wish: TopologyConstraint) -> float:
    """Return until when a job is patient, from its creation or last eviction on."""
    jobs = session.jobs
    since_s = np.fmax(jobs.created_s[job], jobs.last_evicted_s[job])  # never evicted is NaN
    return float(since_s) + wish.patience_s
