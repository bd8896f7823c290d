"""One pass over a list of victims: units are taken in order until the claim fits.

Counts are updated with every unit, so that one pass finds the shortest sufficient prefix. Units
that the counts show to be unneeded are dropped again, the most important first. Then the claim is
placed through a statement, and units whose room it leaves unused stay too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

import numpy as np

from kaisched.actions.eviction.by_node import may_suffice, openings
from kaisched.actions.eviction.device_counts import gets_too_much
from kaisched.actions.eviction.need import Need, take_all
from kaisched.actions.eviction.plan import Demand, Plan, without
from kaisched.actions.eviction.protected import PROTECTED
from kaisched.actions.eviction.refused_units import RefusedUnits
from kaisched.actions.order.gates import first_shut
from kaisched.actions.room.by_card import is_tight, least_ask
from kaisched.actions.room.parts import has_parts
from kaisched.actions.room.placing import place_waiting
from kaisched.core.devices import charges
from kaisched.core.refusals import Refusal
from kaisched.framework.session.units import Going

if TYPE_CHECKING:
    from kaisched.actions.eviction.victim_list import VictimList
    from kaisched.actions.room.future import Future
    from kaisched.core.axis import CodeVec, RowVec
    from kaisched.framework.session.claims import Unit
    from kaisched.framework.session.session import Session
    from kaisched.framework.session.statement import Statement

    UnitList = list[Unit]
_FIRST: Final = 8
"""The number of units taken before a check whether all victims together could be enough."""
_GROWTH: Final = 16
"""The factor by which the number of units then grows."""
_FEW: Final = 4
OVER_SHARE: Final = int(Refusal.DEVICES_OVER_SHARE)


class Searching(Protocol):
    """The part of a search that its attempts use."""

    def future(self, shape: int) -> Future:
        """Return the room of a shape once all releasing pods are gone, as of now."""
        ...

    def step(self) -> bool:
        """Count a step; False when the bound is reached."""
        ...


class Attempt:
    """Searches a plan for a claim in one pass over a list of victims."""

    def __init__(
        self, search: Searching, session: Session, demand: Demand, victim_list: VictimList
    ) -> None:
        self._search = search
        self._session = session
        self.demand = demand
        self.victim_list = victim_list
        futures = [(search.future(shape), count) for shape, count in demand.shapes]
        self._needs = [Need(session, future, count) for future, count in futures]
        self._is_plain = all(future.is_plain for future, _ in futures)
        is_one = len(futures) == 1 and not has_parts(session, demand.claim.job)
        self._is_exact = self._is_plain and is_one
        self._is_single = self._is_exact and futures[0][1] == 1
        """True for one pod that only amounts decide on: its node's units alone make room for it."""
        self._refused = RefusedUnits()
        self._chosen: UnitList = []
        """Units taken so far."""
        self._placed: UnitList = []
        """Units that were evicted when the claim was placed last."""
        self._shut: set[int] = set()
        """Jobs with a refused unit."""
        self._delay = 0
        """Units to be taken before the claim is placed again."""
        self._grow = 1
        self._nodes: list[int] = []
        """Nodes on which a pod fits once the needed units have gone."""
        self._is_tight = False
        """True when no room would be left over."""
        self._is_limited = False
        """True once a queue on the claim's path refused the claim although victims were gone."""

    def run(self) -> Plan | int:
        """Take units until the claim fits; return the plan or why there is none."""
        allowed: list[int] = []
        begin, end = 0, self.victim_list.begins_with
        while True:
            allowed += self._allowed(begin, end)
            # Many units are taken one by one only if all of them together are enough.
            if begin < _FIRST or self._suffice(allowed):
                for place in allowed[len(self._chosen) :]:
                    found = self._take(place)
                    if found is not None:
                        self.victim_list.begins_with = min(len(self._chosen), 2)
                        return found
            if end == _FIRST and not self._is_met() and not self._could_suffice():
                return self._no_victims()
            if end >= _FIRST and (self._is_single or end >= len(self.victim_list.places)):
                break
            begin, end = end, end * _GROWTH if end >= _FIRST else _FIRST
        if self._delay > 0 and self._is_met():
            plan = self._settle(self._chosen)
            if plan is not None:
                return plan
        return self._node_by_node(allowed) or self._why_not()

    def _node_by_node(self, allowed: list[int]) -> Plan | None:
        """Search node by node, where the list as a whole is not enough.

        In list order, earlier units may have used up a disruption budget that later units need.
        """
        session, victim_list = self._session, self.victim_list
        is_open = self._is_single or PROTECTED in self._refused
        if self._is_met() or not (
            is_open or may_suffice(session, victim_list, self.demand.claim.ask, allowed)
        ):
            return None
        take_all(self._needs, self._chosen, -1)
        kept: list[int] = []
        while not self._is_met():
            need = next(each for each in self._needs if not each.is_met)
            found = openings(session, victim_list, need.future, kept, self.judge_sets)
            if not found or not self._search.step():
                return None
            best = found[0]
            if need.count - need.total > 1:  # fewer units are needed where one set lets more fit
                best = max(found, key=lambda places: need.gain(map(victim_list.unit, places)))
            take_all(self._needs, [self.victim_list.unit(place) for place in best], 1)
            kept = sorted((*kept, *best))
        return self._settle([self.victim_list.unit(place) for place in kept])

    def _take(self, place: int) -> Plan | int | None:
        """Take one more unit; return a plan, the refusal that ends the search, or None to go on."""
        unit = self.victim_list.unit(place)
        self._chosen.append(unit)
        for need in self._needs:
            need.take(unit.tasks)
        self._delay -= 1
        if self._delay > 0 or not self._is_met():
            return None
        plan = self._settle(self._chosen)
        if plan is not None:
            return plan
        if not self._search.step():
            return int(Refusal.SEARCH_BUDGET)
        self._grow *= 2
        self._delay = self._grow  # placing failed although amounts suffice: more must go
        return None

    def _is_met(self) -> bool:
        return all(need.is_met for need in self._needs)

    @property
    def has_room_in_vain(self) -> bool:
        """Whether the units taken free enough by amounts, but the claim could not be placed."""
        return not self._is_exact and bool(self._chosen) and self._is_met()

    def _could_suffice(self) -> bool:
        """Tell whether the claim would fit without all victims, allowed by plugins or not."""
        return all(
            self.victim_list.most(shape, self._search.future(shape).allowed) >= count
            for shape, count in self.demand.shapes
        )

    def _suffice(self, places: list[int]) -> bool:
        """Tell whether the claim would fit if some units were gone."""
        some = np.array(places, np.int64)
        return all(
            self.victim_list.room_without(some, shape, self._search.future(shape).allowed) >= count
            for shape, count in self.demand.shapes
        )

    def _why_not(self) -> int:
        return self._refused.most_said() or self._no_victims()

    def _no_victims(self) -> int:
        """Return NO_VICTIMS, or the refusal of budgets if they protect sufficient units."""
        victim_list = self.victim_list
        if victim_list.protected.size and self._suffice(
            [*victim_list.places, *victim_list.protected]
        ):
            return PROTECTED
        return int(Refusal.NO_VICTIMS)

    def _allowed(self, begin: int, end: int) -> list[int]:
        """Return the units from ``begin`` to ``end`` that plugins allow to evict, in order."""
        victim_list = self.victim_list
        places = victim_list.places[:end]
        if len(places) <= begin:
            return []
        codes = self._judge(places)[begin:]
        fresh = places[begin:]
        self._refused.note_all(codes)
        if victim_list.victims.split_off:
            return self._not_shut(fresh.tolist(), codes.tolist())
        allowed: list[int] = fresh[codes == 0].tolist()
        return allowed

    def _not_shut(self, places: list[int], codes: list[int]) -> list[int]:
        """Leave out refused units, and cores of jobs with a refused elastic pod before them."""
        job = self.victim_list.victims.job
        left = []
        for place, code in zip(places, codes, strict=True):
            if code:
                self._shut.add(int(job[place]))
            elif int(job[place]) not in self._shut:
                left.append(place)
        return left

    def _judge(self, places: RowVec) -> CodeVec:
        return self.victim_list.judged(self.demand.claim, places)

    def judge_sets(self, places: RowVec, sets: RowVec) -> CodeVec:
        """Return the codes of budgets and plugins for the units of several sets."""
        codes = self.victim_list.judged(self.demand.claim, places, sets)
        self._refused.note_all(codes)
        return codes

    # -- a sufficient set --------------------------------------------------------------------------

    def _settle(self, chosen: UnitList) -> Plan | None:
        """Place the claim through a statement, at the cost of as few chosen units as possible."""
        if self._is_exact:
            plan = self._place(self._without_unneeded(chosen))
            if plan is not None or not self._is_limited:
                return plan
        # Counting room is not enough here: a queue is at its limit, or more than amounts decides.
        # Only placing the claim shows which units are needed.
        units = list(chosen)  # the caller may go on choosing
        plan = self._place(units)
        return None if plan is None else self._fewer(plan, units)

    def _without_unneeded(self, chosen: UnitList) -> UnitList:
        """Drop units that the counts show to be unneeded, the most important first."""
        need = self._needs[0]
        going = Going()
        kept: UnitList = []
        dropped: UnitList = []
        for unit in reversed(chosen):
            if not going.takes(unit):
                need.give_back(unit.tasks)
                if need.is_met:
                    dropped.append(unit)
                    continue
                need.take(unit.tasks)
            going.add(unit)
            kept.append(unit)
        self._nodes = need.nodes_with_room()
        self._is_tight = need.total == need.count
        for unit in dropped:  # the caller may go on taking units
            need.take(unit.tasks)
        return kept[::-1]

    def _fewer(self, plan: Plan, units: UnitList) -> Plan:
        """Drop units, the most important first, while the claim fits and steps are left.

        At first many units are dropped together: of a long list few may be needed.
        """
        left = plan.units[::-1]
        size = max(1, len(left) // 2)
        while left and len(plan.units) > 1 and self._search.step():
            rest = without(plan.units, left[:size])
            if len(rest) == len(plan.units):
                left = left[size:]
                continue
            plan.statement.rollback()
            fewer = self._place(rest)
            if fewer is not None:
                plan, units, left = fewer, rest, left[size:]
                size = min(2 * size, max(1, len(left) // 2))
                continue
            # Not with the plan's own units: fewer evictions may give the claim other places.
            again = self._place(units)
            assert again is not None  # it was placed just now from the same state
            plan = again
            if size == 1:
                left = left[1:]
            size = max(1, size // 2)
        return plan

    def _place(self, units: UnitList) -> Plan | None:
        """Evict and place in a statement; None, with everything rolled back, when that fails."""
        session, demand = self._session, self.demand
        statement = session.statement()
        statement.evict_all(np.array([task for unit in units for task in unit.tasks], np.int64))
        if self._gates_open() and self._put(statement):
            self._placed = units
            return Plan(statement, self._without_unused(statement, units), demand.claim.pass_number)
        statement.rollback()
        return None

    def settle(self, units: UnitList) -> Plan | None:
        """Place the claim at the cost of some of these units; None when that fails."""
        take_all(self._needs, units, 1)
        return self._settle(units)

    def place_again(self) -> Plan | None:
        """Place the claim as it was placed last."""
        return self._place(self._placed)

    def _put(self, statement: Statement) -> bool:
        """Place the claim; False if it finds no room, or would get more than its queue may take."""
        if not self._finds_room(statement):
            return False
        is_over = gets_too_much(self._session, self.demand.claim, self.demand.tasks)
        if is_over and OVER_SHARE not in self._refused:  # once, however often it is placed
            self._refused.note(OVER_SHARE)
        return not is_over

    def _finds_room(self, statement: Statement) -> bool:
        session, demand = self._session, self.demand
        tasks = demand.tasks
        if len(demand.shapes) > 1 or not self._is_exact or is_tight(session, tasks):
            return self._wait(statement)
        shape = demand.shapes[0][0]
        if len(tasks) == 1 and not self._is_limited:
            nodes = self._nodes
            if len(nodes) > 1:
                rows = np.array(nodes)
                score = session.ask.node_score(session, shape, rows, np.zeros(len(rows), np.int64))
                nodes = [nodes[int(score.argmax())]]
            if not nodes:
                return self._wait(statement)
            statement.promise(tasks, np.array(nodes[:1]), shape)
            return True
        if len(tasks) <= _FEW:
            return self._wait(statement)
        chosen = session.placement.choose_future(shape, len(tasks))
        if chosen is None:
            return False
        statement.promise(tasks, chosen, shape)
        return True

    def _wait(self, statement: Statement) -> bool:
        """Place pod by pod; with victims every pod gets a promise, even where it would fit now.

        A queue at its limit has to lose the victims first.
        """
        mark = statement.checkpoint()
        if not place_waiting(self._session, statement, self.demand.tasks):
            return False
        if mark:
            statement.pipeline_all(mark)
        return True

    def _gates_open(self) -> bool:
        """Ask the gates of the queues on the claim's path, with the victims gone."""
        claim = self.demand.claim
        ask = least_ask(self._session, self.demand.tasks, claim.ask)
        code = first_shut(self._session, claim.action, claim.job, ask)
        if code:
            self._refused.note(code)
            self._is_limited = True
        return not code

    def _without_unused(self, statement: Statement, units: UnitList) -> UnitList:
        """Let units stay whose room the claim left unused, the most important first."""
        if self._is_tight or self._is_limited or not self._is_plain:
            return units  # a limit or a filter may need them gone though their room is unused
        session = self._session
        going = Going()
        kept: UnitList = []
        for unit in reversed(units):
            if not going.takes(unit):
                mark = statement.checkpoint()
                ask = charges(session, list(unit.tasks)).sum(axis=1)
                shut = first_shut(session, self.demand.claim.action, unit.job, ask)
                for task in () if shut else unit.tasks:
                    if not statement.may_spare(task):
                        break
                    statement.spare(task)
                else:
                    if not shut:
                        continue
                statement.rollback(mark)
            going.add(unit)
            kept.append(unit)
        return kept[::-1]
