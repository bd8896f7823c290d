"""What requests for memory of a GPU count in queues, on cards of different sizes (rule V2)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from kaisched.core.devices import CARD, THOUSANDTH
from kaisched.core.record import record

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kaisched.core.axis import IntVec, RowVec
    from kaisched.core.devices import DeviceDemand


@record
class MemoryCharges:
    """What shapes that ask for memory count by cards of different sizes. Columns ``(S,)``."""

    memory_mib: IntVec
    """MiB of each card; 0 for a shape that asks for no memory."""
    cards: IntVec
    """How many cards."""
    least_mib: int
    """The smallest card of the cluster."""
    most_mib: int
    """The largest one."""

    def saved(self, shape: RowVec, size: IntVec | int) -> IntVec:
        """``(K,)`` thousandths of a GPU that shapes count less than by the smallest card.

        ``size`` has the MiB of their cards. One that is unknown counts as the smallest.
        """
        memory, cards = self.memory_mib.take(shape), self.cards.take(shape)
        size = np.minimum(np.maximum(size, self.least_mib), self.most_mib)
        return (_milli(memory, self.least_mib) - _milli(memory, size)) * cards

    def like(self, shapes: RowVec) -> MemoryCharges:
        """Return the columns of these shapes."""
        columns = self.memory_mib.take(shapes), self.cards.take(shapes)
        return MemoryCharges(*columns, self.least_mib, self.most_mib)


def memory_charges(
    demands: Iterable[DeviceDemand | None], least_mib: int, most_mib: int
) -> MemoryCharges:
    """Return what shapes with these demands count."""
    of_shape = [(0, 1) if it is None else (it.memory_mib, it.cards) for it in demands]
    memory, cards = np.array(of_shape, np.int64).reshape(-1, 2).T
    return MemoryCharges(memory, cards, least_mib, most_mib)


def _milli(memory_mib: IntVec, card_mib: IntVec | int) -> IntVec:
    """``(K,)`` what :meth:`DeviceDemand.milli_gpus` says of one card, for many at once."""
    part = np.minimum(memory_mib * CARD // card_mib, CARD)
    nearest: IntVec = np.maximum((part + THOUSANDTH // 2) // THOUSANDTH, part > 0)
    return nearest
