"""The cards of nodes as they will be with more pods of a shape: columns in, columns out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    from kaisched.core.axis import Amounts, BoolVec, IntVec, RowVec

_MORE_THAN_PODS: Final = 1 << 16
"""More than the pods of any card, so that a card's order is one number: what is left, then pods."""


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
