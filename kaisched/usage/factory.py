"""Factory of usage stores from a shard's settings."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kaisched.usage.memory import MemoryStore
from kaisched.usage.sqlite import SqliteStore

if TYPE_CHECKING:
    from collections.abc import Callable

    from kaisched.clock import Clock
    from kaisched.usage.port import ServerHealth, UsageStore
    from kaisched.usage.prometheus.probe import HealthProbe
    from kaisched.usage.settings import UsageSettings


def open_probe(settings: UsageSettings, tell: Callable[[ServerHealth], None]) -> HealthProbe | None:
    """Start the probe of the server of these settings; None without a server."""
    if settings.prometheus is None:
        return None
    from kaisched.usage.prometheus.probe import HealthProbe  # noqa: PLC0415 - as below

    return HealthProbe(settings.prometheus, tell)


def open_store(settings: UsageSettings, clock: Clock) -> UsageStore:
    """Open the store of these settings. Its answers report what does not work."""
    if settings.prometheus is not None:
        # Importing the client library takes a tenth of a second; other stores need not wait for it.
        from kaisched.usage.prometheus import PrometheusStore  # noqa: PLC0415

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
