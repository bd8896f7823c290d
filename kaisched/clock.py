"""Clocks: the real clock, that of a server, and one that a test or simulation moves."""

from __future__ import annotations

import math
import threading
import time
from email.utils import parsedate_to_datetime
from typing import Final, Protocol


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


SKEW_WARN_S: Final = 5.0
"""From so many seconds on it is told that our clock and the server's differ."""
HEADER_S: Final = 1.0
"""A header ``Date`` has whole seconds: the time was that, or up to so much later."""


def date_s(header: str) -> float | None:
    """Return the time in a header ``Date``; None if it has none."""
    try:
        return parsedate_to_datetime(header).timestamp()
    except (ValueError, TypeError, OverflowError):
        return None


class ServerClock:
    """The clock of a server, as its answers tell it; ours while they agree. For any thread.

    Objects have the server's times. Whoever leads compares with these and not with a clock of its
    own, so that a pod's minimum run time does not end earlier or later after a change of leaders.
    """

    def __init__(self, own: Clock) -> None:
        """Go by our clock until an answer disagrees."""
        self._own, self._lock = own, threading.Lock()
        self._least_s, self._most_s = -math.inf, math.inf
        self.skew_s = 0.0
        """By how much the server's clock is ahead of ours, as little as its answers allow."""

    def now_s(self) -> float:
        """Return seconds since 1970, UTC."""
        return self._own.now_s() + self.skew_s

    def own_s(self) -> float:
        """Return the time of our clock."""
        return self._own.now_s()

    def sleep(self, seconds: float) -> None:
        """Wait; return at once for 0 or less."""
        self._own.sleep(seconds)

    def observe(self, header: str, sent_s: float, got_s: float) -> None:
        """Take in the header ``Date`` of an answer.

        Args:
            header: the header.
            sent_s: when the request was sent, by our clock.
            got_s: when its answer was there.

        """
        if (told_s := date_s(header)) is None:
            return
        least_s, most_s = told_s - got_s, told_s + HEADER_S - sent_s
        with self._lock:
            self._least_s, self._most_s = max(self._least_s, least_s), min(self._most_s, most_s)
            if self._least_s > self._most_s:  # one of the clocks was set meanwhile
                self._least_s, self._most_s = least_s, most_s
            self.skew_s = min(max(self.skew_s, self._least_s), self._most_s)


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
