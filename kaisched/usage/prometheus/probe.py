"""Probe of a Prometheus server: a thread asks from time to time whether it answers queries.

Apart from the fetching of history: that asks rarely, may take long, and fails for other reasons
too, such as a metric that is missing. A query is asked, not a path for readiness: servers that only
speak Prometheus' language have no such path, and it would not show that our token is refused.
"""

from __future__ import annotations

import threading
from dataclasses import replace
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from kaisched.usage.port import ServerHealth
from kaisched.usage.prometheus.client import Client
from kaisched.usage.prometheus.http import BoundedSession, QueryError

if TYPE_CHECKING:
    from collections.abc import Callable

    from kaisched.usage.settings import PrometheusSettings

_QUERY: Final = "vector(1)"
_LONGEST_PAUSE_S: Final = 1.0
_LAST_WAIT_S: Final = 1.0


class HealthProbe:
    """Asks a server every interval; it counts as gone when every try of a round fails."""

    def __init__(
        self, asked: PrometheusSettings, tell: Callable[[ServerHealth], None] = lambda _: None
    ) -> None:
        """Start the thread; ``tell`` is called by it after every round."""
        self._how, self._tell = asked.probe, tell
        self._host = urlsplit(asked.url).hostname
        session = BoundedSession(deadline="healthProbe.timeout")
        self._client = Client(replace(asked, timeout_s=self._how.timeout_s), session)
        self._health: ServerHealth | None = None
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._run, name="usage-probe", daemon=True)
        self._thread.start()

    def health(self) -> ServerHealth | None:
        """Return what the last round found; None before the first."""
        return self._health

    def close(self) -> None:
        """Stop the thread; a query under way is not interrupted."""
        self._end.set()
        self._thread.join(_LAST_WAIT_S)

    def _run(self) -> None:
        while not self._end.is_set():
            found = self._round()
            if found is not None:
                self._health = found
                self._tell(found)
            self._end.wait(self._how.interval_s)
        self._client.close()

    def _round(self) -> ServerHealth | None:
        """Try until an answer comes; None if we are stopped meanwhile."""
        pause_s = min(_LONGEST_PAUSE_S, self._how.interval_s / (self._how.retries + 1))
        why = ""
        for number in range(self._how.retries + 1):
            if self._end.wait(pause_s if number else 0.0):
                return None
            try:
                self._client.begin()
                self._client.ask(_QUERY)
            except QueryError as error:
                why = str(error)
            except Exception as error:  # noqa: BLE001 - a bug must not end the probe in silence
                why = f"{type(error).__name__}: {error}"
            else:
                return ServerHealth(True, f"{self._host} answers queries")
        tries = f" ({self._how.retries + 1} tries)" if self._how.retries else ""
        return ServerHealth(False, f"{why}{tries}")
