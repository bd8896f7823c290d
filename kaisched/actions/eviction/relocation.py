"""Finds new places for pods that leave: victims that fit elsewhere, and pods that only move.

Each pod that moves has its new place in the same plan as the claim.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from kaisched.actions.eviction.demand import Plan
from kaisched.actions.order.gates import first_shut
from kaisched.actions.room.placing import is_bound_in_parts, is_over, least_ask
from kaisched.core.axis import ACTIVE_STATES, GPU, TaskState
from kaisched.core.devices import charges
from kaisched.core.refusals import PASSING, Refusal, text_of
from kaisched.framework.session.node_sets import node_sets, shapes_of
from kaisched.framework.session.units import Going

if TYPE_CHECKING:
    from collections.abc import Collection

    from kaisched.actions.eviction.search import Search
    from kaisched.core.axis import Amounts
    from kaisched.framework.session.session import Session
    from kaisched.framework.session.statement import Statement
    from kaisched.framework.session.units import Unit


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

    def relocate(self, plan: Plan, barred: Collection[int] = ()) -> None:
        """Move every victim that fits elsewhere as a whole.

        The most important go first. A unit that fits where it was stays there, unless its node is
        ``barred``. A unit stays or moves as a whole.
        """
        left = []
        going = Going()
        for unit in reversed(plan.units):
            if not going.takes(unit) and self.move(plan.statement, unit, barred):
                plan.relocated.append(unit)
            else:
                going.add(unit)
                left.append(unit)
        plan.units = left[::-1]

    def settle(
        self, statement: Statement, units: list[Unit], barred: Collection[int], may_stay: bool
    ) -> list[Unit]:
        """Move units, those with the largest pods first; return those that find no place."""
        request, shapes = self._session.shapes.request, self._session.tasks.shape_of_task
        size = {unit: int(request[GPU, shapes[list(unit.tasks)]].sum()) for unit in units}
        left = sorted(units, key=lambda unit: -size[unit])
        return [unit for unit in left if not self.move(statement, unit, barred, may_stay=may_stay)]

    def move(
        self, statement: Statement, unit: Unit, barred: Collection[int], *, may_stay: bool = True
    ) -> bool:
        """Promise an evicted unit another place, or let it stay; tell whether it has a place."""
        session = self._session
        sets = None
        if session.ask.has_node_sets(session):  # of a gang's victims there may be thousands
            shapes = shapes_of(session, np.array(unit.tasks, np.int64))
            sets = node_sets(session, self._action, unit.job, self._ask(unit), shapes)
        elif session.placement.nodes is None:
            return self._moved(statement, unit, barred, stays=may_stay)
        here = session.ledger.node_of_task[list(unit.tasks)]
        around = None if sets is None else [bool(each.nodes[here].all()) for each in sets]
        for at, nodes in enumerate((None,) if sets is None else sets):
            # Where it may stay, it stays by the rules of the set that it is in.
            stays = may_stay and (around is None or around[at])
            with session.placement.within(nodes):
                if self._moved(statement, unit, barred, stays=stays):
                    return True
        return False

    def _moved(
        self, statement: Statement, unit: Unit, barred: Collection[int], *, stays: bool = True
    ) -> bool:
        """Place an evicted unit on the set of nodes that is tried now, or where it was."""
        session, tasks = self._session, unit.tasks
        shape_of_task = session.tasks.shape_of_task
        if any(not self._search.future(int(shape_of_task[task])).total for task in tasks):
            return False
        if first_shut(session, self._action, unit.job, self._least(unit)):
            return False  # a limit requires that the unit goes
        mark = statement.checkpoint()
        may_stay = stays and all(self._stays(statement, task, barred) for task in tasks)
        if may_stay and not is_over(session, tasks):
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
