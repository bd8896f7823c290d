"""The open cards of a cycle: what fits on them, which card a task gets, and how that is undone.

Amounts count shares as parts of their node's GPUs. That bounds what fits from above, since parts of
two cards are no whole card; the cards decide. Promises are kept apart: a promise takes what leaves
an open card, or a card that will be whole then and has no slot yet (``next``).

A card that is opened gets a reservation pod, which has a pod slot too: so a pod that opens cards
needs a slot for itself and one for each of them.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import replace
from itertools import count
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from kaisched.core.axis import GPU, GPU_UNIT, HOLDING_STATES, PODS, TaskState
from kaisched.core.devices import (
    CARD,
    PromisedCards,
    ShareSpread,
    card_order,
    place,
    pods_left,
    pods_on_several,
    promised_order,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from kaisched.core.axis import Amounts, BoolVec, FloatVec, IntVec, RowVec
    from kaisched.core.constraints import Constraints
    from kaisched.core.devices import CardTable, DeviceDemand, PromisedCards
    from kaisched.core.snapshot import Snapshot

    Scores = Callable[[RowVec, IntVec], FloatVec]
    Opened = tuple[int, int] | None
    Slots = tuple[int, ...]

ENOUGH: Final = 1 << 40
"""More slots for pods than any node has."""
_MORE_THAN_PODS: Final = 1 << 16
"""More than the pods of any card, so that a card's order is one number: what is left, then pods."""
ON_OPEN_CARD: Final = 10_000.0
"""What an open card with room adds to the score of a node: more than all that packs nodes."""
_RELEASING: Final = int(TaskState.RELEASING)
_PIPELINED: Final = int(TaskState.PIPELINED)
_HOLDS: Final = HOLDING_STATES.tolist()
PACKED: Final = ShareSpread()


def pods_by_slots(
    on_open: IntVec, whole: IntVec, per_card: IntVec, slots: IntVec, *, is_spread: bool
) -> IntVec:
    """``(K,)`` pods with a share of one card that fit, placed one by one into the free slots.

    ``on_open`` fit on open cards and ``per_card`` on each of ``whole`` cards that can be opened.
    Packed, open cards come first; spread, cards are opened as long as there is a slot for both.
    """
    slots = np.maximum(slots, 0)
    if is_spread:
        opened = np.where(per_card > 0, np.minimum(whole, slots // 2), 0)
        rest = np.minimum(slots - 2 * opened, on_open + opened * (per_card - 1))
        pods: IntVec = opened + rest
        return pods
    fits: IntVec = np.minimum(on_open, slots)
    slots = slots - fits
    full = np.minimum(whole, slots // (per_card + 1))
    fits += full * per_card
    fits += np.maximum(slots - full * (per_card + 1) - 1, 0) * (full < whole)
    return fits


class CardsAhead:
    """The cards of some nodes, on which equal shares are put one by one as rule V8 says."""

    def __init__(
        self,
        size: IntVec,
        columns: tuple[Amounts, Amounts, Amounts, BoolVec],
        counts: tuple[IntVec, IntVec, IntVec],
        *,
        is_spread: bool,
    ) -> None:
        """Begin with the cards as they are.

        Args:
            size: ``(K,)`` what a card has.
            columns: ``(K, G)`` what each open card has left now and once all is released, -1 for a
                closed one; how many pods hold a part of it; and whether none but its reservation
                pod does.
            counts: ``(K,)`` GPUs that can be opened now, whole ones once all is released, and
                slots for pods that are free now.
            is_spread: whether a share opens a card if it can.

        """
        self._size = size
        self._now, self.left, self._tasks, self._is_unused = columns
        self._can_open, self.whole, self._slots = (it.copy() for it in counts)
        self._is_spread = is_spread

    def put(self, take: IntVec, cards: int, active: BoolVec) -> None:
        """Put a pod with a share ``take`` ``(K,)`` of several cards on each active node."""
        empty = np.zeros((len(take), cards), np.int64)
        self._now, self.left = (np.hstack((it, empty - 1)) for it in (self._now, self.left))
        self._tasks = np.hstack((self._tasks, empty))
        self._is_unused = np.hstack((self._is_unused, empty > 0))
        rows = active.nonzero()[0]
        taken = np.zeros((rows.size, self._now.shape[1]), np.bool_)
        self._slots[rows] -= 1
        opens = np.full(rows.size, cards if self._is_spread else 0)
        opens = np.clip(np.minimum(self._can_open[rows], self._slots[rows]), 0, opens)
        for number in range(cards):
            at, is_new = self._choose(rows, take[rows], taken, number >= cards - opens)
            taken[np.arange(rows.size), at] = True
            self._take(rows, at, take[rows], is_new)

    def _choose(
        self, rows: RowVec, take: IntVec, taken: BoolVec, must_open: BoolVec
    ) -> tuple[RowVec, BoolVec]:
        """Return a slot of each node, and whether its card is opened."""
        now, tasks = self._now[rows], self._tasks[rows]
        order = (-now if self._is_spread else now) * _MORE_THAN_PODS + tasks
        fits = (now >= take[:, None]) & ~taken & ~must_open[:, None]
        order = np.where(fits, order, np.iinfo(np.int64).max)
        closed = ((tasks == 0) & ~taken).argmax(axis=1)
        is_new: BoolVec = np.count_nonzero(fits, axis=1) == 0
        return np.where(is_new, closed, order.argmin(axis=1)), is_new

    def _take(self, rows: RowVec, at: RowVec, take: IntVec, is_new: BoolVec) -> None:
        for left in (self._now, self.left):
            left[rows, at] = np.where(is_new, self._size[rows], left[rows, at]) - take
        self._tasks[rows, at] += 1
        self._can_open[rows] -= is_new
        self._slots[rows] -= is_new  # that of its reservation pod
        # A card that only its reservation pod holds counts as whole once all is released.
        self.whole[rows] -= is_new | self._is_unused[rows, at]
        self._is_unused[rows, at] = False


class Given(NamedTuple):
    """The cards of tasks: slots where they are placed, and what they were promised."""

    chosen: Mapping[int, tuple[int, ...]] = MappingProxyType({})
    promised: Mapping[int, PromisedCards] = MappingProxyType({})


def as_promises(
    placed: Iterable[tuple[int, int]], given: Given, tasks: Amounts, next_tasks: Amounts
) -> Given:
    """Return promises of the cards on which tasks were placed, once their moves are undone.

    Args:
        placed: (task, node) in the order of the moves.
        given: their cards.
        tasks: ``(N, G)`` how many pods hold a part of each card now; 0 for a closed slot.
        next_tasks: ``(N, G)`` how many were promised each card that will be whole.

    """
    promised, placed = dict(given.promised), list(placed)
    taken = {
        (node, number)
        for task, node in placed
        if task in promised
        for number in promised[task].later
    }
    numbers: dict[tuple[int, int], int] = {}
    for task, node in placed:
        before = promised.get(task, PromisedCards(given.chosen.get(task, ())))
        if not (before.opened or before.later):
            continue
        row, next_row = tasks[node], next_tasks[node]
        opened = tuple(slot for slot in before.opened if slot < len(row) and row[slot])
        later = list(before.later)
        for slot in before.opened:
            if slot in opened:
                continue
            if (node, slot) not in numbers:  # it was opened by one of the moves
                free = (it for it in count() if it >= len(next_row) or not next_row[it])
                numbers[node, slot] = next(it for it in free if (node, it) not in taken)
                taken.add((node, numbers[node, slot]))
            later.append(numbers[node, slot])
        promised[task] = PromisedCards(opened, tuple(later))
    return Given({}, promised)


class OpenCards:
    """Pods of one shape with a share that fit on open cards of each node, now or later."""

    __slots__ = ("_cards", "_is_later", "_room", "_seen", "_shape")

    def __init__(self, cards: Cards, shape: int, nodes: RowVec, *, is_later: bool) -> None:
        """Look at all nodes."""
        self._cards, self._shape, self._is_later = cards, shape, is_later
        self._room = cards.on_open_cards(shape, nodes, is_later=is_later)
        self._seen = len(cards.moved)

    def up_to_date(self) -> IntVec:
        """``(N,)`` pods of the shape that fit on open cards, as of now."""
        moved = self._cards.moved
        if len(moved) > self._seen:
            rows = sorted(set(moved[self._seen :]))
            self._seen = len(moved)
            for row in rows:
                self._room[row] = self._cards.on_open_cards_of(
                    self._shape, row, is_later=self._is_later
                )
        return self._room

    def bonus(self, opens: Callable[[int], tuple[int, int]]) -> Scores:
        """Return the bonus of nodes where a pod of the shape gets an open card.

        It is asked with so many more pods of the shape on each node, which get cards one by one,
        and only until the next move. ``opens`` answers how many cards of a node can be opened, and
        how many pod slots it has free.
        """
        opened = self.up_to_date()
        answers: dict[int, list[bool]] = {}
        coming: dict[int, Iterator[bool]] = {}

        def fits(row: int, extra: int) -> bool:
            if row not in coming:
                answers[row] = []
                coming[row] = self._cards.next_fit(self._shape, row, *opens(row))
            known = answers[row]
            while len(known) <= extra:
                known.append(next(coming[row]))
            return known[extra]

        def bonus(rows: RowVec, extra: IntVec) -> FloatVec:
            has = opened[rows] > 0
            for at in extra.nonzero()[0].tolist():
                has[at] = fits(int(rows[at]), int(extra[at]))
            return np.where(has, ON_OPEN_CARD, 0.0)

        return bonus


class Cards:
    """The cards as of now. Every change has an inverse, and nothing is a flag."""

    def __init__(
        self,
        table: CardTable,
        constraints: Sequence[Constraints],
        request: Amounts,
        amounts: tuple[Amounts, Amounts] | None = None,
        spread: ShareSpread = PACKED,
    ) -> None:
        """Begin with the cards of the snapshot.

        Args:
            table: the cards.
            constraints: by shape.
            request: ``(R, S)`` what a pod of each shape asks for.
            amounts: ``(R, N)`` what is idle and what is being released, of GPUs parts of cards
                included. They are kept up with the moves by whoever gives them, and only read
                here. None is enough where nobody asks what is whole.
            spread: whether shares are spread over nodes, and over cards of a node.

        """
        self.table = table
        nothing = np.zeros((len(request), len(table.cards)), np.int64)
        self._free = amounts or (nothing, nothing)
        self._constraints = constraints
        self._request: list[int] = request[GPU].tolist()
        self._has_blind = bool(table.is_blind.any())
        self._demands: dict[int, DeviceDemand | None] = {}
        """What :meth:`demand_of` has answered."""
        self._used, self._leaving, self._tasks = (
            column.copy() for column in (table.used, table.leaving, table.tasks)
        )
        self._is_closed = table.is_closed
        self._is_reserved: BoolVec = table.is_reserved | (table.tasks == 0)
        """``(N, G)`` a card that is opened will be held by a reservation pod."""
        self._next_used = np.zeros_like(self._used)
        self._next_tasks = np.zeros_like(self._used)
        self._milli, self._milli_leaving = table.milli.copy(), table.milli_leaving.copy()
        self._open: IntVec = np.count_nonzero(self._tasks, axis=1)
        """``(N,)`` how many cards are open."""
        self._leaves = bool(table.leaving.any() or table.milli_leaving.any())
        """False as long as nothing has left or was promised: then nothing of it is looked at."""
        self.moved: list[int] = []
        """The node of each move, in order: what is kept by node is asked for again there."""
        self.in_motion = set(
            (table.leaving.any(axis=1) | (table.milli_leaving != 0)).nonzero()[0].tolist()
        )
        """The nodes on whose cards something has left or was promised in this cycle."""
        self._left: dict[int, list[int]] = {}
        """What :meth:`left_on` has answered, kept up with the moves."""
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

    def counts_for(self, shape: int) -> bool:
        """Tell whether cards bound the room of a shape: it asks for GPUs, whole or in part."""
        return self._request[shape] > 0

    def demand_of(self, shape: int) -> DeviceDemand | None:
        """Return what a shape asks of cards; None for a shape without a share."""
        if shape in self._demands:
            return self._demands[shape]
        demand = self._constraints[shape].devices
        if demand is not None and not demand.has_cards:
            demand = None
        self._demands[shape] = demand
        return demand

    def frozen(self) -> CardTable:
        """Return the cards as they are now, as a table without what was decided meanwhile."""
        wide = (0, 0), (0, self._used.shape[1] - self.table.used.shape[1])
        return replace(
            self.table,
            used=self._used,
            leaving=self._leaving,
            tasks=self._tasks,
            milli=self._milli,
            milli_leaving=self._milli_leaving,
            is_closed=self._is_closed,
            is_reserved=np.pad(self.table.is_reserved, wide),
        )

    # -- moves ---------------------------------------------------------------------------------

    def _hold(self, node: int, shape: int, slots: Iterable[int], sign: int) -> int:
        """Count what a pod takes of its cards, and return how many more are open."""
        demand = self.demand_of(shape)
        assert demand is not None
        size = int(self.table.size[node])
        take = demand.take(size // CARD) * sign
        self._milli[node] += self._request[shape] * sign
        self.moved.append(node)
        opened = 0
        for slot in slots:
            if slot >= self._used.shape[1]:
                self._widen(slot)
            used = int(self._used[node, slot]) + take
            before = int(self._tasks[node, slot])
            after = before + sign
            self._used[node, slot], self._tasks[node, slot] = used, after
            if not (before and after):
                self._open[node] += sign
                opened += sign
            if (left := self._left.get(node)) is not None:
                is_open = after and not self._is_closed[node, slot]
                left[slot] = size - used if is_open else -1
        return opened

    def _release(self, node: int, shape: int, slots: Iterable[int], sign: int) -> None:
        demand = self.demand_of(shape)
        assert demand is not None
        take = demand.take(self._mib(node)) * sign
        self._milli_leaving[node] += self._request[shape] * sign
        self._move_later(node)
        for slot in slots:
            self._leaving[node, slot] += take

    def _promise(self, promised: PromisedCards, node: int, shape: int, sign: int) -> None:
        demand = self.demand_of(shape)
        assert demand is not None
        take = demand.take(self._mib(node)) * sign
        self._milli_leaving[node] -= self._request[shape] * sign
        self._move_later(node)
        for slot in promised.opened:
            self._leaving[node, slot] -= take
        for slot in promised.later:
            self._widen(slot)
            self._next_used[node, slot] += take
            self._next_tasks[node, slot] += sign

    def _move_later(self, node: int) -> None:
        """Note that what a node has now and what it will have are no longer the same."""
        self._leaves = True
        self.in_motion.add(node)
        self._left.pop(node, None)
        self.moved.append(node)

    def _mib(self, node: int) -> int:
        return int(self.table.size[node]) // CARD

    def _widen(self, slot: int) -> None:
        more = slot + 1 - self._used.shape[1]
        if more > 0:
            pad = ((0, 0), (0, more))
            self._used, self._leaving, self._tasks = (
                np.pad(it, pad) for it in (self._used, self._leaving, self._tasks)
            )
            self._next_used = np.pad(self._next_used, pad)
            self._next_tasks = np.pad(self._next_tasks, pad)
            self._is_closed = np.pad(self._is_closed, pad)
            self._is_reserved = np.pad(self._is_reserved, pad, constant_values=True)
            self._left.clear()

    # -- what is left ----------------------------------------------------------------------------

    def _is_emptying(self, rows: RowVec) -> BoolVec:
        """``(K, G)`` cards on which everything leaves: whole GPUs to be, closed to shares."""
        used: BoolVec = (self._used[rows] == self._leaving[rows]) & (self._leaving[rows] > 0)
        return used

    def slots_now(self, rows: RowVec) -> IntVec:
        """``(K,)`` slots for pods that are free now, and not promised."""
        idle, releasing = (it[PODS].take(rows) for it in self._free)
        free: IntVec = idle + np.minimum(releasing, 0)
        return free

    def slots_later(self, rows: RowVec) -> IntVec:
        """``(K,)`` slots for pods that are free once everything is released."""
        idle, releasing = (it[PODS].take(rows) for it in self._free)
        free: IntVec = idle + releasing
        return free

    def slots_to_take(self, node: int) -> int:
        """Return the slots that reservation pods of a node will take, less those they leave."""
        if node not in self.in_motion:
            return 0
        taken = np.count_nonzero(self._next_tasks[node])
        return int(taken - np.count_nonzero(self._leave_slots(node)))

    def slots_kept(self, task: int, node: int) -> int:
        """Return how many reservation pods would not leave if a released task stayed."""
        return int(self._leave_slots(node)[list(self.table.slots_of_task[task])].sum())

    def _leave_slots(self, node: int) -> BoolVec:
        """``(G,)`` cards that everything leaves, and so do their reservation pods."""
        leaving = self._leaving[node]
        leave: BoolVec = (self._used[node] == leaving) & (leaving > 0) & self._is_reserved[node]
        return leave

    def _is_unused(self, rows: RowVec) -> BoolVec:
        """``(K, G)`` cards that only reservation pods hold: those go if no share comes."""
        unused: BoolVec = (self._tasks[rows] > 0) & (self._used[rows] == 0)
        return unused & (self._leaving[rows] == 0) if self._leaves else unused

    def _is_spoken_for(self, rows: RowVec) -> BoolVec:
        """``(K, G)`` unused cards that whole pods were promised, closed to shares.

        So many are as whole pods were promised beyond all other GPUs that will be whole. Which
        ones does not matter to those pods: the last slots, since shares take the first.
        """
        unused = self._is_unused(rows)
        if not unused.any():
            return unused
        rank = np.cumsum(unused[:, ::-1], axis=1)[:, ::-1]
        return unused & (rank <= -self._gained(rows)[:, None])

    def _takes_none(self, rows: RowVec) -> BoolVec:
        """``(K, G)`` slots that take no share: no card, or one that is closed to shares."""
        closed: BoolVec = self._is_closed[rows] | (self._tasks[rows] == 0)
        if self._leaves:
            closed |= self._is_emptying(rows) | self._is_spoken_for(rows)
        return closed

    def left_on(self, node: int) -> list[int] | None:
        """Return what :meth:`left_now` does for one node; None where something is in motion."""
        left = self._left.get(node)
        if left is None and node not in self.in_motion:
            left = self._left[node] = self.left_now(np.array([node]))[0].tolist()
        return left

    def left_now(self, rows: RowVec) -> Amounts:
        """``(K, G)`` what open cards have left now and unpromised; -1 for closed ones."""
        left: Amounts = self.table.size[rows, None] - self._used[rows]
        if self._leaves:
            left += np.minimum(self._leaving[rows], 0)
        left[self._takes_none(rows)] = -1
        return left

    def _left_later(self, rows: RowVec) -> Amounts:
        """``(K, G)`` what open cards have left once everything is released; -1 for closed ones."""
        if not self._leaves:
            return self.left_now(rows)
        left = self.table.size[rows, None] - self._used[rows] + self._leaving[rows]
        closed = self._takes_none(rows)
        return np.where(closed, -1, left)

    def _left_next(self, rows: RowVec) -> Amounts:
        """``(K, G)`` what promised cards that will be whole have left; -1 for the others."""
        left = self.table.size[rows, None] - self._next_used[rows]
        return np.where(self._next_tasks[rows] == 0, -1, left)

    def _gained(self, rows: RowVec) -> IntVec:
        """``(K,)`` GPUs that will be whole, unused cards left out, less those that are promised."""
        releasing = self._free[1][GPU].take(rows)
        gained: IntVec = (releasing - self._milli_leaving[rows]) // GPU_UNIT
        if self._leaves:
            gained += np.count_nonzero(self._is_emptying(rows), axis=1)
            gained -= np.count_nonzero(self._next_tasks[rows], axis=1)
        return gained

    def whole(self, rows: RowVec, extra: IntVec | int = 0) -> tuple[IntVec, IntVec]:
        """``(K,)`` whole GPUs that are idle now and not promised, and once all is released.

        ``extra`` ``(K,)`` is an amount of GPUs that counts as held besides.
        """
        idle = self._free[0][GPU].take(rows) - extra
        now = (idle + self._milli[rows]) // GPU_UNIT - self._open[rows]
        gained = self._gained(rows) + np.count_nonzero(self._is_unused(rows), axis=1)
        is_sure = ~self.table.is_blind[rows]
        return (now + np.minimum(gained, 0)) * is_sure, (now + gained) * is_sure

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
        """Return promises of the cards that tasks had on nodes, see :func:`as_promises`."""
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

    def choices(self, rows: RowVec, *, is_later: bool) -> list[tuple[Slots, Slots]]:
        """Return what open cards of nodes have left, -1 for closed ones, and slots to open.

        Once all is released, slots beyond those of open cards are numbers of promised cards.
        """
        count = self.whole_for_shares(rows)[int(is_later)]
        left = self.left_now(rows)
        tasks = self._tasks[rows]
        if is_later:
            left = np.hstack((self._left_later(rows), self._left_next(rows)))
            tasks = np.hstack((np.ones_like(tasks), self._next_tasks[rows]))
        found = []
        for number, has, held in zip(count.tolist(), left.tolist(), tasks.tolist(), strict=True):
            closed = [slot for slot, pods in enumerate(held) if not pods]
            closed += range(len(held), len(held) + max(number, 0))
            found.append((tuple(has), tuple(closed[: max(number, 0)])))
        return found

    def as_chosen(self, task: int, slots: Slots, *, is_later: bool) -> Given:
        """Return slots of :meth:`choices` as cards to give to a task."""
        if not is_later:
            return Given({task: slots})
        width = self._used.shape[1]
        opened = tuple(slot for slot in slots if slot < width)
        later = tuple(slot - width for slot in slots if slot >= width)
        return Given({}, {task: PromisedCards(opened, later)})

    def take_on(self, shape: int, rows: RowVec) -> tuple[int, IntVec]:
        """Return how many cards of a node a shape has a share of, and what it takes of each."""
        demand = self.demand_of(shape)
        if demand is None:
            return 0, np.zeros(len(rows), np.int64)
        return demand.cards, self._takes(demand, rows)

    # -- room ------------------------------------------------------------------------------------

    def most(self, shape: int) -> int:
        """Return a bound on pods of a shape with shares of several cards, chosen in any order."""
        rows = np.arange(len(self.table.cards))
        cards, take = self.take_on(shape, rows)
        whole = np.maximum(self.whole_for_shares(rows)[1], 0)
        fits = whole * (self.table.size // take)
        for left in (self._left_later(rows), self._left_next(rows)):
            fits += (np.maximum(left, 0) // take[:, None]).sum(axis=1)
        return int((fits // cards)[self.table.cards > 0].sum())

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


def table_of(snapshot: Snapshot, slots: Mapping[int, tuple[int, ...]]) -> CardTable | None:
    """Return the cards of a snapshot's nodes if tasks hold these slots; None if no pod shares."""
    table, tasks = snapshot.nodes.cards, snapshot.tasks
    if table is None:
        return None
    names = ("used", "leaving", "tasks", "milli", "milli_leaving")
    empty: dict[str, Any] = {name: np.zeros_like(getattr(table, name)) for name in names}
    cards = Cards(
        replace(table, slots_of_task=slots, **empty),
        snapshot.shapes.constraints,
        snapshot.shapes.request,
    )
    for task in slots:
        node, shape = int(tasks.node_of_task[task]), int(tasks.shape_of_task[task])
        cards.take(task, node, shape, int(tasks.state[task]))
    return cards.frozen()
