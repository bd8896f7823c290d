"""Whether a refusal is the server's last word.

A server that has just started refuses everybody but administrators until it has read its roles. It
answers so for a second or more, and is not ready as long. Taken for its word, such an answer would
have kinds read again much too late, or done without.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final

from kaisched.clock import monotonic_s

MOST_DOUBT_S: Final = 30.0
"""A server that is never ready, or does not show us that it is, is believed after so long."""


class Doubt:
    """Tells which refusals (403) pass by themselves. For any number of threads."""

    def __init__(
        self, is_ready: Callable[[], bool], now_s: Callable[[], float] = monotonic_s
    ) -> None:
        """Doubt nothing yet.

        Args:
            is_ready: asks the server whether it is ready.
            now_s: the time on the monotonic clock.

        """
        self._is_ready = is_ready
        self._now_s = now_s
        self._since_s = self._last_s = -math.inf
        self._was_doubted = False

    def is_due(self) -> bool:
        """Tell whether to doubt a refusal that has just come."""
        if self._is_ready():
            # It may have become ready since it answered: the first refusal after others that were
            # doubted is asked for once more.
            was_doubted, self._was_doubted = self._was_doubted, False
            return was_doubted
        self._was_doubted = True
        now_s = self._now_s()
        if now_s - self._last_s > MOST_DOUBT_S:
            self._since_s = now_s  # another start than the one before
        self._last_s = now_s
        return now_s - self._since_s <= MOST_DOUBT_S
