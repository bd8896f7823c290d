"""The victim search: finds the fewest victims, in victim order, that make room for a claim.

An attempt finds units in order. If fewer pods suffice, or as many pods with fewer GPUs, those go
instead. Every search is bounded: it ends when it has placed the claim too often. The bound counts
steps, never seconds.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING, Final

from kaisched.actions.eviction.attempt import Attempt
from kaisched.actions.eviction.card_sets import CardSets, counts_by_card
from kaisched.actions.eviction.fewest import EVERY_SET, Fewest, cost_of, is_least, is_too_large
from kaisched.actions.eviction.ordered import OrderedAttempt
from kaisched.actions.eviction.plan import Demand, Plan
from kaisched.actions.room.future import Future
from kaisched.core.refusals import text_of
from kaisched.units import UNLIMITED

if TYPE_CHECKING:
    from kaisched.actions.eviction.fewest import Cost
    from kaisched.actions.eviction.victim_list import VictimList
    from kaisched.core.axis import RowVec
    from kaisched.framework.session.session import Session
    from kaisched.framework.session.units import Claim

PASSES: Final = 4
"""At most so many passes: a victim that plugins refuse in each of them is refused for good."""
STEPS: Final = 64
"""How often one search may place its claim in a statement."""
_ANY_COST: Final[Cost] = UNLIMITED, UNLIMITED
_TRIES: Final = 8
"""So many sets of units are tried if the units in order make room that the claim cannot use."""


class Search:
    """Searches victims for the claims of one action in one cycle."""

    def __init__(self, session: Session) -> None:
        """Start without any computed room."""
        self._session = session
        self._futures: dict[tuple[object, int], Future] = {}
        self._steps = 0

    def future(self, shape: int) -> Future:
        """Return the room of a shape once all releasing pods are gone, as of now."""
        nodes = self._session.placement.nodes
        key = None if nodes is None else nodes.key, shape
        future = self._futures.get(key)
        if future is None or not future.is_current:
            future = self._futures[key] = Future(self._session, shape)
        else:
            future.catch_up()
        return future

    def demand(self, claim: Claim, tasks: RowVec) -> Demand:
        """Count a claim's pods by shape."""
        shapes: dict[int, int] = {}
        for shape in self._session.tasks.shape_of_task[tasks].tolist():
            shapes[shape] = shapes.get(shape, 0) + 1
        return Demand(claim, tasks, list(shapes.items()))

    def solve(self, demand: Demand, victim_list: VictimList) -> Plan | int:
        """Return a plan with an open statement, or the refusal code."""
        self.begin(victim_list)
        if self._session.ask.orders_victims:  # with victims in order, the first goes unasked
            plan = OrderedAttempt(self, self._session, demand, victim_list).take_nobody()
            if plan is not None:
                return plan
        code = 0
        for number in range(PASSES):
            asked = demand
            if number:
                asked = replace(demand, claim=replace(demand.claim, pass_number=number))
            found = self._pass(asked, victim_list)
            if isinstance(found, Plan):
                return found
            code = found
            if not text_of(found).is_retried:
                break
        return code

    def _pass(self, demand: Demand, victim_list: VictimList) -> Plan | int:
        """Return the plan or refusal of one pass, in the policy's order or else the list's."""
        ordered = None
        if self._session.ask.orders_victims:
            units = victim_list.units(victim_list.places)
            ordered = self._session.ask.victim_order(self._session, demand.claim, units)
        if ordered is not None:
            rows, code = ordered
            places = victim_list.places[rows]
            in_order = OrderedAttempt(self, self._session, demand, victim_list)
            return in_order.take_in_order(places, code)
        able = self._with_devices(demand, victim_list)
        plan = None if able is None else self._in_order(demand, able)
        if isinstance(plan, Plan):
            return plan
        found = self._in_order(demand, victim_list)
        if isinstance(found, Plan):
            return found
        # Units that free nothing for the claim may have used up what their queues may lose.
        freeing = victim_list.freeing([(self.future(it), count) for it, count in demand.shapes])
        plan = None if freeing is None else self._in_order(demand, freeing)
        return plan if isinstance(plan, Plan) else found

    def _with_devices(self, demand: Demand, victim_list: VictimList) -> VictimList | None:
        """Return the units to look at first where a claim lacks devices; None if that is all."""
        devices, placement = self._session.devices, self._session.placement
        if devices is None:
            return None
        short = []
        for shape, count in demand.shapes:
            placement.plan(shape)  # it brings the numbers of devices up to date
            if devices.are_short(shape, count):
                short.append(shape)
            elif self.future(shape).total < count:
                return None
        return victim_list.with_devices_for(short)

    def _in_order(self, demand: Demand, victim_list: VictimList) -> Plan | int:
        """Return the plan or refusal of one pass over a list."""
        has_few = len(victim_list.places) <= EVERY_SET  # then every set is tried, if one is found
        plan = None if has_few else self._by_card(demand, victim_list)
        if plan is not None:
            return plan
        attempt = Attempt(self, self._session, demand, victim_list)
        found = attempt.run()
        if isinstance(found, Plan):
            return self._fewest(attempt, found)
        if attempt.has_room_in_vain:
            plan = self._by_card(demand, victim_list) if has_few else None
            plan = plan or self._cheaper(attempt, _ANY_COST, _TRIES)
        return found if plan is None else plan

    def _by_card(self, demand: Demand, victim_list: VictimList) -> Plan | None:
        """Return the cheapest plan that looking card by card finds, where pods share GPUs."""
        session = self._session
        needs = [(self.future(shape), count) for shape, count in demand.shapes]
        if not counts_by_card(session, victim_list, needs):
            return None
        judge = Attempt(self, session, demand, victim_list).judge_sets
        sets = CardSets(session, victim_list, needs, judge)
        for places in islice(sets.cheapest_first(), _TRIES):
            units = [victim_list.unit(place) for place in places]
            attempt = Attempt(self, session, demand, victim_list)
            found = attempt.settle(units)
            if found is not None:
                return self._fewest(attempt, found, _TRIES)
            if not self.step():
                break
        return None

    def _fewest(self, attempt: Attempt, plan: Plan, most: int = STEPS) -> Plan:
        """Return the plan of an attempt, or another one that disturbs less."""
        session, demand, victim_list = self._session, attempt.demand, attempt.victim_list
        if is_too_large(victim_list, demand):
            return plan
        cost = cost_of(session, plan.units)
        if is_least(session, victim_list, cost):
            return plan
        plan.statement.rollback()
        cheaper = self._cheaper(attempt, cost, most)
        if cheaper is not None:
            return cheaper
        again = attempt.place_again()
        assert again is not None  # it was placed just now from the same state
        return again

    def _cheaper(self, attempt: Attempt, cost: Cost, most: int) -> Plan | None:
        """Return the cheapest plan below a cost, from the first ``most`` sets of units, or None."""
        session, demand, victim_list = self._session, attempt.demand, attempt.victim_list
        if is_too_large(victim_list, demand):
            return None
        fewest = Fewest(
            session, victim_list, [(self.future(shape), n) for shape, n in demand.shapes]
        )
        for places in islice(fewest.below(cost, attempt.judge_sets), most):
            units = [victim_list.unit(place) for place in places]
            found = Attempt(self, session, demand, victim_list).settle(units)
            if found is not None:
                return found
            if not self.step():
                break
        return None

    def begin(self, victim_list: VictimList) -> None:
        """Drop units that have gone from the list, and count steps anew."""
        victim_list.forget_gone()
        self._steps = 0

    def lacks_one(self, demand: Demand) -> bool:
        """Tell whether a claim of equal pods lacks room for just one of them."""
        shape, count = demand.shapes[0]
        return len(demand.shapes) == 1 and count - self.future(shape).total == 1

    def step(self) -> bool:
        """Count a step; False when the bound is reached."""
        self._steps += 1
        return self._steps <= STEPS
