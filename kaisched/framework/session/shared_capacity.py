"""What fits on the nodes while pods share GPUs: amounts bound it, cards decide.

A snapshot in which no pod shares has the plain capacity, which knows nothing of cards: what no pod
uses costs nothing.

A card that was opened in this cycle, or shortly before it, takes a pod slot: its reservation pod is
not there yet. Once all is released, one that everything leaves has left its slot.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from kaisched.core.axis import PODS
from kaisched.core.states import TaskState
from kaisched.framework.session.capacity import HUGE, Capacity
from kaisched.framework.session.cards import PACKED, Cards

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kaisched.core.axis import Amounts, BoolVec, IntVec, RowVec
    from kaisched.core.devices import CardTable, ShareSpread
    from kaisched.core.snapshot import Snapshot
    from kaisched.framework.session.capacity import Holding

_PIPELINED: Final = int(TaskState.PIPELINED)


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
        """What is counted of :meth:`CardColumns.slots_to_take`, by node."""
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
        free = self._unpromised_on(node)
        fits = max(min([free[at] // each for at, each in self.asked(shape)], default=HUGE), 0)
        if not fits or not self.is_by_card(shape):
            return fits
        by_card = self.cards.pods_now(shape, node, free)
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
