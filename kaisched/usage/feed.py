"""Usage source of cycles: records what each cycle sees, and answers from the store of the shard."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import numpy as np

from kaisched.core.usage import UsageState
from kaisched.usage.history import MemoryStore, sample_of
from kaisched.usage.sqlite import SqliteStore

if TYPE_CHECKING:
    from collections.abc import Callable

    from kaisched.clock import Clock
    from kaisched.core.snapshot import Snapshot
    from kaisched.core.usage import Usage
    from kaisched.usage.history import ServerHealth, UsageStore
    from kaisched.usage.prometheus.store import HealthProbe
    from kaisched.usage.settings import UsageSettings


LEAST_COVERAGE: Final = 0.5
"""Least coverage for history to be used: evictions need evidence (rule U5)."""
_ASK_AGAIN: Final = (UsageState.ABSENT, UsageState.STALE)


class UsageFeed:
    """Usage source for cycles: every cycle adds a sample, every ``fetch_s`` there is a new answer.

    In between the answer stays, so that small steps of history do not make every cycle divide
    again.
    """

    def __init__(self, store: UsageStore, fetch_s: float, probe: HealthProbe | None = None) -> None:
        """Start without an answer until the first cycle."""
        self._store, self._fetch_s, self._probe = store, fetch_s, probe
        self._asked_s = -math.inf
        self._names: tuple[tuple[str, ...], tuple[str, ...]] | None = None
        self._answer: Usage | None = None

    def usage(self, snapshot: Snapshot, now_s: float) -> Usage:
        """Record the snapshot and return usage for its queues and resources."""
        sample = sample_of(snapshot, now_s)
        self._store.record(sample)
        return self.answer(now_s, sample.queues, sample.resources)

    def answer(self, now_s: float, queues: tuple[str, ...], resources: tuple[str, ...]) -> Usage:
        """Return usage, parts ``(R, Q)``, without recording a sample."""
        names = (queues, resources)
        since_s = now_s - self._asked_s
        answer = self._answer
        if (
            answer is None
            or answer.state in _ASK_AGAIN
            or names != self._names
            or not 0 <= since_s < self._fetch_s
        ):
            answer = believed(self._store.usage(now_s, *names))
            self._asked_s, self._names, self._answer = now_s, names, answer
            return answer
        return replace(answer, age_s=answer.age_s + since_s)

    def is_ready(self) -> bool:
        """Tell whether the store has an answer, or none is to be expected."""
        return self._store.is_ready()

    def server(self) -> ServerHealth | None:
        """Tell whether the server of the store answers; None without one, or before it is known."""
        return None if self._probe is None else self._probe.health()

    def close(self) -> None:
        """Close the store, which writes its remaining samples."""
        if self._probe is not None:
            self._probe.close()
        self._store.close()


def believed(usage: Usage) -> Usage:
    """Return usage as decisions may see it: none if less than half of the window was seen."""
    if usage.coverage >= LEAST_COVERAGE or usage.state is UsageState.ABSENT:
        return usage
    state = usage.state if usage.state is UsageState.STALE else UsageState.PARTIAL
    reason = f"less than {LEAST_COVERAGE:.0%} of the window was seen: history is not used"
    return replace(
        usage, parts=np.zeros_like(usage.parts), state=state, reasons=(*usage.reasons, reason)
    )


# -- stores by settings ----------------------------------------------------------------------------


def open_probe(
    settings: UsageSettings, notify: Callable[[ServerHealth], None]
) -> HealthProbe | None:
    """Start the probe of the server of these settings; None without a server."""
    if settings.prometheus is None:
        return None
    from kaisched.usage.prometheus.store import HealthProbe  # noqa: PLC0415 - as below

    return HealthProbe(settings.prometheus, notify)


def open_store(settings: UsageSettings, clock: Clock) -> UsageStore:
    """Open the store of these settings. Its answers report what does not work."""
    if settings.prometheus is not None:
        # Importing the client library takes a tenth of a second; other stores need not wait for it.
        from kaisched.usage.prometheus.store import PrometheusStore  # noqa: PLC0415

        return PrometheusStore(settings, settings.prometheus, clock)
    if settings.type == "sqlite":
        return SqliteStore(
            settings.path,
            settings.window,
            clock.now_s(),
            save_s=settings.fetch_s,
            staleness_s=settings.staleness_s,
        )
    return MemoryStore(settings.window, staleness_s=settings.staleness_s)
