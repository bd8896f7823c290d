"""Histogram of durations; many threads add, a scrape reads."""

from __future__ import annotations

import math
import threading
from bisect import bisect_left
from typing import Final, NamedTuple

BOUNDS_S: Final = (0.01, 0.03, 0.1, 0.3, 1.0, 2.0, 4.0, 8.0)
"""Upper bounds: from a negligible delay to the loss of a lead."""


class Histogram(NamedTuple):
    """Counts up to each bound, and the sum of seconds."""

    buckets: tuple[tuple[str, float], ...]
    sum_s: float


class Durations:
    """Counts durations."""

    def __init__(self) -> None:
        """Start with zero counts."""
        self._lock = threading.Lock()
        self._counts = [0] * (len(BOUNDS_S) + 1)
        self._sum_s = 0.0

    def add(self, seconds: float) -> None:
        """Count a duration."""
        with self._lock:
            self._counts[bisect_left(BOUNDS_S, seconds)] += 1
            self._sum_s += seconds

    def read(self) -> Histogram:
        """Return the counts."""
        with self._lock:
            counts, sum_s = tuple(self._counts), self._sum_s
        below, buckets = 0, []
        for bound, number in zip((*BOUNDS_S, math.inf), counts, strict=True):
            below += number
            buckets.append(("+Inf" if math.isinf(bound) else str(bound), float(below)))
        return Histogram(tuple(buckets), sum_s)
