"""Claims, the units that could make room for them, and sets of nodes, as plugins are asked.

A *claim* is a pending batch that asks for room which other jobs hold. A *unit* is a set of pods
that is evicted together: the core of a gang, which cannot run in part, or one elastic pod.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kaisched.core.axis import Amounts, BoolVec, RowVec


@dataclass(frozen=True, eq=False)
class NodeSet:
    """Nodes on which all pods of a job may be placed together."""

    label: str
    """The name of the set in records and reasons, such as ``flavor a100``."""
    nodes: BoolVec
    """``(N,)``."""
    parts: tuple[NodeSet, ...] = ()
    """The sets of several plugins whose common nodes these are; empty for the set of one plugin."""

    @cached_property
    def key(self) -> tuple[str, bytes]:
        """The label and the nodes, to be compared."""
        return self.label, self.nodes.tobytes()

    def meet(self, other: NodeSet) -> NodeSet:
        """Return the nodes that are in both sets."""
        parts = (self.parts or (self,)) + (other.parts or (other,))
        return NodeSet(f"{self.label}, {other.label}", self.nodes & other.nodes, parts)


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
    """The number of earlier passes of the search: after a pass in which plugins refused victims for
    a reason that is retried, they are asked again and may allow more."""
    within: NodeSet | None = None
    """The set of nodes on which the batch is to be placed; None for all nodes."""


class Unit(NamedTuple):
    """A unit: what of a job goes together."""

    job: int
    tasks: tuple[int, ...]
    """Task rows."""
    is_core: bool


@dataclass(frozen=True, slots=True, eq=False)
class Units:
    """Running units in the order in which they would be evicted. Columns ``(V,)``."""

    job: RowVec
    queue: RowVec
    """Leaf queue of each unit."""
    amounts: Amounts
    """``(R, V)`` what each unit's tasks hold."""
    is_core: BoolVec
    """True for the core of a gang, False for an elastic pod."""
    tasks: Sequence[tuple[int, ...]]
    """Task rows of each unit."""
    alternative: RowVec | None = None
    """The number of the set of each unit, ascending; every set is judged on its own. None: all
    units are in one set."""

    def __len__(self) -> int:
        """Return V."""
        return len(self.job)
