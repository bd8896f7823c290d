"""Clocks: the real clock, and a clock that a test or simulation moves."""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    """Clock that tells the time and waits."""

    def now_s(self) -> float:
        """Return seconds since 1970, UTC."""
        ...

    def sleep(self, seconds: float) -> None:
        """Wait; return at once for 0 or less."""
        ...


class SystemClock:
    """The clock of the machine."""

    __slots__ = ()

    def now_s(self) -> float:
        """Return seconds since 1970, UTC."""
        return time.time()

    def sleep(self, seconds: float) -> None:
        """Wait; return at once for 0 or less."""
        if seconds > 0:
            time.sleep(seconds)


def monotonic_s() -> float:
    """Return seconds since some fixed instant; this clock is never set back or forward.

    For time-outs, leases and pauses between requests. Decisions use a :class:`Clock`.
    """
    return time.monotonic()


class ManualClock:
    """Clock that does not run by itself; sleeping advances it."""

    __slots__ = ("_now_s",)

    def __init__(self, now_s: float = 0.0) -> None:
        """Start at ``now_s``."""
        self._now_s = now_s

    def now_s(self) -> float:
        """Return its present time."""
        return self._now_s

    def sleep(self, seconds: float) -> None:
        """Advance at once; do nothing for 0 or less."""
        self._now_s += max(seconds, 0.0)

    def advance_to(self, now_s: float) -> None:
        """Advance to a time.

        Raises:
            ValueError: the time is in the past.

        """
        if now_s < self._now_s:
            raise ValueError(f"the clock is at {self._now_s} and cannot go back to {now_s}")
        self._now_s = now_s
