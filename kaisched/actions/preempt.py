"""Preempt: inside a queue, work of higher priority takes the place of work of lower priority."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from kaisched.actions.evicting import Evicting
from kaisched.actions.reasons import preempt_reason

if TYPE_CHECKING:
    from kaisched.actions.plan import Plan
    from kaisched.core.axis import RowVec
    from kaisched.framework.claims import Claim
    from kaisched.framework.session import Session


@dataclass(frozen=True, slots=True)
class Preempt:
    """The action of that name."""

    name: str = "preempt"

    def run(self, session: Session) -> None:
        """Let the more important go first."""
        if session.jobs.pending.any():
            _Preempting(session, self.name).run()


class _Preempting(Evicting):
    """One run of the action."""

    def _narrowed(self, job: RowVec) -> RowVec:
        """Leave out jobs that are no more important than anything running in their queue."""
        jobs = self._session.jobs
        lowest = np.full(len(self._session.queues), np.iinfo(np.int64).max)
        np.minimum.at(lowest, jobs.queue_of_job[self._running], jobs.priority[self._running])
        able: RowVec = job[jobs.priority[job] > lowest[jobs.queue_of_job[job]]]
        return able

    def _victims(self, claim: Claim) -> RowVec:
        jobs, running = self._session.jobs, self._running
        same = jobs.queue_of_job[running] == claim.queue
        lesser: RowVec = running[same & (jobs.priority[running] < jobs.priority[claim.job])]
        return lesser

    def _class(self, claim: Claim) -> tuple[object, ...]:
        return claim.queue, int(self._session.jobs.priority[claim.job]), claim.ask.tobytes()

    def _reason(self, claim: Claim, plan: Plan) -> str:
        return preempt_reason(self._session, claim, plan)
