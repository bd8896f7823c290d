"""The victim search: finds the fewest victims, in victim order, that make room for a claim.

An attempt finds units in order. If fewer pods suffice, or as many pods with fewer GPUs, those go
instead. Every search is bounded: it ends when it has placed the claim too often. The bound counts
steps, never seconds.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from itertools import islice
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from kaisched.actions.eviction.attempt import Attempt, OrderedAttempt
from kaisched.actions.eviction.demand import Demand, Plan
from kaisched.actions.room.clearing import Item, choices_by_card, completed, fewest_items
from kaisched.actions.room.future import Future
from kaisched.core.axis import GPU, GPU_UNIT
from kaisched.core.devices import gpus_of
from kaisched.core.refusals import text_of
from kaisched.units import UNLIMITED

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from collections.abc import Set as AbstractSet

    from kaisched.actions.eviction.victims import VictimList
    from kaisched.core.axis import Amounts, BoolVec, CodeVec, IntVec, RowVec
    from kaisched.framework.session.session import Session
    from kaisched.framework.session.units import Claim, Unit

    Judge = Callable[[RowVec, RowVec], CodeVec]


# Searches cheaper plans: sets of units that disturb less than those found in order.
#
# The cost of a plan is the number of pods that are evicted or moved, then the GPUs that they hold.
# Between equal costs, the plan found in order is kept. Of few units every set is tried; of many,
# the sets of units on each node.

Cost = tuple[int, int]
"""Pods, and the GPUs that they hold."""
EVERY_SET: Final = 10
"""Every set of up to so many units is tried: 1,024 sets."""
_FEWEST_NODES: Final = 16
"""Of more units, those on at most so many nodes are tried: the nodes with the least bound."""
_JUDGED: Final = 128
"""At most so many sets are judged in one question ..."""
_QUESTIONS: Final = 4
"""... and at most so many questions are asked."""
_MISSING: Final = 8
"""With more units, the plan found in order is kept for a gang of more pods than this."""


def cost_of(session: Session, units: Sequence[Unit]) -> Cost:
    """Return the cost of evicting or moving units."""
    shapes, shape = session.shapes, session.tasks.shape_of_task
    if len(units) == 1 and len(units[0].tasks) == 1 and shapes.by_card is None:
        return 1, int(shapes.charge[GPU, shape[units[0].tasks[0]]])
    tasks = [task for unit in units for task in unit.tasks]
    return len(tasks), gpus_of(session, tasks)


def is_too_large(victim_list: VictimList, demand: Demand) -> bool:
    """Tell whether a claim is so large that its plan is kept as found in order."""
    return len(victim_list.places) > EVERY_SET and len(demand.tasks) > _MISSING


def is_least(session: Session, victim_list: VictimList, cost: Cost) -> bool:
    """Tell by quick bounds whether no plan could cost less than this one.

    The plan's statement is open: its units have gone, and the claim has its place.
    """
    pods, gpus = cost
    if pods <= 1 and gpus <= victim_list.least_gpus:
        return True
    # GPUs that the units freed, less what is free now: the claim took at least so many of them.
    missing = gpus - session.capacity.total_of(GPU)
    if (part := session.axis.gpu_part) is not None:
        missing -= int(part @ session.capacity.total())
    least = max(1, -(-missing // max(1, victim_list.most_gpus)))
    return cost <= (least, max(missing, victim_list.least_gpus))


class Fewest:
    """Finds the sets of units that make room for a claim, of equal or different pods."""

    def __init__(
        self, session: Session, victim_list: VictimList, needs: Sequence[tuple[Future, int]]
    ) -> None:
        """Start from the cluster as it is, with nothing evicted for the claim."""
        self._session = session
        self._victim_list = victim_list
        self._needs = needs
        self._left = session.capacity.without()

    def below(
        self, cost: Cost, judge: Callable[[RowVec, RowVec], CodeVec]
    ) -> Iterator[tuple[int, ...]]:
        """Yield sets of places that cost less and that plugins allow, the cheapest first."""
        found = [each for places in self._groups(cost) for each in self._sets(places, cost)]
        found.sort()
        for start in range(0, min(len(found), _JUDGED * _QUESTIONS), _JUDGED):
            sets = [places for _, _, places in found[start : start + _JUDGED]]
            flat = np.array([place for places in sets for place in places], np.int64)
            of_set = np.arange(len(sets)).repeat([len(places) for places in sets])
            refused = set(of_set[judge(flat, of_set) != 0].tolist())
            for at, places in enumerate(sets):
                if at not in refused:
                    yield places

    # -- which units are looked at together --------------------------------------------------------

    def _groups(self, cost: Cost) -> list[RowVec]:
        """Return groups of units, by their places; every subset of a group is tried."""
        places = self._victim_list.places
        if len(places) <= EVERY_SET:
            return [places]
        shape, wanted = self._needs[0][0], [at for at, _ in self._needs[0][0].asked]
        node, place, held = self._victim_list.pods.by_node(wanted)
        use = self._victim_list.pods.is_among(places)[place]
        if shape.allowed is not None:
            use &= shape.allowed[node]
        node, place, held = node[use], place[use], held[:, use]
        if not node.size:
            return []
        starts = np.flatnonzero(np.diff(node, prepend=-1))
        rows = node[starts]
        lack = self._left.lack(shape.asked, np.maximum(shape.room[rows], 0) + 1, rows)
        bound = self._bounds(wanted, place, held, starts, lack)
        order = np.lexsort((place[starts], bound[1], bound[0]))
        able = (bound[0] < cost[0]) | ((bound[0] == cost[0]) & (bound[1] < cost[1]))
        order = order[able[order]][:_FEWEST_NODES]
        ends = np.append(starts[1:], len(node))
        groups = [place[starts[at] : ends[at]] for at in order.tolist()]
        groups = [self._few(group) for group in groups]
        missing = sum(count - future.total for future, count in self._needs)
        if missing == 1 and len(self._needs) == 1:
            return groups
        return self._joined(groups)

    def _joined(self, groups: list[RowVec]) -> list[RowVec]:
        """Return the units of the first nodes as one group, up to the largest size."""
        joined: dict[int, None] = {}
        for group in groups:
            if len(joined.keys() | set(group.tolist())) > EVERY_SET:
                break
            joined |= dict.fromkeys(group.tolist())
        return [np.array(sorted(joined), np.int64)] if joined else []

    def _few(self, places: RowVec) -> RowVec:
        """Return the units of a node; of many, those that hold the most GPUs."""
        if len(places) <= EVERY_SET:
            return places
        amounts = self._victim_list.victims.amounts.take(places, axis=1)
        first: RowVec = np.lexsort((places, -amounts[GPU]))[:EVERY_SET]
        return np.sort(places[first])

    def _bounds(
        self, wanted: list[int], place: RowVec, held: Amounts, starts: RowVec, lack: Amounts
    ) -> tuple[IntVec, IntVec]:
        """Return the fewest pods ``(K,)`` and GPUs that one more pod on each node could cost."""
        pods = self._victim_list.sizes.take(place)
        most = np.maximum.reduceat(held // pods, starts, axis=1)
        least = np.maximum(-(-lack // np.maximum(most, 1)), 0).max(axis=0)
        gpus = lack[wanted.index(GPU)] if GPU in wanted else np.zeros_like(lack[0])
        return np.maximum(least, 1), np.maximum(gpus, 0)

    # -- all sets of few units ---------------------------------------------------------------------

    def _sets(self, places: RowVec, cost: Cost) -> list[tuple[Cost, list[int], tuple[int, ...]]]:
        """Return sets that make room and cost less: cost, places in reverse, places."""
        victims = self._victim_list.victims
        bits = _subsets(len(places))
        pods, gpus = bits @ self._victim_list.sizes[places], bits @ victims.amounts[GPU, places]
        use = (pods < cost[0]) | ((pods == cost[0]) & (gpus < cost[1]))
        use &= self._is_whole(places, bits)
        use[use] = self._makes_room(places, bits[use])
        found = []
        for row in use.nonzero()[0].tolist():
            chosen = places[bits[row]].tolist()
            found.append(((int(pods[row]), int(gpus[row])), chosen[::-1], tuple(chosen)))
        return found

    def _is_whole(self, places: RowVec, bits: BoolVec) -> BoolVec:
        """Tell which sets have, with each unit, all that goes along with it."""
        victim_list, whole = self._victim_list, np.ones(len(bits), np.bool_)
        if not victim_list.victims.split_off:
            return whole
        column = {place: at for at, place in enumerate(places.tolist())}
        for place, at in column.items():
            for other in victim_list.along(place):
                whole &= ~bits[:, at] | (bits[:, column[other]] if other in column else False)
        return whole

    def _makes_room(self, places: RowVec, bits: BoolVec) -> BoolVec:
        """Tell which sets, once gone, leave room for all pods; each shape is counted alone."""
        enough = np.ones(len(bits), np.bool_)
        for future, count in self._needs:
            node, place, held = self._victim_list.pods.by_node([at for at, _ in future.asked])
            use = np.isin(place, places)
            if future.allowed is not None:
                use &= future.allowed[node]
            node, place, held = node[use], place[use], held[:, use]
            rows, at_row = np.unique(node, return_inverse=True)
            room = np.full((len(bits), len(rows)), np.iinfo(np.int64).max)
            column = np.searchsorted(places, place)
            for (resource, amount), freed in zip(future.asked, held, strict=True):
                on_node = np.zeros((len(places), len(rows)), np.int64)
                np.add.at(on_node, (column, at_row), freed)
                np.minimum(
                    room, (bits @ on_node + self._left.free[resource, rows]) // amount, out=room
                )
            gained = np.maximum(room, 0).sum(axis=1) - future.room[rows].sum()
            enough &= future.total + gained >= count
        return enough


@lru_cache(maxsize=EVERY_SET + 1)
def _subsets(count: int) -> BoolVec:
    """Return every set of ``count`` items except the empty set, one row for each."""
    rows = np.arange(1, 1 << count)[:, None]
    bits: BoolVec = (rows >> np.arange(count)) & 1 == 1
    bits.setflags(write=False)
    return bits


# Sets of units whose leaving makes room on GPUs that pods share, looked for card by card.
#
# Parts of two cards are no whole one. Units in their order, or the largest of a node, may free
# enough by amounts and yet empty no card. So the cards of a node say which of its units would have
# to go.

_CARD_NODES: Final = 32
"""At most so many nodes are looked at for one pod: those on which the fewest pods would go."""


class _Set(NamedTuple):
    """Units that make room for one more pod on a node; the least goes first."""

    cost: Cost
    reverse: tuple[int, ...]
    """Their places, the last first: of equal sets the one that ends first in the list goes."""
    node: int

    @property
    def places(self) -> tuple[int, ...]:
        return self.reverse[::-1]


def counts_by_card(
    session: Session, victim_list: VictimList, needs: Sequence[tuple[Future, int]]
) -> bool:
    """Tell whether cards say which units make room: those of all pods that lack some, on a node."""
    cards = session.capacity.cards
    if cards is None or not all(
        cards.counts_for(future.shape) or future.total >= count for future, count in needs
    ):
        return False
    nodes, _, _ = victim_list.pods.by_node([])
    return cards.are_shared(nodes)


class CardSets:
    """Finds sets of units that make room for the pods of a claim."""

    def __init__(
        self,
        session: Session,
        victim_list: VictimList,
        needs: Sequence[tuple[Future, int]],
        judge: Judge,
    ) -> None:
        """Start from the cluster as it is, with nothing evicted for the claim."""
        self._session = session
        self._victim_list = victim_list
        self._needs = needs
        self._judge = judge
        rows = np.arange(len(session.axis.names))
        node, place, held = victim_list.pods.by_node(rows.tolist())
        use = victim_list.pods.is_among(victim_list.places)[place] & held.any(axis=0)
        self._node, self._place, self._held = node[use], place[use], held[:, use]
        self._items: dict[int, list[Item]] = {}

    def cheapest_first(self) -> Iterator[tuple[int, ...]]:
        """Yield sets of places that plugins allow, the cheapest first.

        For several pods there is one: what costs least for one pod after the other.
        """
        lacking = [(future, count - future.total) for future, count in self._needs]
        lacking = [(future, lack) for future, lack in lacking if lack > 0]
        if sum(lack for _, lack in lacking) != 1:
            found = self._for_several(lacking)
            if found:
                yield found
            return
        future = lacking[0][0]
        sets = [
            each for node in self._nodes(future, _CARD_NODES) for each in self._on(future, node)
        ]
        yield from (each.places for each in self._allowed(sorted(sets), frozenset()))

    def _for_several(self, lacking: list[tuple[Future, int]]) -> tuple[int, ...]:
        """Return a set for several pods; an empty one if there is none.

        What makes room for pods of one shape is not counted for those of the next: they get units
        on other cards. The largest pods come first.
        """
        chosen: set[int] = set()
        for future, lack in sorted(lacking, key=lambda it: -dict(it[0].asked).get(GPU, 0)):
            before = frozenset(chosen)
            more = dict.fromkeys(self._nodes(future, max(_CARD_NODES, lack)), 1)
            sets = {node: self._on(future, node, 1, before) for node in more}
            for _ in range(lack):
                every = sorted(each for some in sets.values() for each in some)
                best = next(self._allowed(every, chosen), None)
                if best is None:
                    return ()
                chosen.update(best.reverse)
                more[best.node] += 1
                for node, some in sets.items():
                    if node == best.node or any(chosen.intersection(it.reverse) for it in some):
                        sets[node] = self._on(future, node, more[node], before, chosen - before)
        return tuple(sorted(chosen))

    def _nodes(self, future: Future, most: int) -> list[int]:
        """Return the nodes to look at: those where the fewest pods would go, in victim order."""
        use = np.ones(len(self._node), np.bool_)
        if future.allowed is not None:
            use = future.allowed[self._node]
        node, place, held = self._node[use], self._place[use], self._held[GPU, use]
        starts = np.flatnonzero(np.diff(node, prepend=-1))
        if not starts.size:
            return []
        rows = node[starts]
        cards = self._session.capacity.cards
        assert cards is not None
        fewest = cards.fewest_sharers(rows)
        if cards.demand_of(future.shape) is not None:
            fewest = np.minimum(fewest, 1)
        has_whole = np.maximum.reduceat(held, starts) >= GPU_UNIT
        fewest = np.where(has_whole, 1, fewest)
        first = np.minimum.reduceat(place, starts)
        found: list[int] = rows[np.lexsort((first, fewest))[:most]].tolist()
        return found

    def _on(
        self,
        future: Future,
        node: int,
        more: int = 1,
        barred: AbstractSet[int] = frozenset(),
        gone: AbstractSet[int] = frozenset(),
    ) -> list[_Set]:
        """Return sets of units that make room for so many more pods on a node.

        The units ``gone`` have left, and those that are ``barred`` make room for others.
        """
        session, room = self._session, max(int(future.room[node]), 0) + more - 1
        taken = barred | gone
        items = [item for item in self._items_on(node) if item.place not in taken]
        tasks = [task for at in gone for task in self._victim_list.unit(at).tasks]
        statement = session.statement()
        statement.evict_all(np.array(tasks, np.int64))
        missing = session.capacity.on(node).lack(future.asked, room + 1)
        choices = choices_by_card(session, node, future.shape, room, items)
        statement.rollback()
        if choices is None:
            few = fewest_items(items, missing)
            alone = [(item,) for item in items if fewest_items([item], missing)]
            choices = (*alone, *(() if few is None else (tuple(few),)))
        found = [completed(choice, items, missing) for choice in choices]
        return [self._set(node, it, taken) for it in found if it]

    def _set(self, node: int, items: Iterable[Item], taken: AbstractSet[int]) -> _Set:
        """Return items as a set, with all units that go along with them."""
        victim_list, victims = self._victim_list, self._victim_list.victims
        places = {item.place for item in items}
        if victims.split_off:
            places.update(*(set(victim_list.along(at)) - taken for at in tuple(places)))
        order = sorted(places)
        pods, gpus = victim_list.sizes[order].sum(), victims.amounts[GPU, order].sum()
        return _Set((int(pods), int(gpus)), tuple(order[::-1]), node)

    def _items_on(self, node: int) -> list[Item]:
        """Return the units of a node, in the order in which they would go."""
        items = self._items.get(node)
        if items is None:
            start, end = self._node.searchsorted((node, node + 1)).tolist()
            moved: Amounts = self._victim_list.victims.amounts
            items = self._items[node] = [
                Item(at, self._victim_list.unit(at), held, moved[:, at].tolist())
                for at, held in zip(
                    self._place[start:end].tolist(),
                    self._held[:, start:end].T.tolist(),
                    strict=True,
                )
            ]
        return items

    def _allowed(self, sets: Sequence[_Set], kept: AbstractSet[int]) -> Iterator[_Set]:
        """Yield the sets that plugins allow along with what has been chosen."""
        for start in range(0, len(sets), _JUDGED):
            some = sets[start : start + _JUDGED]
            places = [sorted({*kept, *each.reverse}) for each in some]
            flat = np.array([at for each in places for at in each], np.int64)
            of_set = np.arange(len(some)).repeat([len(each) for each in places])
            refused = set(of_set[self._judge(flat, of_set) != 0].tolist())
            yield from (each for at, each in enumerate(some) if at not in refused)


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
