"""One pass over a list of victims: units are taken in order until the claim fits.

Counts are updated with every unit, so that one pass finds the shortest sufficient prefix. Units
that the counts show to be unneeded are dropped again, the most important first. Then the claim is
placed through a statement, and units whose room it leaves unused stay too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from kaisched.actions.eviction.demand import Demand, Need, Plan, gets_too_much, take_all, without
from kaisched.actions.eviction.victims import PROTECTED, as_units
from kaisched.actions.order.gates import first_shut
from kaisched.actions.room.placing import has_parts, is_spread, is_tight, least_ask, place_waiting
from kaisched.core.devices import charges
from kaisched.core.refusals import Refusal, text_of
from kaisched.framework.session.units import Going

if TYPE_CHECKING:
    from collections.abc import Callable

    from kaisched.actions.eviction.search import Search
    from kaisched.actions.eviction.victims import VictimList
    from kaisched.actions.room.future import Future
    from kaisched.core.axis import Amounts, BoolVec, CodeVec, IntVec, RowVec
    from kaisched.framework.session.session import Session
    from kaisched.framework.session.statement import Statement
    from kaisched.framework.session.units import Unit

    UnitList = list[Unit]


# Counts why units may not be evicted for a claim, for the reason of a search without a plan.


class RefusedUnits:
    """How often each refusal stood in the way of one claim."""

    def __init__(self) -> None:
        """Start without any."""
        self._times: dict[int, int] = {}

    def __contains__(self, code: int) -> bool:
        """Tell whether a refusal was noted."""
        return code in self._times

    def note(self, code: int, times: int = 1) -> None:
        """Note a refusal."""
        self._times[code] = self._times.get(code, 0) + times

    def note_all(self, codes: CodeVec) -> None:
        """Note the refusals of units; 0 is none."""
        refused = codes[codes != 0]
        if refused.size:
            counts = np.bincount(refused)
            for code in counts.nonzero()[0].tolist():  # of thousands of codes one or two occur
                self.note(code, int(counts[code]))

    def most_said(self) -> int:
        """Return the most frequent one, those first that the next pass may lift; 0 for none."""
        return max(self._times, key=self._weight, default=0)

    def _weight(self, code: int) -> tuple[bool, int, str]:
        """Return the sort key of a refusal; names break ties, since codes differ by process."""
        text = text_of(code)
        return text.is_retried, self._times[code], text.name


# Searches node by node: which units on a node may go and make room there for one more pod.
#
# In the order of the whole list, a unit that makes no room for the claim can use up what its queue
# may lose. Then a useful unit behind it is refused. Here the units of every node are a set of
# their own, and one question judges all sets.

NODES: Final = 128
"""At most so many nodes have their units judged: those that would be cleared first."""
_DEEP: Final = 16
"""Fewer than so many units of a node are left out from the front."""


def may_suffice(session: Session, victim_list: VictimList, ask: IntVec, allowed: list[int]) -> bool:
    """Tell whether a different choice of units could free what a claim asks for.

    The bound: each queue can lose the amounts it lost in order, plus its largest unit. A node that
    holds more than it has takes nothing from what is free on others.
    """
    victims = victim_list.victims
    missing = ask - np.maximum(session.capacity.free(), 0).sum(axis=1)
    missing -= victims.amounts[:, allowed].sum(axis=1)
    for queue in victim_list.queues:
        missing -= victims.amounts[:, victims.queue == queue].max(axis=1)
    return not (missing > 0).any()


def openings(
    session: Session,
    victim_list: VictimList,
    future: Future,
    kept: list[int],
    judge: Callable[[RowVec, RowVec], CodeVec],
) -> list[list[int]]:
    """Return sets of units, by their places: each makes room for one more pod on a node.

    The set that ends first in the list comes first. Units ``kept`` count as gone; a set must be
    allowed along with them.
    """
    pods = victim_list.pods
    gone = np.array(kept, np.int64)
    left = session.capacity.without(*([pods.holding(gone)] if kept else []))
    full = left.room(future.shape, future.allowed) + 1
    lack = left.lack(future.asked, full)
    node, place, held = pods.by_node([resource for resource, _ in future.asked])
    use = pods.is_among(victim_list.places)[place]
    use[np.isin(place, gone)] = False
    if future.allowed is not None:
        use &= future.allowed[node]
    if not use.all():
        node, place, held = node[use], place[use], held[:, use]
    first = _first_enough(node, held, lack.take(node, axis=1))
    if not first.size:
        return []
    if len(first) > NODES:
        first = first[np.argsort(place[first], kind="stable")[:NODES]]
    is_tried = np.zeros(len(full), np.bool_)
    is_tried[node[first]] = True
    use = is_tried[node]
    node, place, held = node[use], place[use], held[:, use]
    allowed = _allowed(victim_list, node, place, gone, judge)
    found = _sets(node, place, allowed, _first_enough(node, held * allowed, lack[:, node]))
    if found or allowed.all():
        return found
    return _openings_behind(victim_list, node, place, held, lack, gone, judge)


def _openings_behind(
    victim_list: VictimList,
    node: RowVec,
    place: RowVec,
    held: Amounts,
    lack: Amounts,
    gone: RowVec,
    judge: Callable[[RowVec, RowVec], CodeVec],
) -> list[list[int]]:
    """Return sets of units from which the first units of their node are left out."""
    if not gone.size:
        # Leave out units that are refused even alone, and nodes that have no room without them.
        alone = judge(place, np.arange(len(place))) == 0
        able = _first_enough(node, held * alone, lack[:, node])
        if not able.size:
            return []
        use = np.isin(node, node[able])
        node, place, held = node[use], place[use], held[:, use]
    at, sets = _without_those_in_front(victim_list, node, place)
    if not at.size:
        return []
    node, place, held = node[at], place[at], held[:, at]
    allowed = _allowed(victim_list, sets, place, gone, judge)
    return _sets(sets, place, allowed, _first_enough(sets, held * allowed, lack[:, node]))


def _first_enough(sets: RowVec, held: Amounts, lack: Amounts) -> RowVec:
    """Return, for every set that frees enough, the first entry up to which ``lack`` is freed.

    ``lack`` ``(R', P)`` is the same for all entries of a set.
    """
    if not sets.size:
        return sets
    begins = np.ones(len(sets), np.bool_)
    np.not_equal(sets[1:], sets[:-1], out=begins[1:])
    starts = begins.nonzero()[0]
    freed = held.cumsum(axis=1)
    ahead = freed.take(starts, axis=1) - held.take(starts, axis=1)  # sums run on from set to set
    freed -= ahead.repeat(np.diff(starts, append=len(sets)), axis=1)
    enough: BoolVec = np.logical_and.reduce(freed >= lack, axis=0)
    found: RowVec = enough.nonzero()[0]
    if len(found) < 2:  # noqa: PLR2004 - nothing to choose from
        return found
    of_set = sets[found]
    begins = np.ones(len(found), np.bool_)
    np.not_equal(of_set[1:], of_set[:-1], out=begins[1:])
    return found[begins]


def _sets(sets: RowVec, place: RowVec, allowed: BoolVec, ends: RowVec) -> list[list[int]]:
    """Return the allowed units of each set up to its end, ordered by that end."""
    ends = ends[np.argsort(place[ends], kind="stable")]
    starts = np.searchsorted(sets, sets[ends]).tolist()
    return [
        (place[start : end + 1][allowed[start : end + 1]]).tolist()
        for start, end in zip(starts, ends.tolist(), strict=True)
    ]


def _without_those_in_front(
    victim_list: VictimList, node: RowVec, place: RowVec
) -> tuple[RowVec, RowVec]:
    """Return entries and sets: each node's units without the first, without the first two ...

    The first units may use up what the queue may lose, while a later unit alone would be enough. A
    set without some elastic pods of a job does not contain the job's core.
    """
    victims = victim_list.victims
    entries: list[int] = []
    sets: list[int] = []
    starts = np.flatnonzero(np.diff(node, prepend=-1))
    number = 0
    for start, end in zip(starts.tolist(), [*starts[1:].tolist(), len(node)], strict=True):
        for first in range(start + 1, min(end, start + _DEEP)):
            left = list(range(first, end))
            if victims.split_off:
                cut = set(victims.job[place[start:first]].tolist())
                left = [at for at in left if int(victims.job[place[at]]) not in cut]
            entries += left
            sets += [number] * len(left)
            number += 1
    return np.array(entries, np.int64), np.array(sets, np.int64)


def _allowed(
    victim_list: VictimList,
    node: RowVec,
    place: RowVec,
    gone: RowVec,
    judge: Callable[[RowVec, RowVec], CodeVec],
) -> BoolVec:
    """Tell which units may go with those before them in their set (``node``) and all gone."""
    if not gone.size:
        codes = judge(place, node)
        allowed: BoolVec = codes == 0
    else:
        nodes = np.unique(node)
        sets = np.concatenate((node, nodes.repeat(len(gone))))
        places = np.concatenate((place, np.tile(gone, len(nodes))))
        order = np.lexsort((places, sets))
        codes = np.empty(len(sets), np.int16)
        codes[order] = judge(places[order], sets[order])
        allowed = codes[: len(node)] == 0
        lost = np.isin(node, sets[len(node) :][codes[len(node) :] != 0])
        allowed &= ~lost  # the kept units could not go along with this set
    if victim_list.victims.split_off and not allowed.all():
        # No core goes without the elastic pods before it.
        along = victim_list.victims.along
        shut = set(zip(node[~allowed].tolist(), place[~allowed].tolist(), strict=True))
        takes = allowed & np.isin(place, list(along))
        for at in takes.nonzero()[0].tolist():
            if any((int(node[at]), other) in shut for other in along[int(place[at])]):
                allowed[at] = False
    return allowed


_FIRST: Final = 8
"""The number of units taken before a check whether all victims together could be enough."""
_GROWTH: Final = 16
"""The factor by which the number of units then grows."""
_FEW: Final = 4
OVER_SHARE: Final = int(Refusal.DEVICES_OVER_SHARE)


class Attempt:
    """Searches a plan for a claim in one pass over a list of victims."""

    def __init__(
        self, search: Search, session: Session, demand: Demand, victim_list: VictimList
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
        shape = demand.shapes[0][0]
        is_split = len(demand.shapes) > 1 or (len(tasks) > 1 and is_spread(session, shape))
        if is_split or not self._is_exact or is_tight(session, tasks):
            return self._wait(statement)
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


# One pass over victims in an order that the policy gives: the first that suffice.
#
# A claim that fits beside earlier claims of the cycle takes none. Else units are evicted in that
# order until it fits; then each unit that the claim does not need is put back, the last first. The
# policy's plan gate must accept the units that are left.


class OrderedAttempt(Attempt):
    """Searches a plan in one pass over units in the policy's order."""

    _has_steps = True

    def take_nobody(self) -> Plan | None:
        """Promise the claim what earlier claims of the cycle leave; None if it does not fit there.

        Without evictions in the cycle allocate has found already that there is no room, or has a
        reason not to take it.
        """
        if not (self._session.outcome.evictions and self._is_met() and self._gates_open()):
            return None
        statement = self._session.statement()
        if not self._wait(statement):
            statement.rollback()
            return None
        statement.pipeline_all()  # a limit of its queue may be met only once the victims are gone
        return Plan(statement, [], self.demand.claim.pass_number)

    def take_in_order(self, places: RowVec, left_out: int) -> Plan | int:
        """Take units in the order of ``places`` until the claim fits; return the plan or why not.

        ``left_out`` is the code that refuses the units which the order leaves out.
        """
        self._places, self._left_out = places, left_out
        statement = self._session.statement()
        chosen: UnitList = []
        for unit in self._offered():
            chosen.append(unit)
            for need in self._needs:
                need.take(unit.tasks)
            statement.evict_all(np.array(unit.tasks, np.int64))
            if self._fits(statement):
                break
            if not self._has_steps:
                statement.rollback()
                return int(Refusal.SEARCH_BUDGET)
        else:
            statement.rollback()
            return self._why_not()
        kept = self._put_back(statement, chosen)
        code = self._refusal(kept)
        if code:
            statement.rollback()
            return code
        self._nodes = self._needs[0].nodes_with_room()
        if not self._put(statement):  # it was placed just now, but with more room
            statement.rollback()
            return OVER_SHARE if OVER_SHARE in self._refused else int(Refusal.NO_VICTIMS)
        return Plan(statement, kept, self.demand.claim.pass_number)

    def _why_not(self) -> int:
        return self._left_out or super()._why_not()

    def _offered(self) -> UnitList:
        """Return the units that budgets and other plugins allow to evict, in order."""
        codes = self.victim_list.judged(self.demand.claim, self._places)
        self._refused.note_all(codes)
        places = self._not_shut(self._places.tolist(), codes.tolist())
        return [self.victim_list.unit(place) for place in places]

    def _fits(self, statement: Statement) -> bool:
        """Tell whether the claim fits now: by counts, queue gates, and if needed by placing it."""
        if not self._is_met() or not self._gates_open():
            return False
        if self._is_exact:
            return True
        self._has_steps = self._search.step()
        mark = statement.checkpoint()
        is_placed = self._has_steps and self._wait(statement)
        statement.rollback(mark)
        return is_placed

    def _put_back(self, statement: Statement, chosen: UnitList) -> UnitList:
        """Let units stay that the claim does not need, from the last but one to the first."""
        kept = list(chosen)
        going = Going(chosen[-1:])
        for unit in reversed(chosen[:-1]):
            if not going.takes(unit):
                rest = [other for other in kept if other is not unit]
                mark = statement.checkpoint()
                for task in unit.tasks:
                    statement.spare(task)
                for need in self._needs:
                    need.give_back(unit.tasks)
                if self._has_steps and self._fits(statement) and not self._refusal(rest):
                    kept = rest
                    continue
                statement.rollback(mark)
                for need in self._needs:
                    need.take(unit.tasks)
            going.add(unit)
        return kept

    def _refusal(self, units: UnitList) -> int:
        """Return the plan gate's refusal of evicting exactly these units, or 0."""
        session = self._session
        codes = session.ask.plan_gate(session, self.demand.claim, as_units(session, units))
        return 0 if codes is None or not codes.any() else int(codes[codes != 0][0])
