"""Drain: evict the running jobs of queues whose stop policy is HoldAndDrain.

Every job is evicted as a whole, preemptible or not and however briefly it has run: an administrator
wants the queue empty. A job with pods that a disruption budget protects is evicted once the budget
allows the eviction of all of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from kaisched.actions.whole_jobs import evict_job
from kaisched.core.tables import DRAINED
from kaisched.framework.session.order import jobs_by_age

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
            if job not in session.barred:
                name = queues.name[int(of_job[job])]
                reason = f"queue {name} is drained: stopPolicy HoldAndDrain"
                evict_job(session, job, self.name, reason)
