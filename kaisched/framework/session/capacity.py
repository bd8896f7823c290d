"""The idle and releasing amounts of nodes as of now, and how many pods fit: the free capacity.

Only this module converts amounts to pods. The ledger takes and gives back amounts by node and
shape. All questions about free capacity are answered here: now, once everything is released, and
without some of the running pods. Where pods share GPUs, amounts bound it and cards decide.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from kaisched.core.axis import GPU, GPU_UNIT, HOLDING_STATES, PODS, TaskState
from kaisched.framework.session.cards import PACKED, Cards

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from kaisched.core.axis import Amounts, BoolVec, IntVec, RowVec
    from kaisched.core.devices import CardTable, ShareSpread
    from kaisched.core.snapshot import Snapshot
    from kaisched.framework.session.cards import Cards

    Asked = Sequence[tuple[int, int]]

HUGE: Final = 1 << 40
"""Room where a shape asks for nothing of a resource; more pods than any node will see."""
_FEW: Final = 16
"""Up to so many rows a loop of scalars is faster than arrays (measured: 0.2 us for a row against
4 us for a call)."""
_MOST_KEPT: Final = 64
"""The free capacity for at most so many shapes is kept."""
_RELEASING: Final = int(TaskState.RELEASING)
_PIPELINED: Final = int(TaskState.PIPELINED)
_HOLDS: Final = HOLDING_STATES.tolist()


class Holding(NamedTuple):
    """The amounts that some pods hold, by node: these would be free without the pods."""

    nodes: RowVec
    """``(K,)``"""
    amounts: Amounts
    """``(R, K)``"""

    def some(self, pods: RowVec) -> Holding:
        """Return what some of the pods hold."""
        return Holding(self.nodes[pods], self.amounts.take(pods, axis=1))


class Capacity:
    """The amounts of the nodes in one cycle.

    They are the snapshot's arrays until the first change: a cycle that places nothing copies
    nothing.
    """

    __slots__ = (
        "_asked",
        "_by_shape",
        "_has_releasing",
        "_is_own",
        "_request",
        "idle",
        "releasing",
        "touched",
    )

    idle: Amounts
    """``(R, N)`` what no pod holds, pods that are leaving included."""
    releasing: Amounts
    """``(R, N)`` what leaving pods will release, less what other pods are nominated for."""
    touched: list[int]
    """Node rows in the order of their changes: caches of answers by node ask again for them."""
    cards: Cards | None = None
    """The cards that pods share; None while no pod shares."""

    def __init__(self, snapshot: Snapshot) -> None:
        """Begin with the amounts of the snapshot."""
        nodes = snapshot.nodes
        self.idle, self.releasing = nodes.idle, nodes.releasing
        self.touched = []
        self._request = snapshot.shapes.request
        self._asked: dict[int, list[tuple[int, int]]] = {}
        self._by_shape: dict[int, tuple[int, IntVec]] = {}
        """How many changes were seen, and the free capacity of all nodes by amounts."""
        self._is_own = False
        self._has_releasing: bool | None = None

    # -- moves: the ledger's business --------------------------------------------------------------

    def take(self, _task: int, node: int, shape: int, state: int) -> None:
        """Count a pod on its node: allocated, releasing or pipelined, as its state says."""
        self._move(node, self._request[:, shape], state)

    def give_back(self, _task: int, node: int, shape: int, state: int) -> None:
        """Undo :meth:`take`."""
        self._move(node, -self._request[:, shape], state)

    def take_all(self, _tasks: RowVec, nodes: RowVec, shape: int, state: int) -> None:
        """Do :meth:`take` for a pod on each of the nodes: all are placed, or all promised."""
        self._move_all(nodes, self._request[:, shape], state)

    def give_back_all(self, _tasks: RowVec, nodes: RowVec, shape: int, state: int) -> None:
        """Undo :meth:`take_all`."""
        self._move_all(nodes, -self._request[:, shape], state)

    def release(self, _tasks: RowVec, _shapes: RowVec, holding: Holding, sign: int) -> None:
        """Count what running pods hold as being released (1), or as held again (-1)."""
        if not self._is_own:
            self._copy()
        self._has_releasing = True
        self.touched.extend(dict.fromkeys(holding.nodes.tolist()))
        for row, more in enumerate(holding.amounts * sign):
            np.add.at(self.releasing[row], holding.nodes, more)

    def keep(self, node: int, amounts: IntVec) -> None:
        """Count amounts that a leaving pod holds as not being released: others keep them."""
        if not self._is_own:
            self._copy()
        self._has_releasing = True
        self.releasing[:, node] -= amounts
        self.touched.append(node)

    def _copy(self) -> None:
        self.idle, self.releasing = self.idle.copy(), self.releasing.copy()
        self._is_own = True

    def _move(self, node: int, amounts: IntVec, state: int) -> None:
        if not self._is_own:
            self._copy()
        if _HOLDS[state]:
            self.idle[:, node] -= amounts
            if state == _RELEASING:
                self.releasing[:, node] += amounts
                self._has_releasing = True
        elif state == _PIPELINED:
            self.releasing[:, node] -= amounts
            self._has_releasing = True
        self.touched.append(node)

    def _move_all(self, nodes: RowVec, amounts: IntVec, state: int) -> None:
        if len(nodes) == 1:
            self._move(int(nodes[0]), amounts, state)
            return
        if not self._is_own:
            self._copy()
        source = self.idle
        if state == _PIPELINED:
            source = self.releasing
            self._has_releasing = True
        if len(nodes) > _FEW and np.count_nonzero(nodes[1:] > nodes[:-1]) == len(nodes) - 1:
            self.touched.extend(nodes.tolist())  # each node once: a third of the time of counting
            source[:, nodes] -= amounts[:, None]
            return
        counts: dict[int, int] = {}
        for node in nodes.tolist():
            counts[node] = counts.get(node, 0) + 1
        self.touched.extend(counts)
        if len(counts) <= _FEW:
            for node, number in counts.items():
                source[:, node] -= amounts * number
        else:
            rows = np.fromiter(counts, np.int64, len(counts))
            source[:, rows] -= amounts[:, None] * np.fromiter(counts.values(), np.int64)

    # -- what fits ---------------------------------------------------------------------------------

    @property
    def has_releasing(self) -> bool:
        """Whether capacity was being released when the cycle began, or has been since."""
        if self._has_releasing is None:
            self._has_releasing = bool(np.count_nonzero(self.releasing))
        return self._has_releasing

    def asked(self, shape: int) -> Asked:
        """Return (resource, amount) of what one pod of a shape asks for."""
        asked = self._asked.get(shape)
        if asked is None:
            request = self._request[:, shape].tolist()
            asked = self._asked[shape] = [(at, each) for at, each in enumerate(request) if each]
        return asked

    def room(
        self, shape: int, allowed: BoolVec | None = None, without: Holding | None = None
    ) -> IntVec:
        """``(N,)`` pods of a shape that fit on the nodes allowed once everything is released.

        What the pods of ``without`` hold counts as free as well.
        """
        if without is not None:
            return self.without(without).room(shape, allowed)
        room = self._by_amounts(shape)
        return room.copy() if allowed is None else room * allowed

    def _by_amounts(self, shape: int) -> IntVec:
        """``(N,)`` what :meth:`room` returns for all nodes; kept, and updated where pods moved.

        Of several pods that are placed one after the other, each asks anew.
        """
        known = self._by_shape.get(shape)
        rows = None if known is None else set(self.touched[known[0] :])
        asked = self.asked(shape)
        if known is None or rows is None or len(rows) > _FEW or not asked:
            if len(self._by_shape) >= _MOST_KEPT:
                self._by_shape.clear()
            room = room_of(self.free(), self._request[:, shape])
        else:
            room = known[1]
            for node in rows:
                room[node] = self.on(node).pods(asked)
        self._by_shape[shape] = len(self.touched), room
        return room

    def fits(self, shape: int, node: int) -> bool:
        """Tell whether a pod fits on a node once everything is released."""
        free = self.idle[:, node] + self.releasing[:, node]
        return bool((free >= self._request[:, shape]).all())

    def limited_now(self, _shape: int, _rows: RowVec, room: IntVec) -> IntVec:
        """Return room ``(K,)`` by idle amounts, bounded by what cards of the nodes allow now."""
        return room

    def is_by_card(self, _shape: int) -> bool:
        """Tell whether cards bound the room of a shape, so that amounts are an upper bound."""
        return False

    def cards_for(self, _shape: int) -> Cards | None:
        """Return the cards for a shape with a share; None for any other shape."""
        return None

    def cards_to_open(self, _node: int) -> tuple[int, int]:
        """Return how many GPUs of a node shares may open, and its free pod slots, as of now."""
        return 0, 0

    def may_stay(self, _task: int, shape: int, node: int) -> bool:
        """Tell whether a pod that is being released could stay on its node, and on its cards."""
        return self.fits(shape, node)

    def pods_on(self, node: int, shape: int) -> int:
        """Return how many pods of a shape fit on a node once everything is released."""
        return self.on(node).pods(self.asked(shape))

    def whole_gpus(self, node: int) -> int:
        """Return the whole GPUs of a node that are free once everything is released."""
        return max(int(self.idle[GPU, node] + self.releasing[GPU, node]), 0) // GPU_UNIT

    def on(self, node: int) -> NodeCapacity:
        """Return the free capacity of one node once everything is released, to count with."""
        return NodeCapacity((self.idle[:, node] + self.releasing[:, node]).tolist())

    def without(self, *holdings: Holding) -> Without:
        """Return the free capacity without some pods once everything is released, to count with."""
        freed = Without(self.free(), self._request)
        for holding in holdings:
            freed.give_back(holding)
        return freed

    # -- amounts -----------------------------------------------------------------------------------

    def free(self) -> Amounts:
        """``(R, N)`` what is idle or being released and not promised; less than 0 if overdrawn."""
        return self.idle + self.releasing

    def free_of(self, resource: int, rows: RowVec) -> IntVec:
        """``(K,)`` what :meth:`free` returns, for one resource on some nodes."""
        free: IntVec = self.idle[resource].take(rows) + self.releasing[resource].take(rows)
        return free

    def gpus_free(self, shape: int, rows: RowVec, extra: IntVec) -> tuple[IntVec, Amounts]:
        """Whole GPUs ``(K,)``, and thousandths left of shared ones ``(K, G)``: idle or released.

        It is as if ``extra`` ``(K,)`` more pods of a shape were on the nodes already.
        """
        free = self.free_of(GPU, rows) - extra * self._request[GPU, shape]
        whole = np.maximum(free, 0) // GPU_UNIT
        return whole, np.zeros((len(rows), 0), np.int64)

    def unpromised(self, rows: RowVec) -> Amounts:
        """``(R, K)`` what is idle now and not promised: a promise makes ``releasing`` negative."""
        promised = self.releasing.take(rows, axis=1)
        return self.idle.take(rows, axis=1) + np.minimum(promised, 0, out=promised)

    def pods_now(self, shape: int, node: int) -> int:
        """Return how many pods of a shape fit on a node now, and are not promised to others."""
        free = self._unpromised_on(node)
        least = min([free[at] // amount for at, amount in self.asked(shape)], default=HUGE)
        return max(least, 0)

    def has_amounts_now(self, shape: int, node: int) -> bool:
        """Tell whether amounts suffice for a pod of a shape now, whatever cards say."""
        free = self._unpromised_on(node)
        return all(free[at] >= amount for at, amount in self.asked(shape))

    def _unpromised_on(self, node: int) -> list[int]:
        free: list[int] = self.idle[:, node].tolist()
        if self.has_releasing:
            releasing = self.releasing[:, node].tolist()
            free = [idle + min(more, 0) for idle, more in zip(free, releasing, strict=True)]
        return free

    def total(self) -> IntVec:
        """``(R,)`` what is free on all nodes together.

        A node whose pods hold more than it has counts as 0.
        """
        total: IntVec = np.maximum(self.free(), 0).sum(axis=1)
        return total


class Without:
    """The free capacity of all nodes without some pods, counted on a copy."""

    __slots__ = ("_request", "free")

    def __init__(self, free: Amounts, request: Amounts) -> None:
        """Start from free amounts ``(R, N)``, which are changed."""
        self.free = free
        self._request = request

    def give_back(self, holding: Holding) -> None:
        """Count what more pods hold as free."""
        nodes = self.free.shape[1]
        for resource, amounts in enumerate(holding.amounts):
            freed = np.bincount(holding.nodes, amounts, nodes)
            self.free[resource] += freed.astype(np.int64)

    def room(self, shape: int, allowed: BoolVec | None = None) -> IntVec:
        """``(N,)`` pods of a shape that fit on the nodes allowed."""
        return room_of(self.free, self._request[:, shape], allowed)

    def lack(self, asked: Asked, pods: IntVec, rows: RowVec | None = None) -> Amounts:
        """``(R', N)``, or ``(R', K)`` for ``rows``: what nodes lack for so many pods on each."""
        amounts = np.array([amount for _, amount in asked])[:, None]
        free = self.free[[resource for resource, _ in asked]]
        lack: Amounts = amounts * pods - (free if rows is None else free.take(rows, axis=1))
        return lack


class NodeCapacity:
    """The free capacity of one node as plain numbers, which are faster than arrays; a copy."""

    __slots__ = ("_free",)

    def __init__(self, free: list[int]) -> None:
        """Start from free amounts, by resource, which are changed."""
        self._free = free

    def shift(self, amounts: Asked, sign: int) -> None:
        """Count the amounts of a pod as free (1), or as held again (-1)."""
        free = self._free
        for at, amount in amounts:
            free[at] += sign * amount

    def pods(self, asked: Asked) -> int:
        """Return how many pods fit that ask for so much each."""
        least, free = HUGE, self._free
        for at, amount in asked:
            fit = free[at] // amount
            if fit < least:  # noqa: PLR1730 - a call costs three times as much: victims are many
                least = fit
        return max(least, 0)

    def lack(self, asked: Asked, pods: int) -> list[tuple[int, int]]:
        """Return (resource, amount) that so many pods lack; 0 or less is enough."""
        return [(at, amount * pods - self._free[at]) for at, amount in asked]


def room_of(free: Amounts, request: IntVec, allowed: BoolVec | None = None) -> IntVec:
    """``(N,)`` pods of a shape that fit into free amounts ``(R, N)`` of the nodes allowed."""
    room = pods_in(free, *divisors(request[:, None]))
    return room if allowed is None else room * allowed


def divisors(request: Amounts) -> tuple[Amounts, Amounts]:
    """Return divisors of free amounts and numbers to add, ``(R, S)``, for :func:`pods_in`."""
    return np.maximum(request, 1), np.where(request > 0, 0, HUGE)


def pods_in(free: Amounts, divisor: Amounts, bonus: Amounts) -> IntVec:
    """``(K,)`` pods that fit: one shape ``(R, 1)`` on K nodes, or K shapes on one node."""
    quotient = free // divisor
    quotient += bonus
    least: IntVec = np.maximum(np.minimum.reduce(quotient, axis=0), 0)
    return least


def capacity_of(snapshot: Snapshot, spread: ShareSpread = PACKED) -> Capacity:
    """Return the capacity of a snapshot's nodes, with cards if pods share them."""
    cards = snapshot.nodes.cards
    return Capacity(snapshot) if cards is None else SharedCapacity(snapshot, cards, spread)


class SharedCapacity(Capacity):
    """The amounts of the nodes and the cards that pods share, in one cycle."""

    __slots__ = ("_slots_later", "cards")

    cards: Cards

    def __init__(self, snapshot: Snapshot, cards: CardTable, spread: ShareSpread) -> None:
        """Begin with the amounts and the cards of the snapshot."""
        super().__init__(snapshot)
        self._copy()  # so that the cards may keep rows of them
        amounts = self.idle, self.releasing
        self.cards = Cards(cards, snapshot.shapes.constraints, self._request, amounts, spread)
        self._slots_later: dict[int, int] = {}
        """What is counted of :meth:`Cards.slots_to_take`, by node."""
        self.idle[PODS] -= cards.awaited
        self._settle_all((node, 0) for node in self.cards.in_motion)

    # -- moves -------------------------------------------------------------------------------------

    def take(self, task: int, node: int, shape: int, state: int) -> None:
        """Count the room of a pod on its node, and on the cards it gets."""
        whole = self._whole_for_shares(node) if self.cards.spread.cards else None
        opened = self.cards.take(task, node, shape, state, whole)
        super().take(task, node, shape, state)
        if opened or node in self.cards.in_motion:
            self._settle(node, opened)

    def give_back(self, task: int, node: int, shape: int, state: int) -> None:
        """Undo :meth:`take`."""
        opened = self.cards.give_back(task, node, shape, state)
        super().give_back(task, node, shape, state)
        if opened or node in self.cards.in_motion:
            self._settle(node, opened)

    def take_all(self, tasks: RowVec, nodes: RowVec, shape: int, state: int) -> None:
        """Do :meth:`take` for a pod on each of the nodes: all are placed, or all promised."""
        # Which card is opened depends on the amounts before, and so does which one is promised.
        is_share = self.cards.demand_of(shape) is not None
        is_one_by_one = self.cards.spread.cards or (is_share and state == _PIPELINED)
        if is_one_by_one or len(nodes) == 1:
            for task, node in zip(tasks.tolist(), nodes.tolist(), strict=True):
                self.take(task, node, shape, state)
            return
        opened = [
            (node, self.cards.take(task, node, shape, state))
            for task, node in zip(tasks.tolist(), nodes.tolist(), strict=True)
        ]
        super().take_all(tasks, nodes, shape, state)
        self._settle_all(opened)

    def give_back_all(self, tasks: RowVec, nodes: RowVec, shape: int, state: int) -> None:
        """Undo :meth:`take_all`."""
        opened = [
            (node, self.cards.give_back(task, node, shape, state))
            for task, node in zip(tasks[::-1].tolist(), nodes[::-1].tolist(), strict=True)
        ]
        super().give_back_all(tasks, nodes, shape, state)
        self._settle_all(opened)

    def _settle(self, node: int, opened: int) -> None:
        """Count the slots of reservation pods after moves, and how many more cards are open.

        They follow from the cards as they are, so the inverse of a move gives them back.
        """
        if opened:
            self.idle[PODS, node] -= opened
        if node not in self.cards.in_motion:
            return
        now, before = self.cards.slots_to_take(node), self._slots_later.get(node, 0)
        if now != before:
            self.releasing[PODS, node] -= now - before
            self._has_releasing = True
            self._slots_later[node] = now

    def _settle_all(self, opened: Iterable[tuple[int, int]]) -> None:
        for node, number in opened:
            if number or node in self.cards.in_motion:
                self._settle(node, number)

    def release(self, tasks: RowVec, shapes: RowVec, holding: Holding, sign: int) -> None:
        """Count what running pods hold as being released (1), or as held again (-1)."""
        columns = [it.tolist() for it in (tasks, holding.nodes, shapes)]
        for task, node, shape in zip(*columns, strict=True):
            self.cards.release(task, node, shape, sign)
        super().release(tasks, shapes, holding, sign)
        self._settle_all((node, 0) for node in self.cards.in_motion.intersection(columns[1]))

    # -- what fits ---------------------------------------------------------------------------------

    def room(
        self, shape: int, allowed: BoolVec | None = None, without: Holding | None = None
    ) -> IntVec:
        """``(N,)`` pods of a shape that fit on the nodes allowed once everything is released.

        Without some pods this is an upper bound: parts of two cards may count as a whole one.
        """
        room = super().room(shape, allowed, without)
        if without is not None or not self.is_by_card(shape):
            return room
        return np.minimum(room, self.cards.room_later(shape, np.arange(len(room))))

    def limited_now(self, shape: int, rows: RowVec, room: IntVec) -> IntVec:
        """Return room ``(K,)`` by idle amounts, bounded by what cards of the nodes allow now."""
        if not self.is_by_card(shape):
            return room
        return np.minimum(room, self.cards.room_now(shape, rows))

    def pods_now(self, shape: int, node: int) -> int:
        """Return how many pods of a shape fit on a node, and on its cards, now."""
        fits = super().pods_now(shape, node)
        if not fits or not self.is_by_card(shape):
            return fits
        by_card = self.cards.pods_now(shape, node, self._unpromised_on(node))
        if by_card is not None:
            return min(fits, by_card)
        return int(self.limited_now(shape, np.array([node]), np.array([fits]))[0])

    def gpus_free(self, shape: int, rows: RowVec, extra: IntVec) -> tuple[IntVec, Amounts]:
        """Whole GPUs ``(K,)``, and thousandths left of open cards ``(K, G)``: idle or released."""
        return self.cards.free_with(shape, rows, extra)

    def is_by_card(self, shape: int) -> bool:
        """Tell whether cards bound the room of a shape, so that amounts are an upper bound."""
        return self.cards.counts_for(shape)

    def cards_for(self, shape: int) -> Cards | None:
        """Return the cards for a shape with a share; None for any other shape."""
        return None if self.cards.demand_of(shape) is None else self.cards

    def cards_to_open(self, node: int) -> tuple[int, int]:
        """Return how many GPUs of a node shares may open, and its free pod slots, as of now."""
        row = np.array([node])
        whole, _ = self.cards.whole_for_shares(row)
        return max(int(whole[0]), 0), int(self.cards.slots_now(row)[0])

    def fits(self, shape: int, node: int) -> bool:
        """Tell whether a pod fits on a node, and on its cards, once everything is released."""
        return super().fits(shape, node) and self.pods_on(node, shape) > 0

    def may_stay(self, task: int, shape: int, node: int) -> bool:
        """Tell whether a pod that is being released could stay on its node, and on its cards."""
        demand = self.cards.demand_of(shape)
        if demand is None:
            return self.fits(shape, node)
        # A reservation pod whose card is not emptied after all keeps its slot.
        free = int(self.idle[PODS, node] + self.releasing[PODS, node])
        if free <= self.cards.slots_kept(task, node) or not super().fits(shape, node):
            return False
        _, whole = self.cards.whole(np.array([node]))
        return self.cards.may_stay(task, node, demand, int(whole[0]))

    def pods_on(self, node: int, shape: int) -> int:
        """Return how many pods of a shape fit on a node once everything is released."""
        room = super().pods_on(node, shape)
        if room and self.is_by_card(shape):
            room = min(room, int(self.cards.room_later(shape, np.array([node]))[0]))
        return room

    def whole_gpus(self, node: int) -> int:
        """Return the whole GPUs of a node that are free once everything is released."""
        return max(int(self.cards.whole(np.array([node]))[1][0]), 0)

    def _whole_for_shares(self, node: int) -> tuple[int, int]:
        """Return the GPUs of a node that a share may open, now and once all is released.

        One slot is for the pod, and each card that it opens takes another.
        """
        row, cards = np.array([node]), self.cards
        whole, slots = cards.whole_for_shares(row), (cards.slots_now(row), cards.slots_later(row))
        pairs = zip(whole, slots, strict=True)
        now, later = (max(min(int(gpus[0]), int(free[0]) - 1), 0) for gpus, free in pairs)
        return now, later
