"""What evicting actions ask plugins about: a claim, and the units that could make room for it.

A *claim* is a pending batch that asks for room which others hold. A *unit* is what is evicted
together: the core of a gang (all of it, since what is left could not run), or one elastic pod.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kaisched.core.axis import Amounts, BoolVec, RowVec


@dataclass(frozen=True, slots=True, eq=False)
class Claim:
    """A job's next batch, and the action that would evict for it."""

    action: str
    job: int
    queue: int
    """The job's leaf queue."""
    ask: Amounts
    """``(R,)`` what the batch asks for."""
    pass_number: int = 0
    """How often victims were sought for it before: after a pass in which plugins spared some for a
    reason that is retried, they are asked again, and may be less gentle."""


class Unit(NamedTuple):
    """A unit: what of a job goes together."""

    job: int
    tasks: tuple[int, ...]
    """Task rows."""
    is_core: bool


@dataclass(frozen=True, slots=True, eq=False)
class Units:
    """Running work in the order in which it would be given up. Columns ``(V,)``."""

    job: RowVec
    queue: RowVec
    """Leaf queue of each unit."""
    amounts: Amounts
    """``(R, V)`` what its tasks hold."""
    is_core: BoolVec
    """True for the core of a gang, False for an elastic pod."""
    tasks: Sequence[tuple[int, ...]]
    """Task rows of each unit."""
    alternative: RowVec | None = None
    """Which of several sets each unit is of, ascending; every set is judged for itself. None: all
    are of one set."""

    def __len__(self) -> int:
        """Return V."""
        return len(self.job)
