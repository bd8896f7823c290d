"""Consolidate: move running pods together, so that a pending job fits; no pod loses its room.

Every moved pod has its new node in the same plan. The cheapest moves are taken first, and a claim
may move only a limited number of jobs.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final

import numpy as np

from kaisched.actions.eviction.demand import Demand, Plan
from kaisched.actions.eviction.evicting import (
    consolidate_reason,
    is_loop,
    note_eviction,
    recall_evictions,
    running_jobs,
    serve,
    without_delayed,
)
from kaisched.actions.eviction.relocation import Relocation, without_place
from kaisched.actions.eviction.search import Search
from kaisched.actions.order.candidates import ANY, alike, drop_gated, gather, pending_jobs
from kaisched.actions.order.job_order import keep_best
from kaisched.actions.order.stepwise import StepwiseOrder
from kaisched.actions.room.clearing import Clearing, Movable, Prices
from kaisched.actions.room.placing import has_parts, is_spread, is_tight, place_waiting
from kaisched.actions.room.promises import keep_promises
from kaisched.core.axis import PODS
from kaisched.core.refusals import Refusal
from kaisched.framework.session.batches import main_resource
from kaisched.framework.session.limits import (
    has_budgets,
    is_spent,
    may_disrupt,
    may_evict,
    stops_here,
)
from kaisched.framework.session.order import pending_tasks
from kaisched.framework.session.units import Claim, Unit

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kaisched.actions.order.candidates import Candidates
    from kaisched.core.axis import BoolVec, RowVec
    from kaisched.framework.session.session import Session
    from kaisched.framework.session.statement import Statement

TRIES: Final = 8
"""How many sets of nodes one claim may try; a set fails when a moved pod finds no new place."""
_NO_ROOM_EVEN_SO: Final = int(Refusal.NO_VICTIMS)
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
        self._respects_budgets = has_budgets(session)
        self._movable: dict[bool, Movable] = {}
        self._prices: dict[tuple[object, int, int, bool], Prices] = {}

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

        def plan(claim: Claim) -> Plan | int:
            return self._plan(claim, tasks)

        return serve(session, claim, tasks, plan, self._carry_out)

    def _plan(self, claim: Claim, tasks: RowVec) -> Plan | int:
        """Return a plan on the set of nodes that is tried now, or the refusal."""
        session = self._session
        demand = self._search.demand(claim, tasks)
        avoided = _Avoided()
        clearings: list[Clearing] | None = None
        for number in range(TRIES):
            clearings = self._choose(demand, avoided, respects_budgets=self._respects_budgets)
            if clearings is None:
                return self._nothing_to_clear(demand, avoided)
            if not may_evict(session, sum(len(unit.tasks) for unit in _units(clearings))):
                return int(Refusal.EVICTION_BUDGET)
            stuck = self._moved(demand, clearings, is_first=not number)
            if isinstance(stuck, Plan):
                return stuck
            if not clearings:
                break  # room is not what is missing: no other choice would help
            self._avoid(demand, avoided, clearings, stuck)
        return int(Refusal.SEARCH_BUDGET) if clearings else _NO_ROOM_EVEN_SO

    def _avoid(
        self, demand: Demand, avoided: _Avoided, clearings: list[Clearing], stuck: set[int]
    ) -> None:
        """Avoid what found no place: the nodes, or only the choice where a node has others."""
        if self._session.capacity.cards is not None:  # else no node has a choice
            movable = self._movable[self._respects_budgets]
            prices = [
                self._priced(shape, respects_budgets=self._respects_budgets)
                for shape, _ in demand.shapes
            ]
            for clearing in clearings:
                if clearing.node in stuck and any(
                    it.has_others(clearing, movable, avoided.choices) for it in prices
                ):
                    avoided.choices.append(clearing)
                    stuck = stuck - {clearing.node}
        avoided.nodes.update(stuck)

    def _nothing_to_clear(self, demand: Demand, avoided: _Avoided) -> int:
        """Return the refusal: disruption budgets if clearings without them would make room."""
        if (
            self._respects_budgets
            and self._choose(demand, avoided, respects_budgets=False) is not None
        ):
            return int(Refusal.DISRUPTION_BUDGET)
        return _NO_ROOM_EVEN_SO

    def _choose(
        self, demand: Demand, avoided: _Avoided, *, respects_budgets: bool
    ) -> list[Clearing] | None:
        """Return the cheapest clearings that make room for the whole claim, or None."""
        movable = self._movable.get(respects_budgets)
        if movable is None:
            movable = Movable(self._session, self._running, respects_budgets=respects_budgets)
            self._movable[respects_budgets] = movable
        chosen: list[Clearing] = []
        taken = set(avoided.nodes)
        may_clear = partial(self._may_clear, demand, respects_budgets=respects_budgets)
        for shape, count in demand.shapes:
            future = self._search.future(shape)
            missing = count - future.total
            if missing <= 0:
                continue
            prices = self._priced(shape, respects_budgets=respects_budgets)
            first = len(chosen)
            cheapest_first = prices.cheapest_first(movable, avoided.choices)
            if self._is_too_much(movable, cheapest_first.fewest_pods(missing)):
                return None
            for clearing in cheapest_first:
                if clearing.node in taken or not may_clear([*chosen, clearing]):
                    continue
                taken.add(clearing.node)
                chosen.append(clearing)
                missing -= 1
                if not missing:
                    break
            for _ in range(missing):
                # Every node has been taken once: now one of them for a pod more.
                deeper = [
                    [*chosen[:at], more, *chosen[at + 1 :]]
                    for at in range(first, len(chosen))
                    if (more := prices.deeper(chosen[at], movable)) is not None
                ]
                deeper = [it for it in deeper if may_clear(it)]
                if not deeper:
                    return None
                chosen = min(deeper, key=_cost)
        return chosen

    def _is_too_much(self, movable: Movable, pods: int) -> bool:
        """Tell whether so many pods on different nodes are of more jobs than may move."""
        # Where pods share GPUs, a node may make room for several pods of the claim.
        is_bounded = self._most >= 0 and self._session.capacity.cards is None
        return is_bounded and pods > movable.pods_of(self._most)

    def _may_clear(
        self, demand: Demand, clearings: list[Clearing], *, respects_budgets: bool
    ) -> bool:
        """Tell whether some clearings may be made together for a claim."""
        moved = {item.unit.job for clearing in clearings for item in clearing.items}
        if self._most >= 0 and len(moved) > self._most:
            return False
        if demand.claim.job in moved:
            return False  # the job's core would wait for its own elastic pods
        return not respects_budgets or self._may_move(clearings)

    def _may_move(self, clearings: list[Clearing]) -> bool:
        """Tell whether disruption budgets allow all moves of clearings."""
        moved = {task for unit in _units(clearings) for task in unit.tasks}
        return may_disrupt(self._session, sorted(moved))

    def _priced(self, shape: int, *, respects_budgets: bool) -> Prices:
        session = self._session
        main = main_resource(session, session.shapes.request[:, shape])
        nodes = session.placement.nodes
        key = (None if nodes is None else nodes.key, shape, main, respects_budgets)
        future, prices = self._search.future(shape), self._prices.get(key)
        if prices is None or not prices.is_of(future):
            prices = self._prices[key] = Prices(session, future, main)
        return prices

    def _moved(
        self, demand: Demand, clearings: list[Clearing], *, is_first: bool
    ) -> Plan | set[int]:
        """Move and place; return the plan, or the nodes whose pods found no new place.

        The claim is placed first. If the moved pods then find no new place, they are placed first.
        """
        session = self._session
        units = _units(clearings)
        nodes = {clearing.node for clearing in clearings}
        # The first choice often succeeds. Where it does not, the others mostly fail like it.
        lacking = [] if is_first else without_place(session, self._search, demand, units)
        if lacking and len(lacking) == len(units):
            return self._nodes_of(units)
        plan = Plan(session.statement(), units.copy())
        is_done = self._claim_first(plan, demand)
        stuck = self._nodes_of(plan.units)
        if not is_done and units and not lacking:
            plan.statement.rollback()
            plan = Plan(session.statement(), units.copy())
            is_done = self._moves_first(plan, demand, nodes)
        if not is_done:
            plan.statement.rollback()
            return stuck or {-1}
        return Plan(plan.statement, units)

    def _nodes_of(self, units: Iterable[Unit]) -> set[int]:
        """Return the nodes on which pods of units ran when the cycle began."""
        before = self._session.tasks.node_of_task
        return {int(before[task]) for unit in units for task in unit.tasks}

    def _carry_out(self, claim: Claim, plan: Plan) -> None:
        """Commit a plan on the set of nodes that is tried now."""
        session, units = self._session, plan.units
        moved = sum(len(unit.tasks) for unit in units)
        reason = consolidate_reason(session, claim, moved)
        if units:
            note_eviction(session, claim.job)
        plan.statement.commit(self._action, claim.job, reason)
        session.outcome.refusal[claim.job] = _WAITING
        # No pod moves twice in one cycle.
        for movable in self._movable.values():
            movable.forget(units)
        for prices in self._prices.values():
            prices.forget()

    def _claim_first(self, plan: Plan, demand: Demand) -> bool:
        plan.statement.evict_all(_tasks(plan.units))
        return self._put(plan.statement, demand) and self._relocation.relocate(plan)

    def _moves_first(self, plan: Plan, demand: Demand, nodes: set[int]) -> bool:
        plan.statement.evict_all(_tasks(plan.units))
        return self._relocation.relocate(plan, nodes) and self._put(plan.statement, demand)

    def _put(self, statement: Statement, demand: Demand) -> bool:
        session = self._session
        tasks = demand.tasks
        is_split = (
            len(demand.shapes) > 1
            or has_parts(session, demand.claim.job)
            or is_spread(session, demand.shapes[0][0])
        )
        if is_split or len(tasks) <= 4 or is_tight(session, tasks):  # noqa: PLR2004
            return place_waiting(session, statement, tasks)
        shape = demand.shapes[0][0]
        nodes = session.placement.choose_future(shape, len(tasks))
        if nodes is not None:
            statement.promise(tasks, nodes, shape)
        return nodes is not None


class _Avoided:
    """What was tried for a claim and gives no room."""

    def __init__(self) -> None:
        self.nodes: set[int] = set()
        self.choices: list[Clearing] = []
        """On nodes where other pods may leave instead."""


def _cost(clearings: Iterable[Clearing]) -> tuple[int, int]:
    """Return how many pods clearings move, and what these hold."""
    pods, held = zip(*(clearing.cost for clearing in clearings), strict=True)
    return sum(pods), sum(held)


def _units(clearings: Iterable[Clearing]) -> list[Unit]:
    """Return the units that clearings move, each once: a gang may be on several nodes.

    The largest units are last, and are placed first: a place for them is hardest to find.
    """
    items = {item.unit: item for clearing in clearings for item in clearing.items}
    return sorted(items, key=lambda unit: (max(items[unit].amounts), -items[unit].place))


def _tasks(units: Iterable[Unit]) -> RowVec:
    return np.array([task for unit in units for task in unit.tasks], np.int64)
