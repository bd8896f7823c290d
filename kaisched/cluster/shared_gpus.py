"""Shared GPUs: which pods use each card, which reservation pods hold it, and the slots of tasks."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Container, Iterator, Mapping
from collections.abc import Set as AbstractSet
from enum import Enum, auto
from types import MappingProxyType
from typing import NamedTuple

import numpy as np

from kaisched.cluster.columns import set_or_drop
from kaisched.cluster.nodes import NodeRows
from kaisched.cluster.rows import ShapeRows, TaskRows
from kaisched.core.axis import GPU, HOLDING_STATES, RowVec, TaskState
from kaisched.core.devices import CARD, CardTable, DeviceDemand, card_order
from kaisched.objects.gpus import Card, Reservation, Stage


class Use(NamedTuple):
    """How a pod uses cards of its node."""

    node: str
    groups: tuple[str, ...]
    gpus: tuple[str, ...] = ()
    """The UUIDs of their GPUs, in the same order; none where the pod does not say."""
    is_sent: bool = False
    """Its bind was sent, and is not seen yet."""


class CardState(Enum):
    """Whether a card may take more shares."""

    OPEN = auto()
    CLOSED = auto()
    """Its reservation pod is about to go."""
    LOST = auto()
    """Pods use its GPU and no reservation pod holds it: the device plugin may give it away."""


class SharedCards:
    """The users and reservation pods of each card."""

    def __init__(self, leaving: Container[str]) -> None:
        """Start without shared GPUs; ``leaving`` has the pods whose deletion was sent."""
        self._leaving = leaving
        self._use_of: dict[str, Use] = {}
        self._users: dict[Card, set[str]] = defaultdict(set)
        self._reservation_of: dict[str, Reservation] = {}
        self._held: dict[Card, set[str]] = defaultdict(set)
        self._changed: set[Card] = set()
        self._faults: dict[str, str] = {}
        self._untold: set[str] = set()

    # -- what is told ----------------------------------------------------------------------------

    def record_use(self, key: str, use: Use | None) -> None:
        """Note how a pod uses cards; None: not, or no more."""
        old = self._use_of.get(key)
        if old == use:
            return
        if old is not None:
            for group in old.groups:
                self._drop(self._users, Card(old.node, group), key)
        if use is None:
            self._use_of.pop(key, None)
            return
        self._use_of[key] = use
        for group in use.groups:
            self._users[Card(use.node, group)].add(key)
            self.look_again(Card(use.node, group))

    def record_fault(self, key: str, fault: str) -> None:
        """Record the fault of the groups that a pod names; empty for none."""
        if fault != self._faults.get(key, ""):
            set_or_drop(self._faults, key, fault or None)
            (self._untold.add if fault else self._untold.discard)(key)

    def handle(self, found: Reservation) -> None:
        """Take in a reservation pod that came or changed."""
        old = self._reservation_of.get(found.key)
        if old is not None and (old.uid, old.card) != (found.uid, found.card):
            self.forget(found.key)
        self._reservation_of[found.key] = found
        self._held[found.card].add(found.key)
        self.look_again(found.card)

    def forget(self, key: str, uid: str = "") -> None:
        """Drop a reservation pod that is gone; with a UID, only if it is still that one."""
        old = self._reservation_of.get(key)
        if old is not None and uid in {"", old.uid}:
            del self._reservation_of[key]
            self._drop(self._held, old.card, key)

    def _drop(self, index: dict[Card, set[str]], card: Card, key: str) -> None:
        keys = index[card]
        keys.discard(key)
        if not keys:
            del index[card]
        self.look_again(card)

    def look_again(self, card: Card) -> None:
        """Mark a card as changed."""
        self._changed.add(card)

    # -- questions -------------------------------------------------------------------------------

    def reservations_of(self, card: Card) -> list[Reservation]:
        """Return the reservation pods of a card, by name."""
        return [self._reservation_of[key] for key in sorted(self._held.get(card, ()))]

    def uses_of(self, card: Card) -> list[Use]:
        """Return how pods use a card."""
        return [self._use_of[key] for key in sorted(self._users.get(card, ()))]

    def faults(self) -> Mapping[str, str]:
        """Return the faults of the groups that pods name, by pod."""
        return self._faults

    def reserved(self) -> Counter[str]:
        """Return how many GPUs of each node reservation pods hold, or have still."""
        found = self._reservation_of.values()
        return Counter(it.card.node for it in found if it.stage is not Stage.ENDED)

    def is_known(self, card: Card) -> bool:
        """Tell whether a pod uses a card, or a reservation pod is there for it."""
        return bool(self._users.get(card) or self.reservations_of(card))

    def users_of(self, card: Card) -> list[str]:
        """Return the pods that use a card."""
        return sorted(self._users.get(card, ()))

    def gpus_of(self, card: Card) -> frozenset[str]:
        """Return the GPU UUIDs of the users of a card; more than one is a fault."""
        return frozenset(
            gpu
            for use in self.uses_of(card)
            for group, gpu in zip(use.groups, use.gpus, strict=False)
            if group == card.group
        )

    def state_of(self, card: Card) -> CardState:
        """Return whether a card may take more shares."""
        found, gpus = self.reservations_of(card), self.gpus_of(card)
        for it in found:
            is_held = it.stage is Stage.HOLDS and it.key not in self._leaving
            if is_held and (not it.is_renewed or not gpus or it.gpu in gpus):
                return CardState.OPEN
        if any(not use.is_sent for use in self.uses_of(card)):
            return CardState.LOST
        is_going = any(it.stage is not Stage.ENDED for it in found)
        return CardState.CLOSED if is_going else CardState.OPEN

    def closed(self) -> Mapping[Card, CardState]:
        """Return the cards that take no more shares."""
        states = {card: self.state_of(card) for card in {*self._users, *self._held}}
        return {card: state for card, state in states.items() if state is not CardState.OPEN}

    def awaited(self) -> AbstractSet[Card]:
        """Return the cards of sent binds that have no reservation pod yet."""
        alone = self._users.keys() - self._held.keys()
        return {card for card in alone if any(use.is_sent for use in self.uses_of(card))}

    # -- what is to be done ----------------------------------------------------------------------

    def changed(self) -> set[Card]:
        """Return the cards of which something has changed since this was asked last."""
        changed, self._changed = self._changed, set()
        return changed

    def untold_faults(self) -> dict[str, str]:
        """Return the new faults of groups since the last call, by pod."""
        untold, self._untold = self._untold, set()
        return {key: self._faults[key] for key in sorted(untold)}

    def to_release(self, card: Card) -> Iterator[Reservation]:
        """Yield the reservation pods of a card that hold no GPU which is in use.

        Those are the pods that have ended, those of a card without users, and those that were made
        for pods which had lost theirs and got another GPU.
        """
        used, gpus = self._users.get(card), self.gpus_of(card)
        for it in self.reservations_of(card):
            if it.key in self._leaving or it.stage is Stage.LEAVES:
                continue
            is_wrong = it.is_renewed and it.gpu and gpus and it.gpu not in gpus
            if it.stage is Stage.ENDED or not used or is_wrong:
                yield it

    def is_to_renew(self, card: Card) -> bool:
        """Tell whether no reservation pod holds a card any more that pods use on a known GPU."""
        return not self._held.get(card) and bool(self.gpus_of(card))


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
