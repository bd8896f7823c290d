"""The common part of reclaim and preempt: claims in fair order, searches, plans and refusals.

A job whose search fails does not block other jobs. Only jobs of the same queue that ask for at
least as many of the same pods are refused along with it, since nothing has moved in between.
"""

from __future__ import annotations

from abc import abstractmethod
from collections import Counter
from typing import TYPE_CHECKING, Final

import numpy as np

from kaisched.actions.eviction.alternatives import serve
from kaisched.actions.eviction.claim_runs import ClaimRuns
from kaisched.actions.eviction.claimants import claimants
from kaisched.actions.eviction.delay import held_back
from kaisched.actions.eviction.failed_claims import FailedClaims
from kaisched.actions.eviction.loops import is_loop, note_eviction, recall_evictions
from kaisched.actions.eviction.plan import Plan
from kaisched.actions.eviction.reasons import eviction_reason
from kaisched.actions.eviction.relocation import Relocation
from kaisched.actions.eviction.search import Search
from kaisched.actions.eviction.victim_list import VictimList
from kaisched.actions.order.alike import alike
from kaisched.actions.order.candidates import gather, pending_jobs
from kaisched.actions.order.job_order import keep_best
from kaisched.actions.order.stepwise import StepwiseOrder
from kaisched.actions.room.promises import keep_promises
from kaisched.core.refusals import Refusal, text_of
from kaisched.framework.session.claims import Claim
from kaisched.framework.session.eviction_budget import is_spent, may_evict

if TYPE_CHECKING:
    from kaisched.actions.eviction.claimants import Claimants
    from kaisched.actions.eviction.plan import Demand
    from kaisched.actions.order.candidates import Candidates
    from kaisched.actions.order.sequence import Pick
    from kaisched.core.axis import BoolVec, CodeVec, RowVec
    from kaisched.framework.session.session import Session

_WAITING = int(Refusal.WAITING_FOR_RELEASE)
_NO_VICTIMS = int(Refusal.NO_VICTIMS)
_BUDGET = int(Refusal.EVICTION_BUDGET)
_TURN = int(Refusal.TAKING_TURNS)
_RUNNING: Final = "running"
_WITNESS: Final = "running.witness"


class Evicting:
    """One run of an evicting action."""

    def __init__(self, session: Session, action: str) -> None:
        """Prepare nothing yet: most runs end without a claim."""
        self._session = session
        self._action = action
        self._victim_lists: dict[tuple[object, ...], VictimList | int] = {}
        self._out_of_reach: set[tuple[object, ...]] = set()
        """Classes for which all victims together would not make room."""
        self._refused: tuple[object, ...] | None = None
        """The class that was refused last."""

    def run(self) -> None:
        """Try the claims in fair order."""
        session = self._session
        recall_evictions(session)
        keep_promises(session)
        if not anything_runs(session) or is_spent(session, self._action):
            return
        candidates = self._claims()
        if candidates is None:
            return
        self._running = running_jobs(session)
        self._search = Search(session)
        self._failed_claims = FailedClaims(session, self._search)
        self._relocation = Relocation(session, self._action, self._search)
        fair_order = StepwiseOrder(session, self._action, candidates, is_gated=False)
        self._candidates, self._fair_order = candidates, fair_order
        runs = ClaimRuns(session, self._action, candidates, self._search)
        is_first = True
        while (item := fair_order.peek()) is not None:
            if self._has_lost_pods(int(candidates.job[item.at])):
                fair_order.refused(item)  # its batch is of no use without the lost pods
                continue
            code = self._try(item, is_first=is_first)
            if code:
                self._refuse(item, code)
            else:
                is_first = False
                fair_order.placed(item)
                done = runs.carry_out(self._ahead, self._known_list)
                if done.size:
                    fair_order.drop(done)

    def _ahead(self, most: int) -> RowVec:
        """Return the claims that come next whatever is placed, at most so many."""
        return self._fair_order.ahead(most)

    def _claims(self) -> Candidates | None:
        """Return the jobs that the claim gate lets take from other jobs; None if there are none."""
        waiting = claimants(self._session, self._action)
        if waiting is None:
            return self._gathered()
        if not len(waiting):
            return None
        able = self._able(waiting)
        if able is not None and not np.count_nonzero(able):
            return None
        allowed = waiting.allowed(self._action, able)
        return waiting.candidates(allowed) if np.count_nonzero(allowed) else None

    def _gathered(self) -> Candidates | None:
        """Slow path: ask the gates about every pending job."""
        session, action = self._session, self._action
        self._running = running_jobs(session)
        job = self._narrowed(pending_jobs(session, claims=True))
        job = without_delayed(session, action, job)
        if not job.size:
            return None
        candidates = gather(session, action, job, tries_full=True)
        depth = session.policy.queue_depth.get(action)
        if depth is not None and len(candidates):
            candidates = keep_best(session, candidates, depth)
        if not len(candidates):
            return None
        asks = candidates.asks(session, np.arange(len(candidates)))
        codes = session.ask.claim_gate(session, action, candidates.job, asks)
        if codes is None or not np.count_nonzero(codes):
            return candidates
        refused = codes != 0
        session.outcome.note_claims(action, candidates.job[refused], codes[refused])
        candidates = candidates.keep(~refused)
        return candidates if len(candidates) else None

    def _narrowed(self, job: RowVec) -> RowVec:
        """Leave out jobs that can have no victims; a quick check."""
        return job

    def _able(self, waiting: Claimants) -> BoolVec | None:
        """Tell which classes can have victims, ``(K,)``; None for all."""
        del waiting
        return None

    @abstractmethod
    def _victims(self, claim: Claim) -> RowVec:
        """Return the running jobs that the action may evict for a claim."""

    def _otherwise(self, demand: Demand, victim_list: VictimList) -> Plan | None:
        """Return a different kind of plan for a claim that no victims make room for."""
        del demand, victim_list
        return None

    def _may_move(self, demand: Demand) -> bool:
        """Tell whether :meth:`_otherwise` could find a plan."""
        del demand
        return False

    @abstractmethod
    def _class(self, demand: Demand) -> tuple[object, ...]:
        """Return the class of a claim: its victims and their room depend only on the class."""

    def _key(self, demand: Demand) -> tuple[object, ...]:
        """Return the class of a claim on the set of nodes that is tried now."""
        nodes = demand.claim.within
        key = self._class(demand)
        return key if nodes is None else (nodes.key, *key)

    def _try(self, item: Pick, *, is_first: bool) -> int:
        """Carry out one claim; return 0 or the refusal code."""
        session, candidates = self._session, self._candidates
        job = int(candidates.job[item.at])
        session.trying = (job,)
        at = np.array([item.at])
        asks = candidates.asks(session, at)
        claim = Claim(self._action, job, int(candidates.queue[item.at]), asks[:, 0])
        if not is_first:
            codes = session.ask.claim_gate(session, self._action, candidates.job[at], asks)
            if codes is not None and codes[0]:
                return int(codes[0])
        if is_loop(session, job, claim.ask):
            return _TURN
        tasks = candidates.batch(session, item.at)

        def plan(claim: Claim) -> Plan | int:
            return self._plan(claim, tasks)

        return serve(session, claim, tasks, plan, self._carry_out)

    def _plan(self, claim: Claim, tasks: RowVec) -> Plan | int:
        """Return a plan on the set of nodes that is tried now, or the refusal."""
        session = self._session
        demand = self._search.demand(claim, tasks)
        victim_list = self._victim_list(demand)
        if isinstance(victim_list, int):
            return victim_list
        plan = self._found(demand, victim_list)
        if not isinstance(plan, Plan):
            return plan
        if plan.units and self._relocates:
            self._relocation.relocate(plan)
        if not may_evict(session, plan.statement.evicted()):
            plan.statement.rollback()
            return _BUDGET
        return plan

    @property
    def _relocates(self) -> bool:
        """Whether victims get another place if there is one.

        A victim that stays, elsewhere, is no longer what an ordering policy bore out.
        """
        session = self._session
        return session.policy.allows_consolidating_reclaim and not session.ask.orders_victims

    def _carry_out(self, claim: Claim, plan: Plan) -> None:
        """Commit a plan on the set of nodes that is tried now."""
        session = self._session
        if plan.statement.evicted():
            note_eviction(session, claim.job)
        reason = eviction_reason(session, claim, plan)
        plan.statement.commit(self._action, claim.job, reason)
        session.outcome.refusal[claim.job] = _WAITING

    def _found(self, demand: Demand, victim_list: VictimList) -> Plan | int:
        """Return a plan with an open statement, or the refusal code."""
        plan: Plan | int = _NO_VICTIMS
        key = self._key(demand)
        if key not in self._out_of_reach:
            plan = self._search.solve(demand, victim_list)
        if isinstance(plan, Plan):
            return plan
        other = self._otherwise(demand, victim_list)
        if other is not None:
            return other
        self._let_go(key)
        if plan == _NO_VICTIMS:
            self._failed_claims.note(demand)
        return plan

    def _has_lost_pods(self, job: int) -> bool:
        """Tell whether an earlier claim of this cycle evicted pods of the job."""
        session = self._session
        return session.has_moved and bool(session.ledger.job_active[job] < session.jobs.active[job])

    def _let_go(self, key: tuple[object, ...]) -> None:
        """Drop the victim list of the class that was refused before this one.

        Most classes are refused as a whole and never asked about again. A list has a row for every
        possible victim, and there may be as many lists as queues.
        """
        if self._refused is not None and self._refused != key:
            self._victim_lists.pop(self._refused, None)
        self._refused = key

    def _victim_list(self, demand: Demand) -> VictimList | int:
        """Return the list of victims of a claim's class, or the code why it has none."""
        key = self._key(demand)
        victim_list = self._victim_lists.get(key)
        if victim_list is None:
            job = self._losers(demand.claim)
            if not isinstance(job, int) and self._failed_claims.fails_again(demand, job):
                if self._may_move(demand):
                    self._out_of_reach.add(key)
                else:
                    job = _NO_VICTIMS
                    self._let_go(key)  # as after a search, which is skipped here
            victim_list = job if isinstance(job, int) else VictimList(self._session, job)
            self._victim_lists[key] = victim_list
        return victim_list

    def _known_list(self, at: int) -> VictimList | int | None:
        """Return the list of victims, on all nodes, of a candidate's class; None if not known."""
        candidates = self._candidates
        job, queue = int(candidates.job[at]), int(candidates.queue[at])
        ask = candidates.asks(self._session, np.array([at]))[:, 0]
        claim = Claim(self._action, job, queue, ask)
        demand = self._search.demand(claim, candidates.batch(self._session, at))
        return self._victim_lists.get(self._class(demand))

    def _losers(self, claim: Claim) -> RowVec | int:
        """Return the running jobs that plugins let a claim evict, or the code why not."""
        session = self._session
        job = self._victims(claim)
        if not job.size:
            return _NO_VICTIMS
        codes = session.ask.victim_filter(session, claim, job)
        if codes is not None and codes.any():
            kept: RowVec = job[codes == 0]
            return kept if kept.size else _most_said(codes)
        return job

    def _refuse(self, item: Pick, code: int) -> None:
        candidates = self._candidates
        waits = self._fair_order.waiting().copy()
        waits[item.at] = False
        others = alike(self._session, self._action, candidates, item.at, waits)
        gone = np.sort(np.append(others, item.at))
        jobs = candidates.job[gone]
        codes = np.full(len(jobs), code, np.int16)
        self._session.outcome.note_claims(self._action, jobs, codes)
        self._fair_order.drop(gone)


def _most_said(codes: CodeVec) -> int:
    """Return the most frequent refusal among possible victims; weak reasons come last."""
    counts: Counter[int] = Counter(codes.tolist())
    texts = {code: text_of(code) for code in counts}
    return max(counts, key=lambda code: (not texts[code].is_weak, counts[code], texts[code].name))


def without_delayed(session: Session, action: str, job: RowVec) -> RowVec:
    """Leave out jobs whose preemption delay is not over, and note it."""
    codes = held_back(session, job)
    if codes is None:
        return job
    session.outcome.note_claims(action, job[codes != 0], codes[codes != 0])
    free: RowVec = job[codes == 0]
    return free


def anything_runs(session: Session) -> bool:
    """Tell whether :func:`running_jobs` would return any job: one job that still runs is enough."""
    row: int = session.hints.get(_WITNESS, -1)
    jobs = session.jobs
    if 0 <= row < len(jobs.active) and not session.outcome.evictions and session.stranded is None:
        runs = jobs.active[row] > 0 and jobs.is_preemptible[row] and jobs.queue_of_job[row] >= 0
        if runs and session.has_moved:
            runs = session.ledger.job_active[row] > 0
        if runs:
            return True
    running = running_jobs(session)
    if running.size:
        session.hints[_WITNESS] = int(running[-1])
    return bool(running.size)


def running_jobs(session: Session) -> RowVec:
    """Return the preemptible jobs that ran when the cycle began, and still run.

    Their pods that this cycle has placed or promised stay: a list of victims leaves them out.
    """
    known: tuple[int, int, RowVec] | None = session.found.get(_RUNNING)
    rests_on = session.moves, len(session.outcome.evictions)
    if known is not None and known[:2] == rests_on:
        return known[2]
    jobs = session.jobs
    runs = (jobs.active > 0) & jobs.is_preemptible & (jobs.queue_of_job >= 0)
    if np.count_nonzero(runs):
        if session.stranded_of_job is not None:
            runs &= jobs.active > session.stranded_of_job
        if session.has_moved:
            runs &= session.ledger.job_active > 0
            gone = [eviction.task for eviction in session.outcome.evictions]
            runs[session.tasks.job_of_task[gone]] = False  # no job loses pods to two actions
    rows: RowVec = runs.nonzero()[0]
    session.found[_RUNNING] = (*rests_on, rows)
    return rows
