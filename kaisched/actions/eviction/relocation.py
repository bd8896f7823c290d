"""Moves pods for a claim: victims that fit elsewhere, and pods that may not be evicted.

Each pod that moves has its new place in the same plan as the claim.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from kaisched.actions.eviction.demand import Demand, Plan, gets_too_much
from kaisched.actions.order.gates import first_shut
from kaisched.actions.room.clearing import Movable, choices_by_card, completed, fewest_items
from kaisched.actions.room.placing import is_bound_in_parts, is_over, least_ask, place_waiting
from kaisched.core.axis import ACTIVE_STATES, TaskState
from kaisched.core.devices import charges
from kaisched.core.refusals import PASSING, Refusal, text_of
from kaisched.framework.session.capacity import room_of
from kaisched.framework.session.limits import has_budgets, may_disrupt
from kaisched.framework.session.node_sets import node_sets, shapes_of
from kaisched.framework.session.units import Going

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

    from kaisched.actions.eviction.search import Search
    from kaisched.actions.eviction.victims import VictimList
    from kaisched.actions.room.clearing import Item
    from kaisched.core.axis import Amounts, BoolVec, RowVec
    from kaisched.framework.session.capacity import Without
    from kaisched.framework.session.session import Session
    from kaisched.framework.session.statement import Statement
    from kaisched.framework.session.units import Unit


# Tells by amounts which pods could not move to make room for a claim, in whatever order.
#
# Most plans to move pods fail in a full cluster: the claim takes the room that the moved pods
# need. The count costs a small part of an attempt to place all of them. It proves failure only.


def without_place(
    session: Session, search: Search, demand: Demand, units: list[Unit]
) -> list[Unit]:
    """Return units that find no place while the whole claim has room; none where that is open.

    All units have left their nodes. A pod of a unit may then be on a node, its own or another, only
    if the claim still has room enough there and elsewhere.
    """
    if len(demand.shapes) > 1 or not _decide_amounts(session):
        return []
    shape, count = demand.shapes[0]
    future = search.future(shape)
    shape_of_task, requests = session.tasks.shape_of_task, session.shapes.request
    shapes = {int(shape_of_task[task]) for unit in units for task in unit.tasks}
    if not all(search.future(it).is_plain for it in (shape, *shapes)):
        return []
    tasks = np.array([task for unit in units for task in unit.tasks], np.int64)
    nodes = session.ledger.node_of_task[tasks]
    free = session.capacity.free()
    np.add.at(free.T, nodes, requests.T[shape_of_task[tasks]])
    room = room_of(free, requests[:, shape], future.allowed)
    to_spare = int(room.sum()) - count

    def has_place(moved: int) -> bool:
        request = requests[:, moved, None]
        fits: BoolVec = np.logical_and.reduce(free >= request, axis=0)
        allowed = search.future(moved).allowed
        if allowed is not None:
            fits = fits & allowed
            fits[nodes] = True  # a pod may stay where it could not start
        left: Amounts = free - request
        lost = room - room_of(left, requests[:, shape], future.allowed)
        return bool((fits & (lost <= to_spare)).any())

    lacking = {moved for moved in shapes if not has_place(moved)}
    return [unit for unit in units if any(int(shape_of_task[it]) in lacking for it in unit.tasks)]


def _decide_amounts(session: Session) -> bool:
    """Tell whether pods that may go to a node need nothing but amounts there."""
    return (
        session.capacity.cards is None
        and session.devices is None
        and session.placement.nodes is None
        and not session.ask.has_node_sets(session)
    )


# Relocation of victims: gives them new places in the same plan as the claim.

_OUTSIDE = int(Refusal.OUTSIDE_NODE_SET)
_PIPELINED = int(TaskState.PIPELINED)


class Relocation:
    """Places victims anew, after the claim that they made room for."""

    def __init__(self, session: Session, action: str, search: Search) -> None:
        """Share the room that the search has computed."""
        self._action = action
        self._session = session
        self._search = search

    def relocate(self, plan: Plan, barred: Collection[int] = ()) -> bool:
        """Move every victim that fits elsewhere as a whole; tell whether all of them fit.

        The most important go first. A unit that fits where it was stays there, unless its node is
        ``barred``. A unit stays or moves as a whole.
        """
        is_complete = True
        left = []
        going = Going()
        for unit in reversed(plan.units):
            if not going.takes(unit) and self.move(plan.statement, unit, barred):
                continue
            is_complete = False
            going.add(unit)
            left.append(unit)
        plan.units = left[::-1]
        return is_complete

    def left_over(self, statement: Statement, units: list[Unit]) -> list[Unit]:
        """Let units stay whose room is still free, the last first; return those that go."""
        going = Going()
        kept: list[Unit] = []
        for unit in reversed(units):
            mark = statement.checkpoint()
            is_bound = going.takes(unit) or self._is_shut(unit)
            if not is_bound and all(self._stays(statement, task, ()) for task in unit.tasks):
                continue
            statement.rollback(mark)
            going.add(unit)
            kept.append(unit)
        return kept[::-1]

    def move(self, statement: Statement, unit: Unit, barred: Collection[int]) -> bool:
        """Let an evicted unit stay, or promise it another place; tell whether it has a place."""
        session = self._session
        sets = None
        if session.ask.has_node_sets(session):  # of a gang's victims there may be thousands
            shapes = shapes_of(session, np.array(unit.tasks, np.int64))
            sets = node_sets(session, self._action, unit.job, self._ask(unit), shapes)
        elif session.placement.nodes is None:
            return self._moved(statement, unit, barred)
        for nodes in (None,) if sets is None else sets:
            with session.placement.within(nodes):
                if self._moved(statement, unit, barred):
                    return True
        return False

    def _moved(self, statement: Statement, unit: Unit, barred: Collection[int]) -> bool:
        """Place an evicted unit on the set of nodes that is tried now."""
        session, tasks = self._session, unit.tasks
        shape_of_task = session.tasks.shape_of_task
        if any(not self._search.future(int(shape_of_task[task])).total for task in tasks):
            return False
        if first_shut(session, self._action, unit.job, self._least(unit)):
            return False  # a limit requires that the unit goes
        mark = statement.checkpoint()
        if all(self._stays(statement, task, barred) for task in tasks) and not is_over(
            session, tasks
        ):
            return True
        statement.rollback(mark)
        # Its pods would not start again, for example as its queue is on hold; or each of its
        # subgroups would need a set of nodes of its own.
        is_on_hold = bool(session.jobs.refusal[unit.job])
        if is_on_hold or is_bound_in_parts(session, unit.job, np.array(tasks, np.int64)):
            return False
        for task in tasks:
            best = session.placement.best_future(int(shape_of_task[task]), barred)
            # Pods that move together may come back to where one of them was. A single one may not,
            # unless it gets another GPU there.
            is_same = best is not None and best[0] == int(session.ledger.node_of_task[task])
            is_pointless = is_same and len(tasks) == 1 and not self._has_shares(task)
            if best is None or is_pointless:
                statement.rollback(mark)
                return False
            statement.relocate(task, best[0])
        # It may be over on the GPUs of the nodes that it would move to.
        is_refused = all(map(self._is_back, tasks)) or is_over(session, tasks)
        if is_refused:
            statement.rollback(mark)
        return not is_refused

    def _has_shares(self, task: int) -> bool:
        """Tell whether a pod has parts of GPUs."""
        shape = int(self._session.tasks.shape_of_task[task])
        return self._session.capacity.cards_for(shape) is not None

    def _is_back(self, task: int) -> bool:
        """Tell whether a pod with parts of GPUs was promised those that it has."""
        session = self._session
        shape, node = int(session.tasks.shape_of_task[task]), session.tasks.node_of_task[task]
        cards = session.capacity.cards_for(shape)
        promised = None if cards is None else cards.promised.get(task)
        if cards is None or promised is None or session.ledger.node_of_task[task] != node:
            return False
        return not promised.later and set(promised.opened) == set(cards.table.slots_of_task[task])

    def _has_moved(self, job: int) -> bool:
        """Tell whether running pods of a job have been promised other nodes."""
        session = self._session
        tasks = np.array(session.jobs.tasks[job], np.int64)
        moves = session.ledger.state[tasks] == _PIPELINED
        return bool((moves & ACTIVE_STATES[session.tasks.state[tasks]]).any())

    def _is_shut(self, unit: Unit) -> bool:
        """Tell whether a queue would not take a unit again where it was."""
        return bool(first_shut(self._session, self._action, unit.job, self._ask(unit)))

    def _least(self, unit: Unit) -> Amounts:
        return least_ask(self._session, unit.tasks, self._ask(unit))

    def _ask(self, unit: Unit) -> Amounts:
        """``(R,)`` what a unit counts where it was."""
        ask: Amounts = charges(self._session, list(unit.tasks)).sum(axis=1)
        return ask

    def _stays(self, statement: Statement, task: int, barred: Collection[int]) -> bool:
        """Let a pod stay where it was, if there is still room and no new pod conflicts with it."""
        session, ledger = self._session, self._session.ledger
        old, shape = int(ledger.node_of_task[task]), int(session.tasks.shape_of_task[task])
        if old in barred or not statement.may_spare(task):
            return False
        codes = session.placement.plan(shape).codes
        code = 0 if codes is None else int(codes[old])
        if code == _OUTSIDE and self._has_moved(int(ledger.job_of_task[task])):
            return False  # its job is bound to a set of nodes, and other pods of it are elsewhere
        # A taint added later does not drive a running pod away, nor does its own port. The
        # constraints of another pod do.
        if text_of(code).is_freeable and code not in PASSING:
            return False
        statement.spare(task)
        return True


# Makes room out of fragments: evicts some of a node's pods and moves the others.
#
# If every node has pods that may not be evicted, no victims make room for a pod that needs a whole
# node. Then such pods are moved, pods of the claim's own queue too. Each gets a new place in the
# same plan, and no pod is moved for a claim of lower priority.

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
