"""Reclaim: queues below their share take back what other queues hold above theirs.

Plugins decide which jobs may claim, which may be victims, and which set of victims is fair. A
search finds the fewest victims. Non-preemptible work is never evicted.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from kaisched.actions.eviction.demand import Plan
from kaisched.actions.eviction.evicting import Evicting, running_jobs
from kaisched.actions.eviction.search import Moving
from kaisched.actions.eviction.victims import VictimList
from kaisched.actions.order.gates import are_covered
from kaisched.core.refusals import Refusal

if TYPE_CHECKING:
    from kaisched.actions.eviction.demand import Demand
    from kaisched.actions.order.candidates import Candidates
    from kaisched.actions.order.predicted import Pick
    from kaisched.core.axis import BoolVec, RowVec
    from kaisched.framework.session.session import Session
    from kaisched.framework.session.units import Claim

NAME: Final = "reclaim"
_LOOKED_AT: Final = 128
"""One of so many units, the first to go, must be allowed before pods are moved besides."""


@dataclass(frozen=True, slots=True)
class Reclaim:
    """The reclaim action."""

    name: str = NAME

    def run(self, session: Session) -> None:
        """Evict running jobs for pending jobs of queues below their share."""
        if session.jobs_waiting:
            _Reclaiming(session, self.name).run()


class _Reclaiming(Evicting):
    """One run of the action."""

    def _victims(self, claim: Claim) -> RowVec:
        running = self._running
        if self._session.ask.takes_from_own_queue:
            return running
        others: RowVec = running[self._session.jobs.queue_of_job[running] != claim.queue]
        return others

    def _otherwise(self, demand: Demand, victim_list: VictimList) -> Plan | None:
        """Search a plan that also moves pods which may not be evicted."""
        session = self._session
        policy, jobs, job = session.policy, session.jobs, demand.claim.job
        most = policy.max_consolidation_preemptees
        if not policy.allows_consolidating_reclaim or not most or session.ask.orders_victims:
            return None  # a policy's order does not say which victims go along with moves
        first = victim_list.places[:_LOOKED_AT]
        codes = victim_list.judged(demand.claim, first, np.arange(len(first)))
        if not self._search.lacks_one(demand) or codes.all():
            return None
        running = self._running
        may = (jobs.priority[running] <= jobs.priority[job]) & (jobs.refusal[running] == 0)
        # A job that gained pods in this cycle, perhaps by evictions, is not moved in it.
        may &= session.ledger.job_active[running] <= jobs.active[running]
        losers = np.unique(victim_list.victims.job[victim_list.places])
        both = VictimList(session, losers, running[may], self._protected(demand.claim))
        moving = Moving(self._relocation.settle, most, must_evict=True)
        found = self._search.move(demand, both, moving)
        return found if isinstance(found, Plan) else None

    def _class(self, demand: Demand) -> tuple[object, ...]:
        claim, session = demand.claim, self._session
        priority = int(session.jobs.priority[claim.job]) if session.ask.orders_victims else 0
        return claim.queue, priority, *demand.shapes


class TakingBack(_Reclaiming):
    """A run for claims that quotas cover, while allocate has not given away what is left.

    Nothing is moved: who gets what is left is decided in fair order, and not for the victims.
    """

    _relocates = False

    def __init__(self, session: Session, spared: BoolVec) -> None:
        """Leave out the jobs ``spared`` ``(J,)``."""
        super().__init__(session, NAME)
        self._spared = spared

    def has_claims(self) -> bool:
        """Tell whether there is such a claim."""
        return bool(running_jobs(self._session).size) and self._claims() is not None

    def _claims(self) -> Candidates | None:
        claims = super()._claims()
        if claims is None:
            return None
        claims = claims.keep(~self._spared[claims.job])
        claims = claims.keep(are_covered(self._session, claims, np.arange(len(claims))))
        return claims if len(claims) else None

    def _otherwise(self, demand: Demand, victim_list: VictimList) -> Plan | None:
        """Move nothing."""
        del demand, victim_list
        return None

    def _try(self, item: Pick, *, is_first: bool) -> int:
        at = np.array([item.at])
        if not is_first and not are_covered(self._session, self._candidates, at)[0]:
            return int(Refusal.NO_VICTIMS)
        return super()._try(item, is_first=is_first)
