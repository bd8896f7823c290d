"""Time as something that is asked for: the real clock, and one that a test or simulation moves."""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    """Tells the time and waits."""

    def now_s(self) -> float:
        """Return seconds since 1970, UTC."""
        ...

    def sleep(self, seconds: float) -> None:
        """Wait; not at all for 0 or less."""
        ...


class SystemClock:
    """The clock of the machine."""

    __slots__ = ()

    def now_s(self) -> float:
        """Return seconds since 1970, UTC."""
        return time.time()

    def sleep(self, seconds: float) -> None:
        """Wait; not at all for 0 or less."""
        if seconds > 0:
            time.sleep(seconds)


def monotonic_s() -> float:
    """Return seconds since some fixed instant; nobody can set this clock back or forward.

    For time-outs, leases and pauses between requests. What is decided goes by a :class:`Clock`.
    """
    return time.monotonic()


class ManualClock:
    """A clock that stands still until it is moved; sleeping moves it."""

    __slots__ = ("_now_s",)

    def __init__(self, now_s: float = 0.0) -> None:
        """Stand at ``now_s``."""
        self._now_s = now_s

    def now_s(self) -> float:
        """Return where it stands."""
        return self._now_s

    def sleep(self, seconds: float) -> None:
        """Move on at once; not at all for 0 or less."""
        self._now_s += max(seconds, 0.0)

    def advance_to(self, now_s: float) -> None:
        """Move to a time.

        Raises:
            ValueError: it is in the past.

        """
        if now_s < self._now_s:
            raise ValueError(f"the clock stands at {self._now_s} and cannot go back to {now_s}")
        self._now_s = now_s
