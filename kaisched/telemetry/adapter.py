"""Metrics of the connection to a real cluster: watches, writes, leadership, as of the scrape.

Every label has a closed list of values, and every value of a counter has a series from the start: a
rate needs a zero to rise from.
"""

from __future__ import annotations

import math
import threading
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Final, NamedTuple, TypeAlias

from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector

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


WRITES: Final = ("bind", "evict", "nominate", "mark", "report", "reservation", "claim")
DONE, RETRIED, FAILED, PROTECTED, DROPPED = "done", "retried", "failed", "protected", "dropped"
WITHDRAWN: Final = "withdrawn"
OUTCOMES: Final = (DONE, RETRIED, FAILED, PROTECTED, DROPPED, WITHDRAWN)
OUTBOXES: Final = ("decisions", "reports")
METHODS: Final = ("DELETE", "GET", "PATCH", "POST", "PUT")
ANSWERS: Final = ("done", "refused", "busy", "fault", "none")
LISTS: Final = ("start", "take-over", "compare", "expired", "unreadable", "error")

Requests: TypeAlias = Mapping[tuple[str, ...], tuple[int, float]]
"""By (method, answer): (how many, seconds)."""
Samples: TypeAlias = Iterator[tuple[tuple[str, ...], float]]
"""(values of the labels, number)."""


class Watch(NamedTuple):
    """State of the watch of one kind."""

    kind: str
    age_s: float
    """Seconds since the API server last sent anything about the kind."""
    is_served: bool
    lists: Mapping[str, int]
    """By reason."""
    errors: int
    left_out: int
    mismatches: int


@dataclass(frozen=True, slots=True)
class AdapterState:
    """State that one scrape shows."""

    is_leading: bool
    lease_age_s: float
    watches: tuple[Watch, ...]
    news: int
    waiting: Mapping[str, tuple[int, float]]
    """By outbox: (number, seconds of the oldest)."""
    writes: Mapping[tuple[str, ...], tuple[int, float]] = field(default_factory=dict)
    """By (write, outcome): (number, unused)."""
    requests: Requests = field(default_factory=dict)
    renewals: Histogram = field(default_factory=lambda: Durations().read())
    """Durations of lease renewals, from when each was due until it was done."""


def _plain(read: Callable[[AdapterState], float]) -> Callable[[AdapterState], Samples]:
    def samples(state: AdapterState) -> Samples:
        yield (), float(read(state))

    return samples


def _watched(read: Callable[[Watch], float]) -> Callable[[AdapterState], Samples]:
    return lambda state: (((watch.kind,), read(watch)) for watch in state.watches)


def _ages(state: AdapterState) -> Samples:
    return (((watch.kind,), watch.age_s) for watch in state.watches if watch.is_served)


def _lists(state: AdapterState) -> Samples:
    return (
        ((watch.kind, reason), watch.lists.get(reason, 0))
        for watch in state.watches
        for reason in LISTS
    )


def _writes(state: AdapterState) -> Samples:
    every = ((write, outcome) for write in WRITES for outcome in OUTCOMES)
    return ((labels, state.writes.get(labels, (0, 0.0))[0]) for labels in every)


def _waiting(at: int) -> Callable[[AdapterState], Samples]:
    return lambda state: (((outbox,), state.waiting[outbox][at]) for outbox in OUTBOXES)


def _requests(at: int) -> Callable[[AdapterState], Samples]:
    def samples(state: AdapterState) -> Samples:
        every = ((method, answer) for method in METHODS for answer in ANSWERS)
        return ((labels, state.requests.get(labels, (0, 0.0))[at]) for labels in every)

    return samples


class Row(NamedTuple):
    """One metric."""

    name: str
    """Name as exposed; a counter's ends in ``_total``."""
    help: str
    labels: tuple[str, ...]
    read: Callable[[AdapterState], Samples] | None
    """None for the only histogram, that of the renewals."""

    @property
    def kind(self) -> str:
        """Type for Prometheus."""
        if self.read is None:
            return "histogram"
        return "counter" if self.name.endswith("_total") else "gauge"


_LISTS_TEXT: Final = (
    "Lists of a kind: at the start, at a take-over, to compare, or because a watch had expired, was"
    " unreadable or ended with another error."
)
_WRITES_TEXT: Final = (
    "Writes by outcome: done; retried, once each time; failed; protected by a disruption budget;"
    " dropped, unsent; withdrawn, unsent because it was no longer needed."
)
_REQUESTS_TEXT: Final = (
    "Requests by answer: done; refused (4xx); busy (429); fault (5xx); none. Watches do not count."
)

ADAPTER: Final = (
    Row(
        "kaisched_leader_state",
        "1 while this process leads the shard, else 0.",
        (),
        _plain(attrgetter("is_leading")),
    ),
    Row(
        "kaisched_lease_age_seconds",
        "Time since the last renewal of the lease was sent; +Inf without one.",
        (),
        _plain(attrgetter("lease_age_s")),
    ),
    Row(
        "kaisched_lease_renewal_seconds",
        "Renewals of the lease, by the time from when each was due until it was done.",
        (),
        None,
    ),
    Row(
        "kaisched_watch_age_seconds",
        "Time since the API server last sent anything about a kind that it serves.",
        ("kind",),
        _ages,
    ),
    Row("kaisched_watch_lists_total", _LISTS_TEXT, ("kind", "reason"), _lists),
    Row(
        "kaisched_watch_errors_total",
        "Lists and watches that broke, or that the API server refused.",
        ("kind",),
        _watched(attrgetter("errors")),
    ),
    Row(
        "kaisched_watch_objects_left_out_total",
        "Objects that were invalid.",
        ("kind",),
        _watched(attrgetter("left_out")),
    ),
    Row(
        "kaisched_cache_mismatches_total",
        "Objects that a comparison found to differ although nothing had changed.",
        ("kind",),
        _watched(attrgetter("mismatches")),
    ),
    Row(
        "kaisched_waiting_changes",
        "Changes of objects that wait for the next cycle.",
        (),
        _plain(attrgetter("news")),
    ),
    Row("kaisched_writes_total", _WRITES_TEXT, ("write", "outcome"), _writes),
    Row(
        "kaisched_waiting_writes",
        "Writes that are not done yet: of decisions, or of reports, which block nothing.",
        ("outbox",),
        _waiting(0),
    ),
    Row(
        "kaisched_write_wait_seconds",
        "How long the oldest of them has waited; 0 without any.",
        ("outbox",),
        _waiting(1),
    ),
    Row("kaisched_api_requests_total", _REQUESTS_TEXT, ("method", "answer"), _requests(0)),
    Row(
        "kaisched_api_seconds_total",
        "Time spent waiting for these answers.",
        ("method", "answer"),
        _requests(1),
    ),
)
"""Every metric of the adapter, in the order of the reference page."""


class AdapterCollector(Collector):
    """Serves the state at the moment of the scrape."""

    def __init__(self, read: Callable[[], AdapterState]) -> None:
        """Keep the function that reads the state."""
        self._read = read

    def collect(self) -> Iterable[Metric]:
        """Render one scrape."""
        state = self._read()
        for row in ADAPTER:
            if row.read is None:
                buckets, sum_s = state.renewals
                yield HistogramMetricFamily(row.name, row.help, buckets=buckets, sum_value=sum_s)
                continue
            make = CounterMetricFamily if row.kind == "counter" else GaugeMetricFamily
            family = make(row.name.removesuffix("_total"), row.help, labels=row.labels)
            for values, number in row.read(state):
                family.add_metric(values, number)
            yield family
