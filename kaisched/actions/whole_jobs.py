"""Drain and timelimit: evict jobs as a whole that nobody claims.

Drain empties the queues whose stop policy is HoldAndDrain. Every job goes, preemptible or not and
however briefly it has run: an administrator wants the queue empty.

Timelimit ends jobs whose time is over, by the ``maxRunTime`` of queues. From then on a job counts
as if it had been created at that moment, so it waits behind its equals. Jobs that may not be
evicted for others are exempt unless the queue includes them.

Disruption budgets and the limits on evictions count for both: a job with pods that a budget
protects is evicted once the budget allows the eviction of all of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from kaisched.core.axis import ACTIVE_STATES
from kaisched.core.tables import DRAINED, WORKLOADS
from kaisched.framework.session.limits import (
    FACT,
    limited_jobs,
    limiting_queue,
    limits_s,
    may_disrupt,
    may_evict,
)
from kaisched.framework.session.order import jobs_by_age, ordered_tasks
from kaisched.units import format_duration

if TYPE_CHECKING:
    from kaisched.framework.session.session import Session


def evict_job(session: Session, job: int, action: str, reason: str) -> bool:
    """Evict all running pods of a job, if budgets allow it; return whether they are evicted."""
    session.trying = (job,)
    pods = _running(session, job)
    if not (pods and may_evict(session, len(pods)) and may_disrupt(session, pods)):
        return False
    statement = session.statement()
    for task in pods:
        statement.evict(task)
    statement.commit(action, -1, reason)
    return True


def _running(session: Session, job: int) -> list[int]:
    """Return the running pods of a job that this cycle has not changed."""
    tasks, state = session.tasks, session.ledger.state
    return [
        task
        for task in ordered_tasks(session, np.array(session.jobs.tasks[job], np.int64)).tolist()
        if ACTIVE_STATES[tasks.state[task]]
        and state[task] == tasks.state[task]
        and tasks.node_of_task[task] >= 0
    ]


@dataclass(frozen=True, slots=True)
class Drain:
    """The drain action."""

    name: str = "drain"

    def run(self, session: Session) -> None:
        """Evict every job of the queues to be drained, the oldest first, as budgets allow."""
        queues, jobs = session.queues, session.jobs
        if not np.count_nonzero(queues.stop_of_queue == DRAINED):
            return
        of_job = jobs.queue_of_job
        leaving = (jobs.active > 0) & (of_job >= 0) & (queues.stop_of_queue[of_job] == DRAINED)
        for job in jobs_by_age(session, leaving.nonzero()[0]).tolist():
            if job not in session.barred:
                name = queues.name[int(of_job[job])]
                reason = f"queue {name} is drained: stopPolicy HoldAndDrain"
                evict_job(session, job, self.name, reason)


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
