"""Consolidate: move running pods together, so that a pending job fits; no pod loses its room.

Every moved pod has its new node in the same plan. The cheapest moves are taken first, and a claim
may move only a limited number of jobs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from kaisched.actions.eviction.demand import Plan
from kaisched.actions.eviction.evicting import (
    claim_code,
    consolidate_reason,
    drop_without_claim,
    is_loop,
    note_eviction,
    recall_evictions,
    running_jobs,
    serve,
    without_delayed,
)
from kaisched.actions.eviction.relocation import Relocation
from kaisched.actions.eviction.search import Moving, Search
from kaisched.actions.eviction.victims import VictimList
from kaisched.actions.order.candidates import ANY, alike, drop_gated, gather, pending_jobs
from kaisched.actions.order.job_order import keep_best
from kaisched.actions.order.stepwise import StepwiseOrder
from kaisched.actions.room.promises import keep_promises
from kaisched.core.axis import PODS
from kaisched.core.refusals import Refusal
from kaisched.framework.session.limits import (
    is_spent,
    may_evict,
    stops_here,
)
from kaisched.framework.session.order import pending_tasks
from kaisched.framework.session.units import Claim

if TYPE_CHECKING:
    from kaisched.actions.order.candidates import Candidates
    from kaisched.core.axis import BoolVec, RowVec
    from kaisched.framework.session.session import Session

_WAITING: Final = int(Refusal.WAITING_FOR_RELEASE)


@dataclass(frozen=True, slots=True)
class Consolidate:
    """The consolidate action."""

    name: str = "consolidate"

    def run(self, session: Session) -> None:
        """Move running pods to make room for pending jobs."""
        most = session.policy.max_consolidation_preemptees
        if not most or not session.jobs_waiting:
            return
        recall_evictions(session)
        keep_promises(session)
        if running_jobs(session).size:
            _Consolidation(session, self.name, most).run()


class _Consolidation:
    """One run of the action."""

    def __init__(self, session: Session, action: str, most: int) -> None:
        self._session = session
        self._action = action
        self._most = most
        self._movable: VictimList | None = None

    def run(self) -> None:
        """Try the claims in fair order."""
        session = self._session
        if is_spent(session, self._action):
            return
        candidates = self._claims()
        if not len(candidates):
            return
        self._running = running = running_jobs(session)
        if session.has_moved:
            # A job that gained pods in this cycle, perhaps by evictions, is not moved in it.
            gained = session.ledger.job_active[running] > session.jobs.active[running]
            self._running = running[~gained]
        self._search = Search(session)
        self._relocation = Relocation(session, self._action, self._search)
        fair_order = StepwiseOrder(session, self._action, candidates)
        while (item := fair_order.peek()) is not None:
            if stops_here(session, self._action, candidates.job[fair_order.waiting()]):
                return
            at = item.at
            code = item.code or self._try(candidates, at)
            if not code:
                fair_order.placed(item)
                continue
            gone = np.array([at]) if item.code else self._alike(candidates, at, fair_order)
            codes = np.full(len(gone), code, np.int16)
            session.outcome.note_claims(self._action, candidates.job[gone], codes)
            fair_order.drop(gone)

    def _alike(self, candidates: Candidates, at: int, fair_order: StepwiseOrder) -> RowVec:
        """Return the candidates that fail together with one, and itself: whatever their queue."""
        waits = fair_order.waiting()
        if self._session.ask.has_node_sets(self._session):
            others = alike(self._session, self._action, candidates, at, waits)
            return np.union1d(others, [at])
        shape, size = candidates.shape[at], candidates.size[at]
        same = waits & (candidates.shape == shape) & (candidates.size >= size)
        if shape < 0:
            same[:] = False
        same[at] = True
        gone: RowVec = same.nonzero()[0]
        return gone

    def _claims(self) -> Candidates:
        """Return the preemptible jobs that all free room together could hold."""
        session, action = self._session, self._action
        job = pending_jobs(session, claims=True)
        job = job[session.jobs.is_preemptible[job]]
        job = without_delayed(session, action, job)
        candidates = gather(session, action, job, tries_full=True)
        depth = session.policy.queue_depth.get(action)
        if depth is not None and len(candidates):
            candidates = keep_best(session, candidates, depth)
        candidates = drop_without_claim(session, action, candidates)
        if not len(candidates):
            return candidates
        free = self._free()[:, None]
        asks = candidates.least_asks(session, np.arange(len(candidates)))
        could: BoolVec = np.logical_and.reduce(asks <= free, axis=0)
        return drop_gated(session, action, candidates.keep(could))

    def _free(self) -> RowVec:
        """``(R,)`` idle and released amounts of all nodes together; pods do not count.

        As queues count them, since jobs ask for so much: MIG instances are parts of GPUs too.
        """
        free = self._session.axis.charged(self._session.capacity.total())
        free[PODS] = ANY
        return free

    def _try(self, candidates: Candidates, at: int) -> int:
        """Carry out one claim; return 0 or the refusal code."""
        session = self._session
        job = int(candidates.job[at])
        session.trying = (job,)
        ask = candidates.asks(session, np.array([at]))[:, 0]
        if is_loop(session, job, ask):
            return int(Refusal.TAKING_TURNS)
        if (candidates.least_asks(session, np.array([at]))[:, 0] > self._free()).any():
            return int(Refusal.NO_ROOM)
        tasks = candidates.batches.get(job)
        if tasks is None:
            tasks = pending_tasks(session, job)[: int(candidates.size[at])]
        claim = Claim(self._action, job, int(candidates.queue[at]), ask)
        if session.has_moved and (code := claim_code(session, claim)):
            return code

        def plan(claim: Claim) -> Plan | int:
            return self._plan(claim, tasks)

        return serve(session, claim, tasks, plan, self._carry_out)

    def _plan(self, claim: Claim, tasks: RowVec) -> Plan | int:
        """Return a plan on the set of nodes that is tried now, or the refusal."""
        session = self._session
        if self._movable is None:
            # Jobs that are on hold stay: their pods would not start again.
            free = self._running[session.jobs.refusal[self._running] == 0]
            self._movable = VictimList(session, free[:0], free)
        moving = Moving(self._relocation.settle, self._most, must_evict=False)
        plan = self._search.move(self._search.demand(claim, tasks), self._movable, moving)
        if isinstance(plan, Plan) and not may_evict(session, plan.statement.evicted()):
            plan.statement.rollback()
            return int(Refusal.EVICTION_BUDGET)
        return plan

    def _carry_out(self, claim: Claim, plan: Plan) -> None:
        """Commit a plan on the set of nodes that is tried now."""
        session = self._session
        if plan.movers:
            note_eviction(session, claim.job)
        moved = sum(len(unit.tasks) for unit in plan.movers)
        reason = consolidate_reason(session, claim, moved)
        plan.statement.commit(self._action, claim.job, reason)
        session.outcome.refusal[claim.job] = _WAITING
