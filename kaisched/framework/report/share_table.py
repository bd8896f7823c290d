"""The shares of all queues in one cycle, as arrays that do not refer to the session.

A queue's row is made when it is read: thousands of queues in every cycle would cost more than the
division.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, overload

from kaisched.framework.report.records import QueueShare
from kaisched.units import UNLIMITED

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kaisched.core.axis import Amounts, FloatVec
    from kaisched.core.tables import QueueTable
    from kaisched.framework.report.reason import LeftOut, Problem


@dataclass(frozen=True, slots=True, eq=False)
class ShareTable(Sequence[QueueShare]):
    """Amounts ``(R, Q)`` in base units, and what plugins say of queues."""

    resources: tuple[str, ...]
    queues: QueueTable
    fair_share: Amounts
    allocated: Amounts
    requested: Amounts
    deserved: Amounts
    problems: Mapping[int, Problem]
    figures: Mapping[str, FloatVec]
    unschedulable: Mapping[int, LeftOut]

    def __len__(self) -> int:
        """Return Q."""
        return len(self.queues)

    @overload
    def __getitem__(self, index: int) -> QueueShare: ...
    @overload
    def __getitem__(self, index: slice) -> list[QueueShare]: ...
    def __getitem__(self, index: int | slice) -> QueueShare | list[QueueShare]:
        """Return the row of one queue, or those of a part of the queues, in preorder."""
        if isinstance(index, slice):
            return [self._row(row) for row in range(len(self))[index]]
        return self._row(range(len(self))[index])

    def _row(self, row: int) -> QueueShare:
        queues = self.queues
        parent = int(queues.tree.parent_of_queue[row])
        return QueueShare(
            queues.name[row],
            queues.name[parent] if parent >= 0 else None,
            self._amounts(self.fair_share, row),
            self._amounts(self.allocated, row),
            self._amounts(self.requested, row),
            self._amounts(self.deserved, row),
            self.problems.get(row),
            {figure: float(numbers[row]) for figure, numbers in self.figures.items()},
            self.unschedulable.get(row),
        )

    def _amounts(self, amounts: Amounts, row: int) -> dict[str, int]:
        return {
            name: -1 if amount >= UNLIMITED else amount
            for name, amount in zip(self.resources, amounts[:, row].tolist(), strict=True)
        }
