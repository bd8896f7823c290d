"""Disruption budgets as a cycle sees them: how many pods of each may still be evicted."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    from kaisched.core.axis import IntVec, RowVec

UNPROTECTED: Final = -1
SEVERAL: Final = -2
"""More than one budget selects the pod: the API refuses to evict it."""


@dataclass(frozen=True, slots=True, eq=False)
class DisruptionBudgets:
    """PodDisruptionBudgets, ``namespace/name``. Columns ``(B,)``; no rows where there are none."""

    name: tuple[str, ...]
    allowed: IntVec
    """How many pods may be evicted, less sent evictions that the budget does not show yet."""
    of_task: RowVec
    """``(T,)`` the budget that an eviction counts against; UNPROTECTED for none, SEVERAL for too
    many. ``(0,)`` without budgets."""

    def __len__(self) -> int:
        """Return B."""
        return len(self.name)


def _frozen(column: IntVec) -> IntVec:
    column.setflags(write=False)
    return column


NO_DISRUPTION_BUDGETS: Final = DisruptionBudgets(
    (), _frozen(np.empty(0, np.int64)), _frozen(np.empty(0, np.int64))
)
