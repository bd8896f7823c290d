"""Usage history in virtual time: the daemon's own feed over a store in memory.

Between two cycles nothing changes, so one sample after each cycle holds until the next, and equals
what the daemon would collect by continuous sampling.
"""

from __future__ import annotations

import math
from datetime import UTC, datetime
from typing import Final

import numpy as np

from kaisched.core.axis import Amounts
from kaisched.core.snapshot import Snapshot
from kaisched.core.tables import QueueTable
from kaisched.core.tree import roll_up
from kaisched.core.usage import Usage
from kaisched.usage.feed import UsageFeed
from kaisched.usage.history import MemoryStore, Sample, Window
from kaisched.usage.settings import UsageSettings

_YEARS: Final = (2018, 2019, 2025, 2026, 2021, 2022, 2023)
"""Common years that begin on Monday, Tuesday, and so on."""


class VirtualHistory:
    """Usage source fed with the queues' holdings after each cycle; answers as the daemon's does."""

    def __init__(
        self, settings: UsageSettings, resources: tuple[str, ...], queues: QueueTable
    ) -> None:
        """Start without usage for ``R`` resources and ``Q`` queues."""
        self._resources, self._queues = resources, queues
        self._store = MemoryStore(settings.window, hold_s=math.inf)
        self._feed = UsageFeed(self._store, settings.fetch_s)
        self._held: Amounts = np.zeros((0, 0), np.int64)
        self._total: Amounts = np.zeros(0, np.int64)

    def hold(self, held: Amounts, total: Amounts, now_s: float) -> None:
        """Record that from now on the leaves hold ``(R, Q)`` of ``(R,)``."""
        if np.array_equal(held, self._held) and np.array_equal(total, self._total):
            return
        self._held, self._total = held, total
        used = roll_up(held, self._queues.tree)
        self._store.record(Sample(now_s, self._resources, self._queues.name, used, total))

    def usage(self, snapshot: Snapshot, now_s: float) -> Usage:
        """Return the usage until now of the snapshot's queues and resources."""
        return self._feed.answer(now_s, snapshot.queues.name, snapshot.axis.names)

    def is_ready(self) -> bool:
        """Return True: there is no store to wait for."""
        return self._feed.is_ready()


def origin_of(window: Window, first_day: int) -> float:
    """Return the start of virtual time in seconds since 1970.

    A tumbling window begins with the run. Cron needs a calendar: a common year whose first of
    January is the weekday ``first_day``, 0 for Monday.
    """
    if window.type == "tumbling":
        return window.anchor_s
    if window.type == "cron":
        return datetime(_YEARS[first_day], 1, 1, tzinfo=UTC).timestamp()
    return 0.0
