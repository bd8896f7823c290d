"""Refusals (403) of an API server that has just started, which pass by themselves.

A server that has just started refuses all requests but those of administrators until it has read
its roles. This takes a second or more, and the server is not ready as long. If such a refusal
counted, kinds would be read again much too late, or not at all.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final

from kaisched.clock import monotonic_s

MOST_DOUBT_S: Final = 30.0
"""After so long the refusals of a server count even if it does not say that it is ready."""


class Doubt:
    """Decides which refusals to doubt. For any number of threads."""

    def __init__(
        self, is_ready: Callable[[], bool], now_s: Callable[[], float] = monotonic_s
    ) -> None:
        """Begin without doubts.

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
            # The server may have become ready since its answer: doubt the first refusal after
            # doubted ones, too, so that the request is tried once more.
            was_doubted, self._was_doubted = self._was_doubted, False
            return was_doubted
        self._was_doubted = True
        now_s = self._now_s()
        if now_s - self._last_s > MOST_DOUBT_S:
            self._since_s = now_s  # the server has started once more
        self._last_s = now_s
        return now_s - self._since_s <= MOST_DOUBT_S
