"""Timelimit: evict running jobs whose time is over, by the ``maxRunTime`` of queues.

A job is evicted as a whole. From then on it counts as if it had been created at that moment, so it
waits behind its equals: jobs of its queue that no other key puts behind it. Jobs that may not be
evicted for others are exempt unless the queue includes them. Disruption budgets and the eviction
budget of the shard count, as in drain.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from kaisched.actions.whole_jobs import evict_job
from kaisched.core.tables import WORKLOADS
from kaisched.framework.session.limits import (
    FACT,
    limited_jobs,
    limiting_queue,
    limits_s,
)
from kaisched.framework.session.order import jobs_by_age
from kaisched.units import format_duration

if TYPE_CHECKING:
    from kaisched.framework.session.session import Session


@dataclass(frozen=True, slots=True)
class TimeLimit:
    """The timelimit action. It remembers by job name when its time was last over, in seconds."""

    name: str = FACT

    def run(self, session: Session) -> None:
        """Evict each job whose time is over, the oldest first, as budgets allow."""
        ended = _remembered(session)
        if not ended and session.queues.max_run_time_s is None:
            return
        rows, ends_s = limited_jobs(session.queues, session.jobs)
        for job in jobs_by_age(session, rows[ends_s <= session.now_s]).tolist():
            if job not in session.barred and evict_job(
                session, job, self.name, _reason(session, job)
            ):
                ended[session.jobs.name[job]] = session.now_s
        if ended:
            session.facts[self.name] = ended


def _remembered(session: Session) -> dict[str, float]:
    """Return when the time of jobs was over, of those that are still there."""
    known: Mapping[str, float] = session.memory.facts.get(FACT) or {}
    return {name: known[name] for name in session.jobs.name if name in known} if known else {}


def _reason(session: Session, job: int) -> str:
    queues, jobs = session.queues, session.jobs
    row = np.array([job])
    ran_s = session.now_s - float(jobs.last_start_s[job])
    most, kind = float(limits_s(queues, jobs, row)[0]), WORKLOADS[int(jobs.workload_of(row)[0])]
    queue = limiting_queue(queues, jobs, job)
    return (
        f"it has run for {format_duration(int(ran_s))}, and queue {queue} lets {kind} run for"
        f" {format_duration(most)} at a stretch (maxRunTime)"
    )
