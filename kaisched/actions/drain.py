"""Drain: evict the running jobs of queues whose stop policy is HoldAndDrain.

Every job is evicted as a whole, preemptible or not and however briefly it has run: an administrator
wants the queue empty. A job with pods that a disruption budget protects is evicted once the budget
allows the eviction of all of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from kaisched.core.states import ACTIVE_STATES
from kaisched.core.tables import DRAINED
from kaisched.framework.session.disruptions_left import may_disrupt
from kaisched.framework.session.eviction_budget import may_evict
from kaisched.framework.session.job_order import jobs_by_age
from kaisched.framework.session.task_order import ordered_tasks

if TYPE_CHECKING:
    from kaisched.framework.session.session import Session


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
            if job in session.barred:
                continue
            session.trying = (job,)
            pods = self._running(session, job)
            if pods and may_evict(session, len(pods)) and may_disrupt(session, pods):
                statement = session.statement()
                for task in pods:
                    statement.evict(task)
                name = queues.name[int(of_job[job])]
                statement.commit(self.name, -1, f"queue {name} is drained: stopPolicy HoldAndDrain")

    def _running(self, session: Session, job: int) -> list[int]:
        """Return the running pods of a job that this cycle has not changed."""
        tasks, state = session.tasks, session.ledger.state
        return [
            task
            for task in ordered_tasks(session, np.array(session.jobs.tasks[job], np.int64)).tolist()
            if ACTIVE_STATES[tasks.state[task]]
            and state[task] == tasks.state[task]
            and tasks.node_of_task[task] >= 0
        ]
