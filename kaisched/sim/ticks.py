"""Virtual time: instants are whole ticks, of :data:`GRID_S` seconds unless a scenario says so.

Times are rounded up to the next tick, as if the scheduler looked at the cluster once in a tick. So
no event is ever early.
"""

from __future__ import annotations

from dataclasses import dataclass
from heapq import heappop, heappush
from typing import Final

import numpy as np

from kaisched.core.axis import FloatVec, IntVec

GRID_S: Final = 60
"""Default seconds of a tick."""
NEVER: Final = 1 << 62
"""Tick that never comes."""
FOREVER: Final = 1 << 48
"""Ticks of a job that never ends. With a tick added it is still before NEVER."""


SAMPLE_TICKS: Final = 30
"""Time between two samples of fair shares."""
CHECKPOINT_TICKS: Final = 60
"""Default work of a job between two checkpoints."""
STOP_TICKS: Final = 1
"""Time for which an evicted job holds its room."""


def tick_at(time_s: float, step_s: float = GRID_S) -> int:
    """Return the first tick at or after a time."""
    return -int(-time_s // step_s)


def ticks_at(times_s: FloatVec, step_s: float = GRID_S) -> IntVec:
    """Return the first tick at or after each time."""
    return np.ceil(times_s / step_s).astype(np.int64)


def run_ticks(durations_s: FloatVec, step_s: float = GRID_S) -> IntVec:
    """Return the ticks that jobs of these durations run: at least one, so that cycles see it."""
    return np.maximum(ticks_at(durations_s, step_s), 1)


@dataclass(frozen=True, slots=True)
class Pace:
    """Pace of a replay. Times are in ticks except the first."""

    step_s: float = GRID_S
    """Seconds of a tick."""
    checkpoint: int = CHECKPOINT_TICKS
    """Work between two checkpoints, for jobs without their own."""
    sample: int = SAMPLE_TICKS
    """Time between two samples of the fair shares."""
    recheck: int = 0
    """Longest time between two cycles while jobs wait; 0 for no limit."""
    origin_s: float = 0.0
    """Seconds since 1970 at tick 0."""

    def now_s(self, tick: int) -> float:
        """Return the seconds since 1970 at a tick."""
        return self.origin_s + tick * self.step_s


class EventHeap:
    """Integers due at ticks. An event is never removed: its owner ignores stale ones."""

    __slots__ = ("_due", "_ticks")

    def __init__(self) -> None:
        """Start empty."""
        self._due: dict[int, list[int]] = {}
        self._ticks: list[int] = []

    def add(self, tick: int, event: int) -> None:
        """Make an event due at a tick."""
        due = self._due.get(tick)
        if due is None:
            self._due[tick] = [event]
            heappush(self._ticks, tick)
        else:
            due.append(event)

    @property
    def next_tick(self) -> int:
        """The earliest tick with an event, :data:`NEVER` without any."""
        return self._ticks[0] if self._ticks else NEVER

    def take(self, tick: int) -> list[int]:
        """Remove and return the events of this tick, before which none may be due."""
        if not self._ticks or self._ticks[0] != tick:
            return []
        heappop(self._ticks)
        return self._due.pop(tick)
