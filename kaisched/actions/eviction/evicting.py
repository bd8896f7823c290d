"""The common part of reclaim and preempt: claims in fair order, searches, plans and refusals.

A claim is the next batch of a pending job for which pods of other jobs may be evicted.

A job whose search fails does not block other jobs. Only jobs of the same queue that ask for at
least as many of the same pods are refused along with it, since nothing has moved in between.
"""

from __future__ import annotations

from abc import abstractmethod
from bisect import bisect_right
from collections import Counter
from dataclasses import replace
from functools import partial
from itertools import groupby
from typing import TYPE_CHECKING, Final
from zlib import crc32

import numpy as np

from kaisched.actions.eviction.demand import Plan
from kaisched.actions.eviction.relocation import Relocation
from kaisched.actions.eviction.search import Search, nodes_of
from kaisched.actions.eviction.victims import VictimList
from kaisched.actions.order.candidates import alike, gather, pending_jobs
from kaisched.actions.order.job_order import keep_best
from kaisched.actions.order.stepwise import StepwiseOrder
from kaisched.actions.room.placing import is_spread
from kaisched.actions.room.promises import keep_promises
from kaisched.core.devices import gpus_of
from kaisched.core.refusals import Refusal, text_of
from kaisched.framework.report.records import EvictionReason
from kaisched.framework.session.limits import (
    has_budgets,
    has_waited,
    is_spent,
    may_evict,
    protected,
    stops_here,
    waits_since,
)
from kaisched.framework.session.node_sets import node_sets, shapes_of
from kaisched.framework.session.units import Claim

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from kaisched.actions.eviction.demand import Demand
    from kaisched.actions.order.candidates import Candidates
    from kaisched.actions.order.predicted import Pick
    from kaisched.core.axis import Amounts, CodeVec, RowVec
    from kaisched.framework.session.limits import Protected
    from kaisched.framework.session.node_sets import NodeSet, NodeSets
    from kaisched.framework.session.outcome import Reason
    from kaisched.framework.session.session import Session
    from kaisched.framework.session.units import Unit

    Cost = tuple[int, int, int, int, float]
    CostOf = Callable[[Session, Plan], Cost]


# Preemption delay and policy: when other jobs may be evicted for a job, and whether ever.

_DELAYED: Final = np.int16(Refusal.EVICTION_DELAY)
_NEVER: Final = np.int16(Refusal.NEVER_PREEMPTING)


def held_back(session: Session, job: RowVec) -> CodeVec | None:
    """Return why jobs may not cause evictions, yet or ever, ``(K,)``; None if all may.

    The delay runs from the job's creation, or from its last eviction.
    """
    jobs = session.jobs
    delay_s, is_never = jobs.preemption_delay_s[job], jobs.is_never_preempting[job]
    if not ((delay_s > 0) | is_never).any():
        return None
    since_s = waits_since(jobs, job)
    is_held = (delay_s > 0) & (session.now_s < since_s + delay_s)
    codes = np.where(is_never, _NEVER, is_held * _DELAYED)
    return codes if codes.any() else None


# Detects eviction loops: evictions from a state, and for a job, that an earlier cycle had (R33).
#
# The rules of shares, priorities and indivisible gangs each make sense, but together they can form
# a ring: A takes from B, B from C, and C from A. So nothing is evicted for a job in a state of the
# cluster in which an earlier cycle evicted for it, if other states had evictions in between. This
# holds for some minutes. Retrying an eviction that the API refused is not a loop.

PACE_S: Final = 600.0
"""How long an eviction is remembered: the same state may also come back by chance."""
_FACT: Final = "turns"
"""A list of [state, beneficiary, seconds], the latest last."""
_MOST: Final = 1000
"""At most so many evictions are remembered: a ring is short."""
_SEEN: Final = "turns.seen"
_STATE: Final = "turns.state"


def recall_evictions(session: Session) -> None:
    """Keep the remembered evictions that are recent enough."""
    known = session.memory.facts.get(_FACT)
    if not known or _FACT in session.facts or known[-1][2] > session.now_s:
        return  # the clock was set back, so that their age is unknown
    first = bisect_right(known, session.now_s - PACE_S, key=lambda entry: entry[2])
    recent = known[max(first, len(known) - _MOST) :]
    if recent:
        session.facts[_FACT] = recent


def note_eviction(session: Session, job: int) -> None:
    """Remember that this cycle evicts for a job."""
    entry = [_state(session), _mark(session, job), session.now_s]
    session.facts.setdefault(_FACT, []).append(entry)


def is_loop(session: Session, job: int, ask: Amounts) -> bool:
    """Tell whether the cluster is as it was when an earlier cycle, not the last, evicted for a job.

    A job may always take what plugins guarantee to it: a ring needs a job that takes more. ``ask``
    is ``(R,)``.
    """
    seen: set[int] | None = session.found.get(_SEEN)
    if seen is None:
        seen = session.found[_SEEN] = _beneficiaries(session)
    if not seen or _mark(session, job) not in seen:
        return False
    return not bool(session.ask.is_guaranteed(session, np.array([job]), ask[:, None])[0])


def _beneficiaries(session: Session) -> set[int]:
    """Return the jobs for which cycles before the last one evicted in the present state."""
    recent = session.facts.get(_FACT, ())
    if len(recent) < 2 or recent[-1][0] == _state(session):  # noqa: PLR2004 - a loop takes two
        return set()
    return {beneficiary for state, beneficiary, _ in recent if state == _state(session)}


def _mark(session: Session, job: int) -> int:
    return crc32(session.jobs.name[job].encode())


def _state(session: Session) -> int:
    """Return a hash of what decides: running jobs, and what queues hold, request and deserve.

    The hash is the same in every process. It is of the beginning of the cycle.
    """
    state: int | None = session.found.get(_STATE)
    if state is None:
        jobs, queues = session.jobs, session.queues
        runs = (jobs.active > 0).nonzero()[0]
        who = sum(
            count * _mark(session, row)
            for row, count in zip(runs.tolist(), jobs.active[runs].tolist(), strict=True)
        )
        of_queues = [session.requested, session.fair_share, queues.deserved, queues.limit]
        if session.usage is not None:
            of_queues.append(session.usage.parts)
        what = crc32(np.concatenate(of_queues).tobytes())
        state = session.found[_STATE] = crc32(f"{who} {queues.name}".encode(), what)
    return state


# The reason of an eviction: the policy's sentence, or which queue takes from which.

_NAMED = 3
"""At most so many queues are named."""


def eviction_reason(session: Session, claim: Claim, plan: Plan) -> Reason:
    """Return a function that makes the reason of a plan's evictions, once it is read."""
    if plan.pass_number != claim.pass_number:
        claim = replace(claim, pass_number=plan.pass_number)
    units = plan.units or plan.relocated
    own = session.ask.eviction_reason(session, claim, units)
    plain = _preempted if claim.action == "preempt" else _taken
    moved = sum(len(unit.tasks) for unit in plan.movers)
    return partial(_reason, own or partial(plain, claim, tuple(units)), moved)


def _reason(
    made: Callable[[Session], EvictionReason], moved: int, session: Session
) -> EvictionReason:
    reason = made(session)
    if not moved:
        return reason
    sentence = f"{reason.sentence}; pods that make way for it by moving: {moved}"
    return reason._replace(sentence=sentence)


def _preempted(claim: Claim, units: tuple[Unit, ...], session: Session) -> EvictionReason:
    """Return for example ``preempted by Job team/train: priority 100 over 50 in queue a``."""
    jobs = session.jobs
    over = max((int(jobs.priority[unit.job]) for unit in units), default=0)
    queue = session.queues.name[claim.queue]
    return EvictionReason(
        f"preempted by {jobs.title[claim.job]}:"
        f" priority {int(jobs.priority[claim.job])} over {over} in queue {queue}"
    )


def _taken(claim: Claim, units: tuple[Unit, ...], session: Session) -> EvictionReason:
    """Return for example ``reclaim for Job team/train of queue a, from queue b``."""
    jobs, names = session.jobs, session.queues.name
    losers = sorted({names[int(jobs.queue_of_job[unit.job])] for unit in units})
    more = f" and {len(losers) - _NAMED} more" if len(losers) > _NAMED else ""
    return EvictionReason(
        f"{claim.action} for {jobs.title[claim.job]} of queue {names[claim.queue]},"
        f" from queue {', '.join(losers[:_NAMED])}{more}"
    )


def consolidate_reason(session: Session, claim: Claim, pods: int) -> str:
    """Return for example ``moved, one of 3 pods, so that Job team/train fits``."""
    number = "the only pod" if pods == 1 else f"one of {pods} pods"
    return f"moved, {number}, so that {session.jobs.title[claim.job]} fits; its new node is planned"


# Tries a claim on several sets of nodes: of equally good ones the cheapest evictions are taken.

_PREEMPT: Final = "preempt"
MOST_PLANS: Final = 8
"""The number of equally good sets whose plans are compared."""
MOST_TRIES: Final = 64
"""The number of equally good sets that are searched."""


def serve(
    session: Session,
    claim: Claim,
    tasks: RowVec,
    plan: Callable[[Claim], Plan | int],
    carry_out: Callable[[Claim, Plan], None],
) -> int:
    """Carry out a claim's plan on the first set of nodes that has one; return 0, or the refusal.

    Args:
        session: the session.
        claim: the claim, on no set of nodes yet.
        tasks: the task rows of its batch.
        plan: returns the plan of a claim on the set of nodes that is tried now, or the refusal.
        carry_out: commits such a plan.

    """
    sets = node_sets(session, claim.action, claim.job, claim.ask, shapes_of(session, tasks))
    cost_of = _by_priority if claim.action == _PREEMPT else _by_loss
    found = first_plan(session, sets, lambda nodes: plan(replace(claim, within=nodes)), cost_of)
    if isinstance(found, int):
        return found
    nodes, best = found
    with session.placement.within(nodes):
        carry_out(replace(claim, within=nodes), best)
    return 0


def first_plan(
    session: Session,
    sets: NodeSets | None,
    search: Callable[[NodeSet | None], Plan | int],
    cost_of: CostOf,
) -> tuple[NodeSet | None, Plan] | int:
    """Return the first set that has a plan, with the plan, whose statement is open; or a refusal.

    Args:
        session: the session.
        sets: the sets of nodes to try, None for all nodes as the only one.
        search: returns the plan on a set, asked while the set is tried.
        cost_of: returns what a plan disturbs, compared between equally good sets.

    """
    if sets is None:
        found = search(None)
        return found if isinstance(found, int) else (None, found)
    codes: list[int] = []
    for peers in _peers(sets):
        best = _best(session, peers, search, cost_of, codes)
        if best is not None:
            return best
    if codes:
        return codes[0]
    return int(Refusal.NO_VICTIMS) if sets.code == Refusal.NO_NODE_ALLOWED else sets.code


def _peers(sets: Sequence[NodeSet]) -> Iterator[list[NodeSet]]:
    for at, group in groupby(enumerate(sets), lambda each: each[1].peers or each[0]):
        del at
        yield [nodes for _, nodes in group]


def _best(
    session: Session,
    peers: list[NodeSet],
    search: Callable[[NodeSet | None], Plan | int],
    cost_of: CostOf,
    codes: list[int],
) -> tuple[NodeSet, Plan] | None:
    """Return the set whose plan costs least; the first of several."""
    plans: list[tuple[Cost, int]] = []
    for at, nodes in enumerate(peers[:MOST_TRIES]):
        with session.placement.within(nodes):
            plan = search(nodes)
        if isinstance(plan, int):
            codes.append(plan)
            continue
        if len(peers) == 1 or not (plan.units or plan.movers):
            return nodes, plan
        plans.append((cost_of(session, plan), at))
        plan.statement.rollback()
        if len(plans) == MOST_PLANS:
            break
    if not plans:
        return None
    nodes = peers[min(plans)[1]]
    with session.placement.within(nodes):
        again = search(nodes)
    assert isinstance(again, Plan)  # it was found just now from the same state
    return nodes, again


def _by_priority(session: Session, plan: Plan) -> Cost:
    """Return what a plan disturbs, the highest priority first.

    Preemption is inside one queue, where priorities say who goes before whom; those of different
    queues are set by different people.
    """
    gpus, jobs, priority, pods, age = _by_loss(session, plan)
    return priority, gpus, jobs, pods, age


def _by_loss(session: Session, plan: Plan) -> Cost:
    """Return what a plan disturbs: GPUs, jobs, the highest priority, pods, the newest job's age.

    Pods that only move are in none of the others: they are restarted too.
    """
    units = plan.units + plan.movers
    jobs = sorted({unit.job for unit in units})
    tasks = [task for unit in units for task in unit.tasks]
    gpus = gpus_of(session, tasks)
    newest = float(session.jobs.created_s[jobs].max())
    priority = int(session.jobs.priority[jobs].max())
    return gpus, len(jobs), priority, plan.statement.evicted(), -newest


_WAITING = int(Refusal.WAITING_FOR_RELEASE)
_NO_VICTIMS = int(Refusal.NO_VICTIMS)
_BUDGET = int(Refusal.EVICTION_BUDGET)
_TURN = int(Refusal.TAKING_TURNS)
_RUNNING: Final = "running"


class Evicting:
    """One run of an evicting action."""

    def __init__(self, session: Session, action: str) -> None:
        """Prepare nothing yet: most runs end without a claim."""
        self._session = session
        self._action = action
        self._victim_lists: dict[tuple[object, ...], VictimList | int] = {}
        self._refused: tuple[object, ...] | None = None
        """The class that was refused last."""

    def run(self) -> None:
        """Try the claims in fair order."""
        session = self._session
        recall_evictions(session)
        keep_promises(session)
        if not running_jobs(session).size or is_spent(session, self._action):
            return
        candidates = self._claims()
        if candidates is None:
            return
        self._running = running_jobs(session)
        self._search = Search(session)
        self._relocation = Relocation(session, self._action, self._search)
        fair_order = StepwiseOrder(session, self._action, candidates, is_gated=False)
        self._candidates, self._fair_order = candidates, fair_order
        is_first = True
        while (item := fair_order.peek()) is not None:
            if stops_here(session, self._action, candidates.job[fair_order.waiting()]):
                return
            if self._has_lost_pods(int(candidates.job[item.at])):
                fair_order.refused(item)  # its batch is of no use without the lost pods
                continue
            code = self._try(item, is_first=is_first)
            if code:
                self._refuse(item, code)
            else:
                is_first = False
                fair_order.placed(item)

    def _claims(self) -> Candidates | None:
        """Return the jobs that the claim gate lets take from other jobs; None if there are none."""
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
        candidates = drop_without_claim(session, action, candidates)
        return candidates if len(candidates) else None

    def _narrowed(self, job: RowVec) -> RowVec:
        """Leave out jobs that can have no victims; a quick check."""
        return job

    @abstractmethod
    def _victims(self, claim: Claim) -> RowVec:
        """Return the running jobs that the action may evict for a claim."""

    def _otherwise(self, demand: Demand, victim_list: VictimList) -> Plan | None:
        """Return a different kind of plan for a claim that no victims make room for."""
        del demand, victim_list
        return None

    @abstractmethod
    def _class(self, demand: Demand) -> tuple[object, ...]:
        """Return the class of a claim: its victims and their room depend only on the class."""

    def _key(self, demand: Demand) -> tuple[object, ...]:
        """Return the class of a claim on the set of nodes that is tried now."""
        nodes = demand.claim.within
        key = has_waited(self._session, demand.claim.job), *self._class(demand)
        return key if nodes is None else (nodes.key, *key)

    def _try(self, item: Pick, *, is_first: bool) -> int:
        """Carry out one claim; return 0 or the refusal code."""
        session, candidates = self._session, self._candidates
        job = int(candidates.job[item.at])
        session.trying = (job,)
        ask = candidates.asks(session, np.array([item.at]))[:, 0]
        claim = Claim(self._action, job, int(candidates.queue[item.at]), ask)
        if not is_first and (code := claim_code(session, claim)):
            return code
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
            # A victim that stays after all would still count where the pods are spread.
            spread = any(is_spread(session, shape) for shape, _ in demand.shapes)
            self._relocation.relocate(plan, nodes_of(session, plan.units) if spread else ())
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
        reason, waits = eviction_reason(session, claim, plan), plan.statement.has_pipelined
        plan.statement.commit(self._action, claim.job, reason)
        if waits:
            session.outcome.refusal[claim.job] = _WAITING

    def _found(self, demand: Demand, victim_list: VictimList) -> Plan | int:
        """Return a plan with an open statement, or the refusal code."""
        plan = self._search.solve(demand, victim_list)
        if isinstance(plan, Plan):
            return plan
        other = self._otherwise(demand, victim_list)
        if other is not None:
            return other
        self._let_go(self._key(demand))
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
            if isinstance(job, int):
                victim_list = job
            else:
                bounds = self._protected(demand.claim)
                victim_list = VictimList(self._session, job, None, bounds)
            self._victim_lists[key] = victim_list
        return victim_list

    def _protected(self, claim: Claim) -> Protected | None:
        """Return up to what of queues disruption budgets hold against a claim; None for all."""
        has_any = has_budgets(self._session)
        return protected(self._session, claim.job) if has_any else None

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
        session, candidates = self._session, self._candidates
        waits = self._fair_order.waiting().copy()
        waits[item.at] = False
        if isinstance(session.policy.disruption_budgets, float):
            waited = [has_waited(session, job) for job in candidates.job.tolist()]
            waits &= np.array(waited) == waited[item.at]
        others = alike(session, self._action, candidates, item.at, waits)
        gone = np.sort(np.append(others, item.at))
        jobs = candidates.job[gone]
        codes = np.full(len(jobs), code, np.int16)
        session.outcome.note_claims(self._action, jobs, codes)
        self._fair_order.drop(gone)


def _most_said(codes: CodeVec) -> int:
    """Return the most frequent refusal among possible victims; weak reasons come last."""
    counts: Counter[int] = Counter(codes.tolist())
    texts = {code: text_of(code) for code in counts}
    return max(counts, key=lambda code: (not texts[code].is_weak, counts[code], texts[code].name))


def without_delayed(session: Session, action: str, job: RowVec) -> RowVec:
    """Leave out jobs for which nothing may be evicted, yet or ever, and note it."""
    codes = held_back(session, job)
    if codes is None:
        return job
    session.outcome.note_claims(action, job[codes != 0], codes[codes != 0])
    free: RowVec = job[codes == 0]
    return free


def drop_without_claim(session: Session, action: str, candidates: Candidates) -> Candidates:
    """Leave out jobs that plugins let take nothing from others, and note it."""
    if not len(candidates):
        return candidates
    asks = candidates.asks(session, np.arange(len(candidates)))
    codes = session.ask.claim_gate(session, action, candidates.job, asks)
    if codes is None or not np.count_nonzero(codes):
        return candidates
    refused = codes != 0
    session.outcome.note_claims(action, candidates.job[refused], codes[refused])
    return candidates.keep(~refused)


def claim_code(session: Session, claim: Claim) -> int:
    """Return why plugins let a job take nothing from others as of now; 0 if it may."""
    job, ask = np.array([claim.job]), claim.ask[:, None]
    codes = session.ask.claim_gate(session, claim.action, job, ask)
    return 0 if codes is None else int(codes[0])


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
