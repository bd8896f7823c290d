"""Usage store on a Prometheus server: a thread fetches, answers come from the last fetch.

Beside it a probe asks from time to time whether the server answers queries: fetching history asks
rarely, may take long, and fails for other reasons too, such as a metric that is missing. Reports
sum a period from the scheduler's own metrics: series of a queue are joined by their maximum at
each step, since processes that replace each other, and copies of one server, report the same.
"""

from __future__ import annotations

import math
import threading
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from urllib.parse import urlsplit

import numpy as np

from kaisched.core.usage import PARTS, Usage, UsageState
from kaisched.errors import UsageUnavailable
from kaisched.usage.history import History, ServerHealth, weighed_since, weight
from kaisched.usage.period import HOUR_S, Period
from kaisched.usage.prometheus.queries import BoundedSession, Client, QueryError, fetch
from kaisched.usage.settings import PrometheusSettings

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from kaisched.clock import Clock
    from kaisched.core.axis import IntVec
    from kaisched.usage.history import Sample
    from kaisched.usage.prometheus.queries import Fetched
    from kaisched.usage.settings import UsageSettings


# -- the store -------------------------------------------------------------------------------------

_SOON_S: Final = 2.0
"""Pause before the first answer is requested again."""
_COARSER: Final = 4
_COARSEST: Final = 64
_FINER_AFTER: Final = 30
"""Number of answers after which finer steps are tried again."""
_LAST_WAIT_S: Final = 1.0


class PrometheusStore:
    """Queries a server every ``fetch_s``; samples recorded here only bridge its absence."""

    def __init__(self, settings: UsageSettings, asked: PrometheusSettings, clock: Clock) -> None:
        """Start the thread.

        Args:
            settings: window, intervals and the treatment of stale numbers.
            asked: the server and its metrics.
            clock: the clock; of an answer only its age depends on it.

        """
        self._settings, self._asked, self._clock = settings, asked, clock
        self._client = Client(asked)
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


# -- the probe -------------------------------------------------------------------------------------

_QUERY: Final = "vector(1)"
_LONGEST_PAUSE_S: Final = 1.0


class HealthProbe:
    """Asks a server every interval; it counts as gone when every try of a round fails."""

    def __init__(
        self, asked: PrometheusSettings, notify: Callable[[ServerHealth], None] = lambda _: None
    ) -> None:
        """Start the thread; ``notify`` is called by it after every round."""
        self._how, self._notify = asked.probe, notify
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
                self._notify(found)
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


# -- sums over a period, for reports ---------------------------------------------------------------

METRICS: Final = {"gpu": "gpus", "cpu": "cpu_cores", "memory": "memory_bytes"}
"""Resources with the ends of their metrics' names."""
EVICTIONS: Final = "kaisched_queue_evictions_total"
_STEPS: Final = 2000
"""Moments at which a server is asked, at most: a query costs it series times steps."""
_STEPS_OF_COUNTS: Final = 700
"""Likewise for counters, of which all values are sent."""
_LEAST_STEP_S: Final = 1
_TIMEOUT_S: Final = 60.0


class Evicted(NamedTuple):
    """Pods evicted in a period, by the labels of their counter."""

    queue: str
    preemptor: str
    reason: str
    pods: int


def period_of(url: str, resource: str, start_s: float, end_s: float) -> Period:
    """Sum up what queues used, were entitled to and waited for.

    Raises:
        UsageUnavailable: the server gives no usable answer, or knows no such metrics.

    """
    end = METRICS[resource]
    step_s = _step(end_s - start_s, _STEPS)
    steps = f"[{math.ceil(end_s - start_s)}s:{step_s}s]"
    hours = step_s / HOUR_S
    with _asking(url) as client:

        def sums(metric: str) -> dict[str, float]:
            known = f"max by (queue) ({metric}) < Inf"
            found = client.ask(f"sum_over_time(({known}){steps}) * {hours!r}", end_s)
            return {it["metric"].get("queue", ""): _number(it) for it in found}

        capacity = f"max(kaisched_capacity_{end})"
        counts = client.ask(f"count_over_time(({capacity}){steps})", end_s)
        if not counts:
            raise UsageUnavailable(
                f"{url}: there is no kaisched_capacity_{end} in this time",
                fix="let this server scrape the scheduler, or name another one",
            )
        total = client.ask(f"sum_over_time(({capacity}){steps}) * {hours!r}", end_s)
        return Period(
            resource,
            end_s - start_s,
            _number(counts[0]) * step_s,
            _number(total[0]),
            sums(f"kaisched_queue_allocated_{end}"),
            sums(f"kaisched_queue_fair_share_{end}"),
            sums(f"kaisched_queue_pending_{end}"),
        )


def evictions_of(url: str, start_s: float, end_s: float) -> list[Evicted]:
    """Count the pods that were evicted in a period.

    A counter that appears in it, or starts anew, counts from 0: a queue has none before its first
    eviction, so that the rate of the counter would miss that one.

    Raises:
        UsageUnavailable: the server gives no usable answer.

    """
    step_s = _step(end_s - start_s, _STEPS_OF_COUNTS)
    with _asking(url) as client:
        found = client.ask_range(EVICTIONS, start_s, end_s, step_s)
    counts: dict[tuple[str, str, str], float] = {}
    for series in found:
        labels, values = series["metric"], [(float(at), float(of)) for at, of in series["values"]]
        key = (labels.get("queue", ""), labels.get("preemptor", ""), labels.get("reason", ""))
        is_older = bool(values) and values[0][0] < start_s + step_s
        counts[key] = counts.get(key, 0.0) + _growth([of for _, of in values], is_older=is_older)
    return [Evicted(*key, round(pods)) for key, pods in sorted(counts.items()) if pods]


def _growth(values: Iterable[float], *, is_older: bool) -> float:
    """Return how much a counter has grown; one that was there before begins at its first value."""
    total, last = 0.0, None if is_older else 0.0
    for value in values:
        if last is not None:
            total += value - last if value >= last else value
        last = value
    return total


def _step(span_s: float, steps: int) -> int:
    return max(math.ceil(span_s / steps), _LEAST_STEP_S)


def _number(entry: Any) -> float:
    return float(entry["value"][1])


@contextmanager
def _asking(url: str) -> Iterator[Client]:
    """Ask a server, and close the connection.

    Raises:
        UsageUnavailable: it gives no usable answer.

    """
    client = Client(PrometheusSettings(url, {}, {}, timeout_s=_TIMEOUT_S))
    client.begin()
    try:
        yield client
    except (QueryError, KeyError, IndexError, TypeError, ValueError) as error:
        raise UsageUnavailable(f"{url}: {error}", fix="is it a Prometheus server?") from error
    finally:
        client.close()
