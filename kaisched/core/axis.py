"""The vocabulary of all columns: the axis of resources, the states of tasks, and records.

Every amount in the project is a column of an int64 array whose first axis is that of resources. The
first four are always there, at fixed positions; extended resources follow, sorted by name. The
names and sets of states are KAI-Scheduler's (reference: its scheduling cycle); a finished or
vanished task is ``GONE``.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from enum import IntEnum
from functools import cached_property
from typing import Final, TypeAlias, TypeVar, dataclass_transform

import numpy as np
from numpy.typing import NDArray

from kaisched.units import CLAIMED_GPU, MIG_SLICES_OF_GPU, mig_slices

# -- resources -------------------------------------------------------------------------------------

Amounts: TypeAlias = NDArray[np.int64]
"""Amounts in base units, shape ``(R, N)``, ``(R, Q)``, ``(R, K)`` or ``(R,)``."""
IntVec: TypeAlias = NDArray[np.int64]
RowVec: TypeAlias = NDArray[np.int64]
"""Row numbers of one table (int64, because it is what numpy indexes with at no conversion)."""
CodeVec: TypeAlias = NDArray[np.int16]
FloatVec: TypeAlias = NDArray[np.float64]
BoolVec: TypeAlias = NDArray[np.bool_]

CPU: Final = 0
"""Milli-CPU."""
MEMORY: Final = 1
"""Units of 64 bytes."""
GPU: Final = 2
"""Milli-GPU: whole GPUs of every vendor's resource name, times 1000."""
PODS: Final = 3
"""Pod slots of a node."""

FIXED: Final = ("cpu", "memory", "gpu", "pods")
GPU_UNIT: Final = 1000
"""One whole GPU in base units: the grain in which surplus GPUs are shared (rule R6)."""


@dataclass(frozen=True)
class ResourceAxis:
    """The ordered resource names of one snapshot.

    ``names`` starts with :data:`FIXED`; what follows are extended resources counted in pieces.
    """

    names: tuple[str, ...] = field(default=FIXED)
    mig_slices_of_gpu: int = MIG_SLICES_OF_GPU
    """MIG slices that count as one GPU in the amounts of queues; KAI-Scheduler counts 1."""
    bridged: str = ""
    """The resource that some nodes offer by a device plugin and others by claims; GPUs by claim
    count in it. Empty where no resource is offered both ways."""

    @classmethod
    def of(
        cls, extended: Iterable[str] = (), mig_slices_of_gpu: int = MIG_SLICES_OF_GPU
    ) -> ResourceAxis:
        """Make the axis that also counts ``extended`` resource names."""
        return cls(FIXED + tuple(sorted(set(extended) - set(FIXED))), mig_slices_of_gpu)

    def wider(self, names: Iterable[str]) -> ResourceAxis:
        """Return the axis that also counts these resources."""
        return replace(self, names=ResourceAxis.of((*self.names, *names)).names)

    def bridging(self, resource: str) -> ResourceAxis:
        """Return the axis with another bridged resource; itself if it is the same."""
        if resource == self.bridged:
            return self
        return replace(self.wider([resource] if resource else []), bridged=resource)

    def __len__(self) -> int:
        """Return R, the number of resources."""
        return len(self.names)

    @cached_property
    def position(self) -> dict[str, int]:
        """Name to row number."""
        return {name: row for row, name in enumerate(self.names)}

    @cached_property
    def unit(self) -> IntVec:
        """``(R,)`` the grain of the division: a whole GPU, and one base unit of all else."""
        unit = np.ones(len(self.names), np.int64)
        unit[GPU] = GPU_UNIT
        unit.setflags(write=False)
        return unit

    @cached_property
    def gpu_part(self) -> IntVec | None:
        """``(R,)`` thousandths of a GPU that a base unit of each resource is; None if all are 0.

        Rounded down: the instances of one GPU never count as more than the GPU. GPUs by claim are
        counted in thousandths, as devices may be shared.
        """
        part = np.array(
            [GPU_UNIT * mig_slices(name) // self.mig_slices_of_gpu for name in self.names], np.int64
        )
        if self.bridged:
            if self.position.get(self.bridged, GPU) != GPU:
                part[self.position[self.bridged]] = GPU_UNIT
        elif CLAIMED_GPU in self.position:
            part[self.position[CLAIMED_GPU]] = 1
        if not part.any():
            return None
        part.setflags(write=False)
        return part

    def whole_gpus(self, amounts: Amounts) -> IntVec:
        """Return thousandths of GPUs in amounts ``(R, ...)``: of device plugins, and by claim."""
        by_claim = self.position.get(CLAIMED_GPU)
        found: IntVec = amounts[GPU]
        is_counted = by_claim is None or self.bridged == self.names[GPU]
        return found if is_counted else found + amounts[by_claim]

    def charged(self, amounts: Amounts) -> Amounts:
        """Return amounts ``(R, ...)`` as queues count them: MIG instances also as parts of GPUs.

        GPUs by claim count as GPUs, or among the pieces of the bridged resource and nowhere else.
        The result is the argument itself where nothing of this is there.
        """
        part = self.gpu_part
        claimed = self.position.get(CLAIMED_GPU, -1) if self.bridged else -1
        more = None if part is None else part @ amounts
        has_more = more is not None and more.any()
        if not has_more and (claimed < 0 or not amounts[claimed].any()):
            return amounts
        counted = amounts.copy()
        if more is not None:
            counted[GPU] += more
        if claimed >= 0:
            counted[claimed] = 0
        return counted

    def vector(self, amounts: dict[str, int]) -> Amounts:
        """Return ``(R,)`` from base units by name; names the axis lacks are an error."""
        column = np.zeros(len(self.names), np.int64)
        for name, amount in amounts.items():
            column[self.position[name]] = amount
        return column


# -- states of tasks -------------------------------------------------------------------------------


class TaskState(IntEnum):
    """The state of a task in a cycle (int8 in the tables)."""

    PENDING = 0
    GATED = 1
    """Has scheduling gates: is never placed, does not count as ready."""
    ALLOCATED = 2
    """Placed in this cycle, on idle room."""
    PIPELINED = 3
    """Placed in this cycle, on room that is being released."""
    BINDING = 4
    """Bind sent, not confirmed."""
    BOUND = 5
    RUNNING = 6
    RELEASING = 7
    """Being deleted; still holds its room."""
    GONE = 8
    """Succeeded, failed or deleted: holds nothing, counts nowhere."""
    STUCK = 9
    """Being deleted for too long: still holds its room, for which no job waits any more."""


def _set(*states: TaskState) -> BoolVec:
    mask = np.zeros(len(TaskState), np.bool_)
    mask[[int(state) for state in states]] = True
    mask.setflags(write=False)
    return mask


# -- records ---------------------------------------------------------------------------------------

ALLOCATED_STATES: Final = _set(
    TaskState.ALLOCATED, TaskState.BINDING, TaskState.BOUND, TaskState.RUNNING
)
"""Counts in a queue's allocation. Index it with a state column to get a mask."""
ACTIVE_STATES: Final = _set(
    TaskState.ALLOCATED, TaskState.PIPELINED, TaskState.BINDING, TaskState.BOUND, TaskState.RUNNING
)
"""Counts towards a gang's minimum."""
HOLDING_STATES: Final = _set(
    TaskState.ALLOCATED,
    TaskState.BINDING,
    TaskState.BOUND,
    TaskState.RUNNING,
    TaskState.RELEASING,
    TaskState.STUCK,
)
"""Takes from a node's idle room."""


T = TypeVar("T")


@dataclass_transform(frozen_default=True, eq_default=False, field_specifiers=(field,))
def record(cls: type[T]) -> type[T]:
    """Make a dataclass with slots and identity equality, frozen for the type checker only."""
    return dataclass(slots=True, eq=False)(cls)
