"""Preempt: inside a queue, evict jobs of lower priority for pending jobs of higher priority."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from kaisched.actions.eviction.evicting import Evicting
from kaisched.actions.order.candidates import ANY

if TYPE_CHECKING:
    from kaisched.actions.eviction.demand import Demand
    from kaisched.core.axis import IntVec, RowVec
    from kaisched.framework.session.session import Session
    from kaisched.framework.session.units import Claim


@dataclass(frozen=True, slots=True)
class Preempt:
    """The preempt action."""

    name: str = "preempt"

    def run(self, session: Session) -> None:
        """Evict jobs of lower priority for pending jobs of their queue."""
        if session.jobs_waiting:
            _Preempting(session, self.name).run()


class _Preempting(Evicting):
    """One run of the action."""

    def _narrowed(self, job: RowVec) -> RowVec:
        """Leave out jobs without a running job of lower priority in their queue."""
        jobs = self._session.jobs
        priority = jobs.priority.take(job)
        if np.maximum.reduce(priority, initial=0) <= np.minimum.reduce(
            jobs.priority.take(self._running), initial=ANY
        ):
            return job[:0]  # the usual case: all jobs have the same priority
        able: RowVec = job[priority > self._lowest()[jobs.queue_of_job[job]]]
        return able

    def _lowest(self) -> IntVec:
        """``(Q,)`` the lowest priority that runs in each queue."""
        jobs = self._session.jobs
        lowest = np.full(len(self._session.queues), np.iinfo(np.int64).max)
        np.minimum.at(lowest, jobs.queue_of_job[self._running], jobs.priority[self._running])
        return lowest

    def _victims(self, claim: Claim) -> RowVec:
        jobs, running = self._session.jobs, self._running
        same = jobs.queue_of_job[running] == claim.queue
        lesser: RowVec = running[same & (jobs.priority[running] < jobs.priority[claim.job])]
        return lesser

    def _class(self, demand: Demand) -> tuple[object, ...]:
        claim = demand.claim
        return claim.queue, int(self._session.jobs.priority[claim.job]), *demand.shapes
