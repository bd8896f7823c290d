"""Store in memory: for tests and simulations, and as a part of the other stores."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from kaisched.core.usage import Usage, UsageState
from kaisched.usage.history import HOLD_S, History
from kaisched.usage.hygiene import quantise

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kaisched.usage.port import Sample
    from kaisched.usage.window import Window


class MemoryStore:
    """Usage store that keeps samples in the process."""

    def __init__(
        self, window: Window, *, staleness_s: float = math.inf, hold_s: float = HOLD_S
    ) -> None:
        """Start empty; a newest sample older than ``staleness_s`` is stale.

        A sample holds for ``hold_s`` at most; callers that report every change may hold it longer.
        """
        self.history = History(window, hold_s)
        self._staleness_s = staleness_s

    def record(self, sample: Sample) -> None:
        """Add a sample of the present."""
        self.history.add(sample)

    def usage(self, now_s: float, queues: Sequence[str], resources: Sequence[str]) -> Usage:
        """Return decayed usage over decayed capacity, parts ``(R, Q)`` in the order asked."""
        history = self.history
        sums = history.sums(now_s)
        parts, _, reasons = quantise(
            sums.used(queues, resources), sums.capacity(resources), queues, resources
        )
        state = UsageState.PARTIAL if reasons else UsageState.FRESH
        newest_s = history.newest_s
        age_s = math.inf if newest_s is None else max(now_s - newest_s, 0.0)
        if newest_s is None:
            state, reasons = UsageState.ABSENT, ("no sample has been taken yet",)
        elif age_s > self._staleness_s:
            state, reasons = UsageState.STALE, (*reasons, f"the last sample is {age_s:.0f} s old")
        coverage, weighed_s = history.coverage(now_s, sums.seen_s), history.weighed_s(now_s)
        return Usage(parts, age_s, coverage, state, reasons, weighed_s)

    def is_ready(self) -> bool:
        """Return True: there is nothing to wait for."""
        return True

    def close(self) -> None:
        """Do nothing."""
