"""Patience: for some time the preferred level of a job that waits counts as required (W1 to W4)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from kaisched import LazyNodeSets, NodeSet, Session, SubGroup, TopologyConstraint, format_time


class Awaited(LazyNodeSets):
    """The domains for one of which a job waits, with names that say so where it finds no place."""

    def __init__(self, sets: Sequence[NodeSet], until_s: float) -> None:
        """Take the domains, and until when the job is patient."""
        super().__init__(len(sets))
        self._sets, self._until_s = sets, until_s

    def make(self, at: int) -> NodeSet:
        """Return the domain at a position."""
        one = self._sets[at]
        until = format_time(self._until_s)
        return replace(one, label=f"{one.label}, for which it waits until {until}")


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
