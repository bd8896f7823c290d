"""The states of a task (pod), and the sets of states that the accounting uses.

The names and sets are KAI's (reference: its scheduling cycle); a finished or vanished task is
``GONE``.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final

import numpy as np

from kaisched.core.axis import BoolVec


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
