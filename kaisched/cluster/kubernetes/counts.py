"""Counters that many threads add to and a scrape reads."""

from __future__ import annotations

import threading


class Counts:
    """Counts and total seconds of events, by labels."""

    def __init__(self) -> None:
        """Begin at zero."""
        self._lock = threading.Lock()
        self._counts: dict[tuple[str, ...], tuple[int, float]] = {}

    def add(self, *labels: str, seconds: float = 0.0) -> None:
        """Add one event."""
        with self._lock:
            number, total_s = self._counts.get(labels, (0, 0.0))
            self._counts[labels] = number + 1, total_s + seconds

    def read(self) -> dict[tuple[str, ...], tuple[int, float]]:
        """Return (count, seconds) by labels."""
        with self._lock:
            return dict(self._counts)
