"""Usage store on a Prometheus server: a thread fetches, answers come from the last fetch."""

from __future__ import annotations

import math
import threading
from typing import TYPE_CHECKING, Final

import numpy as np

from kaisched.core.usage import PARTS, Usage, UsageState
from kaisched.usage.history import History
from kaisched.usage.prometheus.client import Client
from kaisched.usage.prometheus.fetching import fetch
from kaisched.usage.prometheus.http import QueryError
from kaisched.usage.window import weighed_since, weight

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kaisched.clock import Clock
    from kaisched.core.axis import IntVec
    from kaisched.usage.port import Sample
    from kaisched.usage.prometheus.fetching import Fetched
    from kaisched.usage.settings import PrometheusSettings, UsageSettings

_SOON_S: Final = 2.0
"""Pause before the first answer is requested again."""
_COARSER: Final = 4
_COARSEST: Final = 64
_FINER_AFTER: Final = 30
"""Number of answers after which finer steps are tried again."""
_LAST_WAIT_S: Final = 1.0


class PrometheusStore:
    """Queries a server every ``fetch_s``; samples recorded here only bridge its absence."""

    def __init__(
        self,
        settings: UsageSettings,
        asked: PrometheusSettings,
        clock: Clock,
        client: Client | None = None,
    ) -> None:
        """Start the thread.

        Args:
            settings: window, intervals and the treatment of stale numbers.
            asked: the server and its metrics.
            clock: the clock; of an answer only its age depends on it.
            client: a connection, for tests.

        """
        self._settings, self._asked, self._clock = settings, asked, clock
        self._client = client or Client(asked)
        self._fetched: Fetched | None = None
        self._error = ""
        self._end = threading.Event()
        self._since = History(settings.window)
        self._since_fetch: Fetched | None = None
        self._thread = threading.Thread(target=self._run, name="usage-fetch", daemon=True)
        self._thread.start()

    # -- the cycle's thread ----------------------------------------------------------------------

    def record(self, sample: Sample) -> None:
        """Keep a sample for the time since the last fetch; the server has its own samples."""
        if self._since_fetch is not self._fetched:
            last, self._since = self._since.last, History(self._settings.window)
            self._since_fetch = self._fetched
            if last is not None:
                self._since.add(last)
        self._since.add(sample)

    def usage(self, now_s: float, queues: Sequence[str], resources: Sequence[str]) -> Usage:
        """Return decayed usage over decayed capacity, parts ``(R, Q)`` in the order asked."""
        fetched, error = self._fetched, self._error
        reasons: tuple[str, ...] = (f"the last fetch failed: {error}",) if error else ()
        if fetched is None or not fetched.resources:
            parts = np.zeros((len(resources), len(queues)), np.int64)
            reasons += fetched.faults if fetched is not None else ()
            why = reasons or ("no answer has come yet",)
            return Usage(parts, math.inf, 0.0, UsageState.ABSENT, why)
        age_s = max(now_s - fetched.newest_s, 0.0)
        parts = _parts(fetched, queues, resources)
        state = UsageState.PARTIAL if fetched.faults else UsageState.FRESH
        reasons += fetched.faults + fetched.notes
        if age_s > self._settings.staleness_s:
            state = UsageState.STALE
            if self._settings.is_frozen_when_stale:
                parts = self._carried(fetched, parts, now_s, queues, resources)
                reasons += ("stale: the last answer is carried on with our own samples",)
            else:
                parts = np.zeros_like(parts)
                reasons += ("stale: history is ignored, as whenStale says",)
        coverage = min(each.coverage for each in fetched.resources.values())
        known = [each.first_s for each in fetched.resources.values() if each.first_s is not None]
        weighed_s = weighed_since(self._settings.window, min(known, default=None), now_s)
        return Usage(parts, age_s, coverage, state, reasons, weighed_s)

    def _carried(
        self,
        fetched: Fetched,
        parts: IntVec,
        now_s: float,
        queues: Sequence[str],
        resources: Sequence[str],
    ) -> IntVec:
        """Extend the last answer with the samples recorded since (rule U8)."""
        window, passed_s = self._settings.window, max(now_s - fetched.at_s, 0.0)
        kept = weight(passed_s, window.half_life_s)
        if window.has_edges:
            kept *= window.edge(now_s) <= fetched.at_s
        else:
            kept *= max(1.0 - passed_s / window.size_s, 0.0)
        is_known = np.array([name in fetched.resources for name in resources])
        before = kept * np.array(
            [
                fetched.resources[name].capacity if name in fetched.resources else 0.0
                for name in resources
            ]
        )
        sums = self._since.sums(now_s)
        capacity = before + sums.capacity(resources)
        used = parts / PARTS * before[:, None] + sums.used(queues, resources)
        is_counted = is_known & (capacity > 0)
        share = used / np.where(is_counted, capacity, 1.0)[:, None]
        found: IntVec = np.rint(np.where(is_counted[:, None], share, 0.0) * PARTS).astype(np.int64)
        return found

    def is_ready(self) -> bool:
        """Tell whether an answer has come."""
        return self._fetched is not None

    def close(self) -> None:
        """Stop the thread; a query under way is not interrupted."""
        self._end.set()
        self._thread.join(_LAST_WAIT_S)

    # -- the thread that fetches -----------------------------------------------------------------

    def _run(self) -> None:
        coarser, answers = 1, 0
        while not self._end.is_set():
            is_too_much = False
            try:
                found = fetch(
                    self._client, self._asked, self._settings.window, self._clock.now_s(), coarser
                )
                self._take(found)
                answers += 1
                if answers % _FINER_AFTER == 0:
                    coarser = max(coarser // _COARSER, 1)
            except QueryError as error:
                self._error, is_too_much = str(error), error.is_too_much
            except Exception as error:  # noqa: BLE001 - a bug must not end the fetching in silence
                self._error = f"{type(error).__name__}: {error}"
            if is_too_much:
                coarser = min(coarser * _COARSER, _COARSEST)
            is_urgent = is_too_much or self._fetched is None
            wait_s = self._settings.fetch_s
            self._end.wait(min(wait_s, _SOON_S) if is_urgent else wait_s)
        self._client.close()

    def _take(self, found: Fetched) -> None:
        age_s = found.at_s - found.newest_s
        if self._fetched is not None and age_s > self._settings.staleness_s:
            # The server answers without new samples: keep extending the last answer.
            self._error = f"the server has no sample of the last {age_s:.0f} s"
        else:
            self._fetched, self._error = found.completed_by(self._fetched), ""


def _parts(fetched: Fetched, queues: Sequence[str], resources: Sequence[str]) -> IntVec:
    parts = np.zeros((len(resources), len(queues)), np.int64)
    for row, name in enumerate(resources):
        found = fetched.resources.get(name)
        if found is not None:
            parts[row] = [found.parts.get(queue, 0) for queue in queues]
    return parts
