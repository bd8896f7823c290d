"""The open cards: which slots of its node each task with a share holds.

A task keeps its slots as long as it is on its node. Tasks that are new on a node get the slot of
their group; without a known group they get the cards that a cycle would choose.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING

import numpy as np

from kaisched.cluster.sharing import CardState
from kaisched.core.axis import GPU
from kaisched.core.card_order import card_order
from kaisched.core.devices import CARD, CardTable, DeviceDemand
from kaisched.core.states import HOLDING_STATES, TaskState

if TYPE_CHECKING:
    from kaisched.cluster.nodes import NodeRows
    from kaisched.cluster.rows import TaskRows
    from kaisched.cluster.shapes import ShapeRows
    from kaisched.cluster.sharing import SharedCards
    from kaisched.core.axis import RowVec

_RELEASING = int(TaskState.RELEASING)


class CardRows:
    """The slots of tasks with shares."""

    def __init__(self) -> None:
        """Start without tasks."""
        self.sharing: SharedCards | None = None
        """Who uses and holds each card, where reservation pods hold them."""
        self._place: dict[int, tuple[int, tuple[int, ...]]] = {}
        """Task row to its node and its slots there."""
        self._groups: dict[int, tuple[str, ...]] = {}
        """Task row to the names of its cards, as its pod says."""
        self._wanted: dict[int, tuple[int, ...]] = {}
        """Task row to slots that a cycle has chosen."""

    def hold_by(self, sharing: SharedCards) -> None:
        """Let reservation pods hold the cards that pods share."""
        self.sharing = sharing

    def choose(self, slots: Mapping[int, tuple[int, ...]]) -> None:
        """Note the slots that a cycle has chosen for tasks; they count once these are placed."""
        self._wanted.update(slots)

    def name(self, task: int, groups: tuple[str, ...]) -> None:
        """Note the names of the cards of a task."""
        if self._groups.get(task) != groups:
            self._groups[task] = groups
            self._place.pop(task, None)

    def keep(self, tasks: RowVec) -> None:
        """Follow tasks to other rows: ``tasks`` has the new row of each, -1 for none."""
        for rows in (self._place, self._groups, self._wanted):
            kept = [(int(tasks[old]), value) for old, value in rows.items() if tasks[old] >= 0]
            rows.clear()
            rows.update(kept)  # type: ignore[arg-type]

    def move_nodes(self, nodes: RowVec) -> None:
        """Follow nodes to other rows."""
        self._place = {
            task: (int(nodes[node]), slots)
            for task, (node, slots) in self._place.items()
            if nodes[node] >= 0
        }

    def table(self, nodes: NodeRows, rows: TaskRows, shapes: ShapeRows) -> CardTable | None:
        """Freeze; None while no task has a share."""
        if not shapes.with_cards:
            return None
        size = rows.size
        has_card = np.zeros(len(shapes), np.bool_)
        has_card[shapes.with_cards] = True
        state, node = rows.state.data[:size], rows.node_of_task.data[:size]
        holds = HOLDING_STATES[state] & (node >= 0) & has_card[rows.shape_of_task.data[:size]]
        filling = _Filling(nodes, rows, shapes)
        new = []
        for task in holds.nonzero()[0].tolist():
            place = self._place.get(task)
            if place is None or place[0] != node[task]:
                new.append(task)
            else:
                filling.add(task, place[1], self._groups.get(task, ()))
        for task in new:
            slots = filling.slots_for(task, self._groups.get(task), self._wanted.pop(task, None))
            self._place[task] = int(node[task]), slots
            filling.add(task, slots, self._groups.get(task, ()))
        if len(self._place) > len(filling.slots):
            self._place = {task: self._place[task] for task in filling.slots}
        return filling.table(self.sharing)


class _Filling:
    """The cards of all nodes while tasks are put on them."""

    def __init__(self, nodes: NodeRows, tasks: TaskRows, shapes: ShapeRows) -> None:
        self._rows, self._shapes, self._row_of_node = tasks, shapes, nodes.row_of_name
        self.cards, sizes = nodes.cards()
        self.size = sizes * CARD
        self.slots: dict[int, tuple[int, ...]] = {}
        width = max(int(self.cards.max(initial=0)), 1)
        shape = (len(self.cards), width)
        self.used, self.leaving, self.tasks = (np.zeros(shape, np.int64) for _ in range(3))
        self._reserved: list[tuple[int, int]] = []
        self.milli, self.milli_leaving = (np.zeros(len(self.cards), np.int64) for _ in range(2))
        self._named: dict[tuple[int, str], int] = {}

    def _of(self, task: int) -> tuple[int, DeviceDemand, int]:
        rows, shapes = self._rows, self._shapes
        node, shape = int(rows.node_of_task.data[task]), int(rows.shape_of_task.data[task])
        demand = shapes.constraints.data[shape].devices
        assert demand is not None
        return node, demand, demand.take(int(self.size[node]) // CARD)

    def slots_for(
        self, task: int, groups: tuple[str, ...] | None, wanted: tuple[int, ...] | None
    ) -> tuple[int, ...]:
        """Return the slots of a task that is new on its node."""
        node, demand, take = self._of(task)
        if groups is not None:
            return tuple(self._slot(node, group) for group in groups)
        if wanted is not None:
            return wanted
        used, tasks = self.used[node].tolist(), self.tasks[node].tolist()
        size = int(self.size[node])
        left = [size - it if tasks[slot] else -1 for slot, it in enumerate(used)]
        chosen, opened = card_order(left, tasks, take, demand.cards)
        return (*chosen, *opened)

    def _slot(self, node: int, group: str) -> int:
        known = self._named.get((node, group))
        if known is not None:
            return known
        closed = [slot for slot, number in enumerate(self.tasks[node].tolist()) if not number]
        taken = {slot for (at, _), slot in self._named.items() if at == node}
        closed += range(self.tasks.shape[1], self.tasks.shape[1] + len(taken) + 1)
        slot = next(slot for slot in closed if slot not in taken)
        self._named[node, group] = slot
        return slot

    def add(self, task: int, slots: tuple[int, ...], groups: tuple[str, ...]) -> None:
        """Count a task on its cards."""
        node, demand, take = self._of(task)
        rows, shapes = self._rows, self._shapes
        self._widen(max(slots) + 1)
        is_leaving = rows.state.data[task] == _RELEASING
        milli = int(shapes.request.data[rows.shape_of_task.data[task], GPU])
        self.slots[task] = slots
        if demand.is_reservation and not is_leaving:
            self._reserved += [(node, slot) for slot in slots]
        self.milli[node] += milli
        self.milli_leaving[node] += milli * is_leaving
        for slot in slots:
            self.used[node, slot] += take
            self.leaving[node, slot] += take * is_leaving
            self.tasks[node, slot] += 1
        for slot, group in zip(slots, groups, strict=False):
            self._named.setdefault((node, group), slot)

    def _widen(self, width: int) -> None:
        more = width - self.used.shape[1]
        if more > 0:
            self.used, self.leaving, self.tasks = (
                np.pad(it, ((0, 0), (0, more))) for it in (self.used, self.leaving, self.tasks)
            )

    def table(self, sharing: SharedCards | None) -> CardTable:
        """Return the table; ``sharing`` says which cards are held, None that all are."""
        closed, blind = np.zeros(self.used.shape, np.bool_), np.zeros(len(self.cards), np.bool_)
        row_of_name = self._row_of_node
        for told, state in () if sharing is None else sharing.closed().items():
            node = row_of_name.get(told.node, -1)
            if node >= 0:
                blind[node] |= state is CardState.LOST
                if (slot := self._named.get((node, told.group))) is not None:
                    closed[node, slot] = True
        reserved, awaited = np.zeros(self.used.shape, np.bool_), np.zeros(len(self.cards), np.int64)
        for card in self._reserved:
            reserved[card] = True
        for told in () if sharing is None else sharing.awaited():
            node = row_of_name.get(told.node, -1)
            if node >= 0 and (slot := self._named.get((node, told.group))) is not None:
                reserved[node, slot] = True
                awaited[node] += 1
        columns = (self.cards, self.size, self.used, self.leaving, self.tasks)
        for column in (*columns, self.milli, self.milli_leaving, closed, blind, reserved, awaited):
            column.setflags(write=False)
        groups = {(node, slot): group for (node, group), slot in self._named.items()}
        slots, named = MappingProxyType(self.slots), MappingProxyType(groups)
        milli = self.milli, self.milli_leaving
        return CardTable(*columns, slots, named, *milli, closed, blind, reserved, awaited)
