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
ECHO_S: Final = 2.0
"""So long after the server was not ready, refusals may be older than its readiness."""


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

    def is_due(self) -> bool:
        """Tell whether to doubt a refusal that has just come."""
        is_ready, now_s = self._is_ready(), self._now_s()
        if is_ready:
            # The server may have become ready since its answers to several threads.
            return now_s - self._last_s <= ECHO_S
        if now_s - self._last_s > MOST_DOUBT_S:
            self._since_s = now_s  # the server has started once more
        self._last_s = now_s
        return now_s - self._since_s <= MOST_DOUBT_S
