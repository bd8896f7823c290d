"""The grid of virtual time.

Instants are whole *ticks*, of :data:`GRID_S` seconds unless a scenario says otherwise. Times are
rounded up to the next tick, as if the scheduler looked at the cluster once in a tick. So no event
is ever early.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from kaisched.core.axis import FloatVec, IntVec

GRID_S: Final = 60
"""Default seconds of a tick."""
NEVER: Final = 1 << 62
"""Tick that never comes."""
FOREVER: Final = 1 << 48
"""Ticks of a job that never ends. With a tick added it is still before NEVER."""


def tick_at(time_s: float, step_s: float = GRID_S) -> int:
    """Return the first tick at or after a time."""
    return -int(-time_s // step_s)


def ticks_at(times_s: FloatVec, step_s: float = GRID_S) -> IntVec:
    """Return the first tick at or after each time."""
    return np.ceil(times_s / step_s).astype(np.int64)


def run_ticks(durations_s: FloatVec, step_s: float = GRID_S) -> IntVec:
    """Return the ticks that jobs of these durations run: at least one, so that cycles see it."""
    return np.maximum(ticks_at(durations_s, step_s), 1)
