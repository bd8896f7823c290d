"""Makes room out of fragments: evicts some of a node's pods and moves the others.

If every node has pods that may not be evicted, no victims make room for a pod that needs a whole
node. Then such pods are moved, pods of the claim's own queue too. Each gets a new place in the same
plan, and no pod is moved for a claim of lower priority.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from kaisched.actions.eviction.device_counts import gets_too_much
from kaisched.actions.eviction.plan import Demand, Plan
from kaisched.actions.order.gates import first_shut
from kaisched.actions.room.by_card import least_ask
from kaisched.actions.room.card_clearing import choices_by_card
from kaisched.actions.room.clearing import Movable, completed
from kaisched.actions.room.items import fewest_items
from kaisched.actions.room.placing import place_waiting
from kaisched.framework.session.limits import has_budgets, may_disrupt

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from kaisched.actions.eviction.relocation import Relocation
    from kaisched.actions.eviction.search import Search
    from kaisched.actions.eviction.victim_list import VictimList
    from kaisched.actions.room.items import Item
    from kaisched.core.axis import Amounts, BoolVec, RowVec
    from kaisched.framework.session.capacity import Without
    from kaisched.framework.session.session import Session
    from kaisched.framework.session.statement import Statement
    from kaisched.framework.session.units import Unit

TRIES: Final = 8
"""How many nodes one claim may try."""
_LOOKED_AT: Final = 128
"""So many units, the first to go, are judged to find the queues that may lose units."""
_EXTRA: Final = 16
"""At most so many units go to make new places for moved pods."""


class _Node(NamedTuple):
    """The units that would leave a node."""

    gone: list[int]
    """Evicted units, by their places."""
    moved: list[Unit]
    extra: list[int]
    """Units on other nodes that may be evicted for the moved ones, by their places."""


class MakingWay:
    """Searches plans for one action that also move pods which may not be evicted."""

    def __init__(self, session: Session, search: Search, relocation: Relocation) -> None:
        """Share the room that the search has computed."""
        self._session = session
        self._search = search
        self._relocation = relocation

    def find(self, demand: Demand, victim_list: VictimList, running: RowVec) -> Plan | None:
        """Return a plan with an open statement, for a claim that lacks room for one pod."""
        self._search.begin(victim_list)
        if not victim_list.places.size:
            return None
        most, shape = self._session.policy.max_consolidation_preemptees, demand.shapes[0][0]
        able = _givers(victim_list, demand)
        if not able.size:
            return None
        movable = self._movable_for(demand.claim.job, running)
        for node in self._nodes(shape, victim_list, able, movable):
            for found in self._on(node, demand, victim_list, able, movable):
                if most > 0 and len({unit.job for unit in found.moved}) > most:
                    continue
                plan = self._plan(demand, victim_list, found)
                if plan is not None:
                    return plan
        return None

    def _movable_for(self, job: int, running: RowVec) -> Movable:
        """Return the pods that may be moved for a job: of other jobs of at most its priority."""
        session = self._session
        jobs = session.jobs
        use = (jobs.priority[running] <= jobs.priority[job]) & (running != job)
        # A job that gained pods in this cycle, perhaps by evictions, is not moved in it.
        use &= session.ledger.job_active[running] <= jobs.active[running]
        return Movable(session, running[use], respects_budgets=has_budgets(session))

    def _lack(self, shape: int, left: Without) -> Amounts:
        """``(R', N)`` what nodes lack for one more pod of a shape, given the room ``left``."""
        future = self._search.future(shape)
        return left.lack(future.asked, future.room + 1)

    def _nodes(
        self, shape: int, victim_list: VictimList, able: RowVec, movable: Movable
    ) -> list[int]:
        """Return the nodes to try: those from which the least has to be moved."""
        future = self._search.future(shape)
        left = self._session.capacity.without(victim_list.pods.holding(able))
        lack = np.maximum(self._lack(shape, left), 0)
        left.give_back(movable.holding())
        reached: BoolVec = np.logical_and.reduce(self._lack(shape, left) <= 0, axis=0)
        if future.allowed is not None:
            reached &= future.allowed
        nodes = reached.nonzero()[0]
        order = np.lexsort((nodes, lack[:, nodes].max(axis=0)))[:TRIES]
        rows: list[int] = nodes[order].tolist()
        return rows

    def _on(
        self, node: int, demand: Demand, victim_list: VictimList, able: RowVec, movable: Movable
    ) -> Iterator[_Node]:
        """Yield choices of the units that would leave a node, if they are enough."""
        session, shape = self._session, demand.shapes[0][0]
        future = self._search.future(shape)
        entry, place, _ = victim_list.pods.by_node([at for at, _ in future.asked])
        here = np.intersect1d(place[entry == node], able)
        places = np.concatenate((here, np.setdiff1d(able, here)[:_LOOKED_AT]))
        may_go = victim_list.judged(demand.claim, places) == 0
        gone = here[may_go[: len(here)]].tolist()
        extra = places[len(here) :][may_go[len(here) :]][:_EXTRA].tolist()
        left = session.capacity.without(victim_list.pods.holding(np.array(gone, np.int64)))
        lack = self._lack(shape, left)[:, node].tolist()
        missing = [(at, amount) for (at, _), amount in zip(future.asked, lack, strict=True)]
        tasks = {task for at in gone for task in victim_list.unit(at).tasks}
        items = movable.on(node) if node in set(movable.nodes.tolist()) else []
        items = [item for item in items if tasks.isdisjoint(item.unit.tasks)]
        for moved in self._moved(node, shape, items, missing, tasks):
            yield _Node(gone, moved, extra)

    def _moved(
        self,
        node: int,
        shape: int,
        items: list[Item],
        missing: list[tuple[int, int]],
        gone: set[int],
    ) -> list[list[Unit]]:
        """Return choices of units to move off a node once some pods have gone, the fewest first.

        Only where pods share GPUs is there more than one: there cards say who is in the way.
        """
        session, choices = self._session, None
        if session.capacity.cards is not None:
            room = int(self._search.future(shape).room[node])
            statement = session.statement()
            statement.evict_all(np.array(sorted(gone), np.int64))
            choices = choices_by_card(session, node, shape, room, items)
            statement.rollback()
        if choices is None:
            moved = fewest_items(items, missing)
            return [] if moved is None else [_by_importance(moved)]
        found = [completed(choice, items, missing) for choice in choices]
        fewest = sorted((_by_importance(it) for it in found if it is not None), key=_pods)
        return [list(units) for units in dict.fromkeys(map(tuple, fewest))]

    def _plan(self, demand: Demand, victim_list: VictimList, node: _Node) -> Plan | None:
        """Find out which units have to go, and evict only these; None where plugins refuse."""
        session = self._session
        units = [victim_list.unit(place) for place in node.gone]
        extra = [victim_list.unit(place) for place in node.extra]
        tried = self._carried_out(demand, units, node.moved, extra)
        if tried is None:
            return None
        tried.statement.rollback()
        if not tried.units:
            return None  # no eviction is needed: that is consolidate's task
        tasks = [task for unit in (*tried.units, *node.moved) for task in unit.tasks]
        if not may_disrupt(session, tasks) or not _may_go(victim_list, demand, tried.units):
            return None
        return self._carried_out(demand, tried.units, node.moved, [])

    def _carried_out(
        self, demand: Demand, units: list[Unit], moved: list[Unit], extra: list[Unit]
    ) -> Plan | None:
        """Evict, place and move in a statement; None, rolled back, when that fails."""
        session, claim = self._session, demand.claim
        statement = session.statement()
        gone = units.copy()
        _evict(statement, [*units, *moved])
        ask = least_ask(session, demand.tasks, claim.ask)
        is_open = not first_shut(session, claim.action, claim.job, ask)
        mark = statement.checkpoint()
        is_placed = is_open and place_waiting(session, statement, demand.tasks)
        if not is_placed or gets_too_much(session, claim, demand.tasks):
            statement.rollback()
            return None
        statement.pipeline_all(mark)
        left = iter(extra)
        for unit in moved:
            while not self._relocation.move(statement, unit, ()):
                more = next(left, None)
                if more is None or not self._search.step():
                    statement.rollback()
                    return None
                _evict(statement, [more])
                gone.append(more)
        kept = self._relocation.left_over(statement, gone)
        return Plan(statement, kept, moved=sum(len(p.tasks) for p in moved))


def _givers(victim_list: VictimList, demand: Demand) -> RowVec:
    """Return the units, by their places, of queues that may lose one of the first units."""
    first = victim_list.places[:_LOOKED_AT]
    may_go = victim_list.judged(demand.claim, first) == 0
    queue = victim_list.victims.queue
    able: RowVec = victim_list.places[np.isin(queue[victim_list.places], queue[first[may_go]])]
    return able


def _by_importance(items: Iterable[Item]) -> list[Unit]:
    return [item.unit for item in sorted(items, key=lambda item: -item.place)]


def _pods(units: list[Unit]) -> int:
    return sum(len(unit.tasks) for unit in units)


def _may_go(victim_list: VictimList, demand: Demand, units: list[Unit]) -> bool:
    """Tell whether plugins let units go together, with all that goes along with them."""
    wanted = set(units)
    job, jobs = victim_list.victims.job, {unit.job for unit in units}
    places = [place for place in victim_list.places.tolist() if int(job[place]) in jobs]
    chosen = [place for place in places if victim_list.unit(place) in wanted]
    if not set(chosen).issuperset(it for place in chosen for it in victim_list.along(place)):
        return False
    return not victim_list.judged(demand.claim, np.array(chosen, np.int64)).any()


def _evict(statement: Statement, units: list[Unit]) -> None:
    statement.evict_all(np.array([task for unit in units for task in unit.tasks], np.int64))
