"""The columns of the cards in a cycle: what pods hold of them, what leaves, and what is left.

:class:`~kaisched.framework.session.cards.Cards` decides by them. Every change has an inverse.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from kaisched.core.axis import GPU, GPU_UNIT, PODS
from kaisched.core.devices import CARD

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from kaisched.core.axis import Amounts, BoolVec, IntVec, RowVec
    from kaisched.core.constraints import Constraints
    from kaisched.core.devices import CardTable, DeviceDemand, PromisedCards


class CardColumns:
    """What is held of each card as of now."""

    def __init__(
        self,
        table: CardTable,
        constraints: Sequence[Constraints],
        request: Amounts,
        amounts: tuple[Amounts, Amounts] | None = None,
    ) -> None:
        """Begin with the cards of the snapshot.

        Args:
            table: the cards.
            constraints: by shape.
            request: ``(R, S)`` what a pod of each shape asks for.
            amounts: ``(R, N)`` what is idle and what is being released, of GPUs parts of cards
                included. They are kept up with the moves by whoever gives them, and only read
                here. None is enough where nobody asks what is whole.

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

    def counts_for(self, shape: int) -> bool:
        """Tell whether cards bound the room of a shape: it asks for GPUs, whole or in part."""
        return self._request[shape] > 0

    def are_shared(self, rows: RowVec) -> bool:
        """Tell whether pods share a card of some of these nodes."""
        return bool(self._open[rows].any())

    def fewest_sharers(self, rows: RowVec) -> IntVec:
        """``(K,)`` pods on that shared card of each node which has the fewest; 1 without any."""
        tasks = self._tasks[rows]
        most = np.iinfo(tasks.dtype).max
        fewest: IntVec = np.where(tasks > 0, tasks, most).min(axis=1, initial=most)
        return np.where(self._open[rows] > 0, fewest, 1)

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
