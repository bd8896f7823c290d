"""The grid of virtual time.

Instants are whole *ticks* of :data:`GRID_S` seconds. What happens is rounded up to the next tick,
as if the scheduler looked at the cluster once a minute: nothing is ever early.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from kaisched.core.axis import FloatVec, IntVec

GRID_S: Final = 60
"""Seconds of one tick."""
NEVER: Final = 1 << 62
"""A tick that does not come."""


def tick_at(time_s: float) -> int:
    """Return the first tick at or after a time."""
    return -int(-time_s // GRID_S)


def ticks_at(times_s: FloatVec) -> IntVec:
    """Return the first tick at or after each time."""
    return np.ceil(times_s / GRID_S).astype(np.int64)


def run_ticks(durations_s: FloatVec) -> IntVec:
    """Return how many ticks jobs of these durations run: one at least, so that each is seen to."""
    return np.maximum(ticks_at(durations_s), 1)
