"""The open cards of a cycle: what fits on them, which card a task gets, and how that is undone.

Amounts count shares as parts of their node's GPUs. That bounds what fits from above, since parts of
two cards are no whole card; the cards decide. Promises are kept apart: a promise takes what leaves
an open card, or a card that will be whole then and has no slot yet (``next``).
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

import numpy as np

from kaisched.core.axis import GPU, GPU_UNIT, PODS
from kaisched.core.card_order import card_order, place, pods_left, pods_on_several, promised_order
from kaisched.core.devices import CARD, ShareSpread
from kaisched.core.states import HOLDING_STATES, TaskState
from kaisched.framework.session.card_columns import CardColumns
from kaisched.framework.session.card_slots import ENOUGH, pods_by_slots
from kaisched.framework.session.cards_ahead import CardsAhead
from kaisched.framework.session.given_cards import Given, as_promises
from kaisched.framework.session.open_cards import OpenCards

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from kaisched.core.axis import Amounts, BoolVec, FloatVec, IntVec, RowVec
    from kaisched.core.constraints import Constraints
    from kaisched.core.devices import CardTable, DeviceDemand, PromisedCards

    Opened = tuple[int, int] | None
    Scores = Callable[[RowVec, IntVec], FloatVec]

_RELEASING: Final = int(TaskState.RELEASING)
_PIPELINED: Final = int(TaskState.PIPELINED)
_HOLDS: Final = HOLDING_STATES.tolist()
PACKED: Final = ShareSpread()


class Cards(CardColumns):
    """The cards as of now. Every change has an inverse, and nothing is a flag."""

    def __init__(
        self,
        table: CardTable,
        constraints: Sequence[Constraints],
        request: Amounts,
        amounts: tuple[Amounts, Amounts] | None = None,
        spread: ShareSpread = PACKED,
    ) -> None:
        """Begin with the cards of the snapshot; see :class:`CardColumns`."""
        super().__init__(table, constraints, request, amounts)
        self.spread = spread
        self._open_cards: dict[tuple[int, bool], OpenCards] = {}
        self.chosen: dict[int, tuple[int, ...]] = {}
        """The slots of each task that was placed in this cycle."""
        self.promised: dict[int, PromisedCards] = {}
        """The cards of each task that was promised room in this cycle."""
        self._takes_of: dict[tuple[int, int], tuple[int, int]] = {}
        """What :meth:`take_of` has answered, by shape and size of a card."""
        self._again = Given()
        """Cards to give again: none but while moves are made again or undone."""

    def given(self) -> Given:
        """Return the cards that tasks have got in this cycle."""
        return Given(self.chosen, self.promised)

    def given_to(self, tasks: Iterable[int]) -> Given | None:
        """Return the cards that tasks have got in this cycle; None if they have none."""
        chosen = {task: self.chosen[task] for task in tasks if task in self.chosen}
        promised = {task: self.promised[task] for task in tasks if task in self.promised}
        return Given(chosen, promised) if chosen or promised else None

    @contextmanager
    def giving(self, given: Given) -> Iterator[None]:
        """Give tasks these cards again."""
        before, self._again = self._again, given
        try:
            yield
        finally:
            self._again = before

    def as_promises(self, placed: Sequence[tuple[int, int]], given: Given) -> Given:
        """Return promises of the cards that tasks had on nodes, see :mod:`.given_cards`."""
        return as_promises(placed, given, self._tasks, self._next_tasks)

    # -- moves ---------------------------------------------------------------------------------

    def take(self, task: int, node: int, shape: int, state: int, whole: Opened = None) -> int:
        """Count a task on its cards; a task that had none gets cards with room.

        ``whole`` is how many GPUs of the node can be opened, now and later, if that comes first.
        Return how many more cards are open.
        """
        opened, demand = 0, self.demand_of(shape)
        if demand is None:
            self._note_whole(node, state)
        elif _HOLDS[state]:
            slots = self.table.slots_of_task.get(task)
            if slots is None:
                slots = self._again.chosen.get(task) or self._choose(node, demand, whole)
                self.chosen[task] = slots
            opened = self._hold(node, shape, slots, 1)
            if state == _RELEASING:
                self._release(node, shape, slots, 1)
        elif state == _PIPELINED:
            promised = self._again.promised.get(task)
            promised = promised or self._choose_next(node, demand, whole)
            self.promised[task] = promised
            self._promise(promised, node, shape, 1)
        return opened

    def give_back(self, task: int, node: int, shape: int, state: int) -> int:
        """Undo :meth:`take`, and return the same less than 0."""
        opened = 0
        if self.demand_of(shape) is None:
            self._note_whole(node, state)
        elif _HOLDS[state]:
            slots = self.table.slots_of_task.get(task)
            if slots is None:
                slots = self.chosen.pop(task)
            if state == _RELEASING:
                self._release(node, shape, slots, -1)
            opened = self._hold(node, shape, slots, -1)
        elif state == _PIPELINED:
            self._promise(self.promised.pop(task), node, shape, -1)
        return opened

    def release(self, task: int, node: int, shape: int, sign: int) -> None:
        """Count a running task as being released (1), or as held again (-1)."""
        if self.demand_of(shape) is None:
            self._note_whole(node, _RELEASING)
        else:
            self._release(node, shape, self.table.slots_of_task[task], sign)

    def _note_whole(self, node: int, state: int) -> None:
        """Note that whole GPUs were promised, which may close unused cards beside them to shares.

        Nothing is closed before the first promise: what is released before matters to nobody.
        """
        is_promise = state == _PIPELINED
        if self._open[node] and (is_promise or (state == _RELEASING and node in self.in_motion)):
            self._move_later(node)

    def may_stay(self, task: int, node: int, demand: DeviceDemand, whole: int) -> bool:
        """Tell whether a released task may run on: its cards are promised to no other task.

        ``whole`` GPUs of the node are left once all is released. A card that everything leaves is
        one of them, and is none if the task stays.
        """
        take = demand.take(self._mib(node))
        slots = list(self.table.slots_of_task[task])
        if (self._leaving[node, slots] < take).any():
            return False
        return int(self._is_emptying(np.array([node]))[0, slots].sum()) <= whole

    def slots_of(self, task: int) -> tuple[int, ...]:
        """Return the slots of a task that was placed in this cycle."""
        return self.chosen.get(task, ())

    def left_and_kept(self, node: int) -> tuple[list[int], list[int]]:
        """Return, for each slot of a node, what is left later (-1 if closed) and what stays on it.

        Later is once everything is released.
        """
        left: list[int] = self._left_later(np.array([node]))[0].tolist()
        kept: list[int] = (self._used[node] - self._leaving[node]).tolist()
        return left, kept

    def parts_of(self, task: int, node: int, shape: int) -> dict[int, int]:
        """Return what a running task holds of the cards of its node, by slot."""
        demand = self.demand_of(shape)
        if demand is None:
            return {}
        return dict.fromkeys(self.table.slots_of_task[task], demand.take(self._mib(node)))

    def take_of(self, shape: int, node: int) -> tuple[int, int]:
        """Return what a share takes of a card of a node, and how many fit on a whole one."""
        size = int(self.table.size[node])
        known = self._takes_of.get((shape, size))
        if known is None:
            demand = self.demand_of(shape)
            assert demand is not None
            take = max(demand.take(size // CARD), 1)
            known = self._takes_of[shape, size] = take, size // take
        return known

    def _choose(self, node: int, demand: DeviceDemand, whole: Opened) -> tuple[int, ...]:
        left = self.left_on(node)
        if left is None:
            left = self.left_now(np.array([node]))[0].tolist()
        take, first = demand.take(self._mib(node)), None if whole is None else whole[0]
        chosen, closed = card_order(left, self._tasks[node].tolist(), take, demand.cards, first)
        return (*chosen, *closed)

    def _choose_next(self, node: int, demand: DeviceDemand, whole: Opened) -> PromisedCards:
        row, take = np.array([node]), demand.take(self._mib(node))
        left = self._left_later(row)[0].tolist(), self._left_next(row)[0].tolist()
        tasks = self._tasks[node].tolist(), self._next_tasks[node].tolist()
        return promised_order(left, tasks, take, demand.cards, None if whole is None else whole[1])

    # -- room ------------------------------------------------------------------------------------

    def whole_for_shares(self, rows: RowVec) -> tuple[IntVec, IntVec]:
        """``(K,)`` GPUs that shares may open, now and once all is released.

        Cards that only reservation pods hold are open to shares already, or spoken for.
        """
        now, later = self.whole(rows)
        unused = self._is_unused(rows)
        if self._leaves:
            unused &= ~self._is_spoken_for(rows)
        return now, later - np.count_nonzero(unused, axis=1)

    def free_with(self, shape: int, rows: RowVec, extra: IntVec) -> tuple[IntVec, Amounts]:
        """``(K,)`` whole GPUs, ``(K, G)`` thousandths left of open cards, once all is released.

        It is as if ``extra`` ``(K,)`` more pods of a shape were on the nodes already, on the cards
        that they would get one by one.
        """
        demand = self.demand_of(shape)
        left = self._left_later(rows)
        _, whole = self.whole(rows, extra * self._request[shape] if demand is None else 0)
        if demand is not None and extra.any():
            opens, _ = self.whole_for_shares(rows)
            size, take = self.table.size[rows], self._takes(demand, rows)
            columns = self.left_now(rows), left, self._tasks[rows], self._is_unused(rows)
            counts = opens, whole, self.slots_now(rows)
            ahead = CardsAhead(size, columns, counts, is_spread=self.spread.cards)
            for step in range(int(extra.max())):
                ahead.put(take, demand.cards, extra > step)
            left, whole = ahead.left, ahead.whole
        if self.promised:
            left = np.hstack((left, self._left_next(rows)))
        milli: Amounts = np.maximum(left, 0) * GPU_UNIT // self.table.size[rows, None]
        return np.maximum(whole, 0), milli

    def room_now(self, shape: int, rows: RowVec, *, by_slots: bool = True) -> IntVec:
        """``(K,)`` pods of a shape that cards allow now on some nodes.

        No card is opened while open cards are being vacated for such a pod: it waits for them,
        unless shares are spread over cards. Slots for reservation pods count ``by_slots``.
        """
        whole, _ = self.whole(rows)
        if self.demand_of(shape) is not None and not self.spread.cards:
            later = self.on_open_cards(shape, rows, is_later=True)
            whole = whole * (later <= self.on_open_cards(shape, rows, is_later=False))
        slots = self.slots_now(rows) if by_slots else None
        return self._room(shape, rows, np.maximum(whole, 0), (self.left_now(rows),), slots)

    def pods_now(self, shape: int, node: int, free: list[int]) -> int | None:
        """Return what :meth:`room_now` does for one node with free amounts; None: ask columns."""
        left = self.left_on(node)
        if left is None or self._free[1][GPU, node] < 0:
            return None
        whole = 0
        if not (self._has_blind and self.table.is_blind[node]):
            whole = max((free[GPU] + int(self._milli[node])) // GPU_UNIT - int(self._open[node]), 0)
        demand = self.demand_of(shape)
        if demand is None:
            return whole * GPU_UNIT // self._request[shape]
        if demand.cards > 1:
            return None
        if not self.table.cards[node]:
            return 0
        take, of_new_card = self.take_of(shape, node)
        fits = whole * of_new_card + pods_left(left, take)
        return fits if fits + whole <= free[PODS] else None

    def room_later(self, shape: int, rows: RowVec) -> IntVec:
        """``(K,)`` pods of a shape that cards allow once everything is released."""
        shares = self.demand_of(shape) is not None
        _, whole = (self.whole_for_shares if shares else self.whole)(rows)
        left = (self._left_later(rows), self._left_next(rows))
        return self._room(shape, rows, np.maximum(whole, 0), left, self.slots_later(rows))

    def could_take(self, shape: int) -> BoolVec:
        """``(N,)`` nodes that have enough cards of the size that a shape asks for."""
        demand = self.demand_of(shape)
        if demand is None:
            return np.ones(len(self.table.cards), np.bool_)
        rows = np.arange(len(self.table.cards))
        return (self.table.cards >= demand.cards) & (self.of_new_card(shape, rows) > 0)

    def on_open_cards(self, shape: int, rows: RowVec, *, is_later: bool) -> IntVec:
        """``(K,)`` pods of a shape with a share that fit on open cards, now or later."""
        left = (
            (self._left_later(rows), self._left_next(rows)) if is_later else (self.left_now(rows),)
        )
        none = np.zeros(len(rows), np.int64)
        return self._room(shape, rows, none, left)

    def on_open_cards_of(self, shape: int, node: int, *, is_later: bool) -> int:
        """Return what :meth:`on_open_cards` does, for one node."""
        left, demand = self.left_on(node), self.demand_of(shape)
        if left is None or demand is None or demand.cards > 1:
            return int(self.on_open_cards(shape, np.array([node]), is_later=is_later)[0])
        return pods_left(left, self.take_of(shape, node)[0]) if self.table.cards[node] else 0

    def fills_open_cards(self, shape: int) -> bool:
        """Tell whether pods of a shape fill one open card after the other before they open one.

        Pods with shares of several cards may open one beside an open one.
        """
        demand = self.demand_of(shape)
        return demand is not None and demand.cards == 1 and not self.spread.cards

    def next_fit(self, shape: int, node: int, whole: int, slots: int) -> Iterator[bool]:
        """Yield whether the next pod of a shape fits on open cards, then the one after it.

        ``whole`` cards of the node can be opened, as far as its free ``slots`` for pods reach.
        """
        demand = self.demand_of(shape)
        assert demand is not None
        left: list[int] = self.left_now(np.array([node]))[0].tolist()
        tasks: list[int] = self._tasks[node].tolist()
        size, take = int(self.table.size[node]), self.take_of(shape, node)[0]
        while True:
            yield sum(rest >= take for rest in left) >= demand.cards
            opens = max(min(whole, slots - 1), 0) if self.spread.cards else None
            opened = place(left, tasks, size, take, demand.cards, opens)
            whole, slots = whole - opened, slots - 1 - opened

    def has_open_card(self, shape: int, node: int) -> bool:
        """Tell whether a pod of a shape fits on open cards of a node now."""
        left, demand = self.left_on(node), self.demand_of(shape)
        if left is None or demand is None or demand.cards > 1:
            return self.on_open_cards_of(shape, node, is_later=False) > 0
        return bool(left) and max(left) >= self.take_of(shape, node)[0]

    def is_on_open_later(self, shape: int) -> BoolVec:
        """``(N,)`` nodes that come first: once all is released, a pod gets open cards there.

        None does where shares are spread over nodes: scores alone choose the node.
        """
        if self.spread.nodes:
            return np.zeros(len(self.table.cards), np.bool_)
        return self.open_cards(shape, is_later=True).up_to_date() > 0

    def open_cards(self, shape: int, *, is_later: bool) -> OpenCards:
        """Return the pods of a shape that fit on open cards, kept up with the moves."""
        key = shape, is_later
        if key not in self._open_cards:
            nodes = np.arange(len(self.table.cards))
            self._open_cards[key] = OpenCards(self, shape, nodes, is_later=is_later)
        return self._open_cards[key]

    def of_new_card(self, shape: int, rows: RowVec) -> IntVec:
        """``(K,)`` shares of a shape that fit on a card of each node that is whole."""
        demand = self.demand_of(shape)
        assert demand is not None
        most: IntVec = self.table.size[rows] // self._takes(demand, rows)
        return most

    def _room(
        self,
        shape: int,
        rows: RowVec,
        whole: IntVec,
        left: tuple[Amounts, ...],
        slots: IntVec | None = None,
    ) -> IntVec:
        demand = self.demand_of(shape)
        if demand is None:
            return whole * GPU_UNIT // self._request[shape]
        take, size = self._takes(demand, rows), self.table.size[rows]
        can_share = self.table.cards[rows] > 0
        if demand.cards > 1:
            free = whole + ENOUGH if slots is None else slots
            room = [
                pods_on_several(
                    [it[at].tolist() for it in left],
                    *numbers,
                    (demand.cards, int(free[at])),
                    is_spread=self.spread.cards,
                )
                for at, numbers in enumerate(
                    zip(whole.tolist(), size.tolist(), take.tolist(), strict=True)
                )
            ]
            return np.array(room, np.int64) * can_share
        per_card = size // take
        fits: IntVec = whole * per_card
        for it in left:
            fits += (np.maximum(it, 0) // take[:, None]).sum(axis=1)
        if slots is not None and (fits + whole > slots).any():
            numbers = fits - whole * per_card, whole, per_card, slots
            fits = pods_by_slots(*numbers, is_spread=self.spread.cards)
        return fits * can_share

    def _takes(self, demand: DeviceDemand, rows: RowVec) -> IntVec:
        """``(K,)`` what a share takes of a card of each node."""
        sizes = self.table.size[rows] // CARD
        each = sizes * demand.fraction
        if demand.memory_mib:
            each = np.full(len(rows), demand.memory_mib * CARD)
        return np.maximum(each, 1)
