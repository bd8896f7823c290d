"""Pauses before the next try: longer each time, with jitter so that clients do not synchronise."""

from __future__ import annotations

import math
import secrets
from dataclasses import dataclass
from typing import Final

from kaisched.clock import monotonic_s

LEAST_S: Final = 0.1
MOST_S: Final = 10.0
_GROWTH: Final = 3.0
_STEPS: Final = 1 << 30


@dataclass(frozen=True, slots=True)
class Pace:
    """The times of a reflector, in seconds."""

    idle_s: float = 90.0
    """A watch that is silent for longer counts as dead; servers send a bookmark a minute."""
    watch_s: tuple[float, float] = (300.0, 600.0)
    """The server is asked to end a watch after some time between these."""
    compare_s: float = 600.0
    """After so long everything is listed again and compared."""
    absent_s: float = 60.0
    """How often a kind is looked for that the server does not serve, or does not let us read."""
    expected_s: float = 1.0
    """The same, for half of that time after an object has named such a kind as its owner's."""
    least_pause_s: float = 0.1
    most_pause_s: float = 10.0


class Pauses:
    """Pauses of decorrelated jitter: each between the least and three times the one before."""

    def __init__(self, least_s: float = LEAST_S, most_s: float = MOST_S) -> None:
        """Start with the shortest."""
        self._least_s = least_s
        self._most_s = most_s
        self._last_s = least_s

    def next_s(self, asked_s: float = 0.0) -> float:
        """Return the next pause, at least as long as the server asked for."""
        up_to_s = min(self._last_s * _GROWTH, self._most_s)
        self._last_s = self.spread(self._least_s, up_to_s)
        return max(self._last_s, asked_s)

    def reset(self) -> None:
        """Start again with the shortest pause, after a success."""
        self._last_s = self._least_s

    def spread(self, least_s: float, most_s: float) -> float:
        """Return a random time between two."""
        # Not numpy: the small process that renews leases must not load it.
        return least_s + (most_s - least_s) * secrets.randbelow(_STEPS) / _STEPS


class Absence:
    """Pauses between searches for a kind that is not served: short once an object has named it."""

    def __init__(self, pace: Pace) -> None:
        """Begin without an object that names the kind."""
        self._pace = pace
        self._since_s = -math.inf

    def expect(self) -> bool:
        """Take in that an object names the kind; tell whether none has done so lately.

        A kind that is named and never served is not looked for all the time.
        """
        now_s = monotonic_s()
        is_new = now_s - self._since_s >= self._pace.absent_s
        if is_new:
            self._since_s = now_s
        return is_new

    def pause_s(self) -> float:
        """Return the pause before the next search."""
        is_expected = monotonic_s() - self._since_s < self._pace.absent_s / 2
        return self._pace.expected_s if is_expected else self._pace.absent_s
