"""Prometheus metrics, where all of one scrape come from one state.

Labels are bounded: queue (the first 2,000, the rest summed as ``other``), resource, action, plugin,
reason, outcome, node and card (of the first 2,000 shared GPUs), class (the first 200 device
classes), topology and level (of the objects that the cluster has), and closed lists of the
connection to the API server. Every value of a counter there has a series from the start: a rate
needs a zero to rise from. No metric names a pod.

Metrics of usage history have KAI-Scheduler's names for their inputs and name every queue: a queue
that is left out would lose its history. A Prometheus server that scrapes us collects the series
that KAI-Scheduler's queue controller exposes, so history goes on when either replaces the other.
"""

from __future__ import annotations

import math
import threading
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final, Generic, NamedTuple, TypeAlias, TypeVar

import numpy as np
from prometheus_client import CollectorRegistry
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector

from kaisched.core.claims.model import Place, Site
from kaisched.core.claims.offer import matches
from kaisched.core.claims.selectors import is_in
from kaisched.core.usage import PARTS, UsageState
from kaisched.framework.report.records import QueueShare
from kaisched.telemetry.published import BUCKETS_S, OTHER, Published, Spreads, cumulated
from kaisched.units import MEMORY_UNIT

if TYPE_CHECKING:
    from kaisched.core.claims.model import Slice
    from kaisched.core.claims.offer import Offer
    from kaisched.core.claims.selectors import DeviceClass
    from kaisched.core.claims.table import Held
    from kaisched.core.tables import NodeTable
    from kaisched.objects.devices import ResourceClaim


BOUNDS_S: Final = (0.01, 0.03, 0.1, 0.3, 1.0, 2.0, 4.0, 8.0)
"""Upper bounds: from a negligible delay to the loss of a lead."""


S = TypeVar("S")
Samples: TypeAlias = float | Mapping[Any, float]
"""A number, or numbers by the value of the label, or by those of the labels."""


@dataclass(frozen=True, slots=True)
class Series(Generic[S]):
    """One metric: its name, and the function that reads its values from a state."""

    name: str
    """Name as exposed; a counter's ends in ``_total``."""
    help: str
    labels: tuple[str, ...] = ()
    read: Callable[[S], Samples] = lambda _: 0.0
    is_histogram: bool = False

    @property
    def kind(self) -> str:
        """Type for Prometheus."""
        if self.is_histogram:
            return "histogram"
        return "counter" if self.name.endswith("_total") else "gauge"

    def family(self, samples: Samples) -> Metric:
        """Return the metric with these samples; not of a histogram."""
        make = CounterMetricFamily if self.kind == "counter" else GaugeMetricFamily
        name = self.name.removesuffix("_total")
        if not isinstance(samples, Mapping):
            return make(name, self.help, value=samples)
        family = make(name, self.help, labels=self.labels)
        for label, number in samples.items():
            family.add_metric([label] if isinstance(label, str) else label, number)
        return family


# -- the connection to the cluster -----------------------------------------------------------------


class Histogram(NamedTuple):
    """Counts up to each bound, and the sum of seconds."""

    buckets: list[tuple[str, float]]
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
        return Histogram(cumulated(BOUNDS_S, counts), sum_s)


WRITES: Final = ("bind", "evict", "nominate", "mark", "report", "reservation", "claim")
DONE, RETRIED, FAILED, PROTECTED, DROPPED = "done", "retried", "failed", "protected", "dropped"
WITHDRAWN: Final = "withdrawn"
OUTCOMES: Final = (DONE, RETRIED, FAILED, PROTECTED, DROPPED, WITHDRAWN)
WRITE_QUEUES: Final = ("decisions", "reports")
METHODS: Final = ("DELETE", "GET", "PATCH", "POST", "PUT")
ANSWERS: Final = ("done", "refused", "busy", "fault", "none")
LISTS: Final = ("start", "take-over", "compare", "expired", "unreadable", "error")

Requests: TypeAlias = Mapping[tuple[str, ...], tuple[int, float]]
"""By (method, answer): (how many, seconds)."""


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
    """By write queue: (number, seconds of the oldest)."""
    writes: Mapping[tuple[str, ...], tuple[int, float]] = field(default_factory=dict)
    """By (write, outcome): (number, unused)."""
    requests: Requests = field(default_factory=dict)
    renewals: Histogram = field(default_factory=lambda: Durations().read())
    """Durations of lease renewals, from when each was due until it was done."""
    skew_s: float = 0.0
    """By how much the server's clock is ahead of ours."""


def _watched(read: Callable[[Watch], float]) -> Callable[[AdapterState], Samples]:
    return lambda state: {watch.kind: read(watch) for watch in state.watches}


def _lists(state: AdapterState) -> Samples:
    return {
        (watch.kind, reason): watch.lists.get(reason, 0)
        for watch in state.watches
        for reason in LISTS
    }


def _waiting_writes(at: int) -> Callable[[AdapterState], Samples]:
    return lambda state: {queue: state.waiting[queue][at] for queue in WRITE_QUEUES}


def _requests(at: int) -> Callable[[AdapterState], Samples]:
    return lambda state: {
        labels: state.requests.get(labels, (0, 0.0))[at] for labels in product(METHODS, ANSWERS)
    }


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

ADAPTER: Final[tuple[Series[AdapterState], ...]] = (
    Series(
        "kaisched_leader_state",
        "1 while this process leads the shard, else 0.",
        (),
        attrgetter("is_leading"),
    ),
    Series(
        "kaisched_lease_age_seconds",
        "Time since the last renewal of the lease was sent; +Inf without one.",
        (),
        attrgetter("lease_age_s"),
    ),
    Series(
        "kaisched_lease_renewal_seconds",
        "Renewals of the lease, by the time from when each was due until it was done.",
        is_histogram=True,
    ),
    Series(
        "kaisched_watch_age_seconds",
        "Time since the API server last sent anything about a kind that it serves.",
        ("kind",),
        lambda state: {it.kind: it.age_s for it in state.watches if it.is_served},
    ),
    Series("kaisched_watch_lists_total", _LISTS_TEXT, ("kind", "reason"), _lists),
    Series(
        "kaisched_watch_errors_total",
        "Lists and watches that broke, or that the API server refused.",
        ("kind",),
        _watched(attrgetter("errors")),
    ),
    Series(
        "kaisched_watch_objects_left_out_total",
        "Objects that were invalid.",
        ("kind",),
        _watched(attrgetter("left_out")),
    ),
    Series(
        "kaisched_cache_mismatches_total",
        "Objects that a comparison found to differ although nothing had changed.",
        ("kind",),
        _watched(attrgetter("mismatches")),
    ),
    Series(
        "kaisched_waiting_changes",
        "Changes of objects that wait for the next cycle.",
        (),
        attrgetter("news"),
    ),
    Series(
        "kaisched_writes_total",
        _WRITES_TEXT,
        ("write", "outcome"),
        lambda state: {it: state.writes.get(it, (0, 0.0))[0] for it in product(WRITES, OUTCOMES)},
    ),
    Series(
        "kaisched_waiting_writes",
        "Writes that are not done yet: of decisions, or of reports, which block nothing.",
        ("outbox",),
        _waiting_writes(0),
    ),
    Series(
        "kaisched_write_wait_seconds",
        "How long the oldest of them has waited; 0 without any.",
        ("outbox",),
        _waiting_writes(1),
    ),
    Series("kaisched_api_requests_total", _REQUESTS_TEXT, ("method", "answer"), _requests(0)),
    Series(
        "kaisched_api_seconds_total",
        "Time spent waiting for these answers.",
        ("method", "answer"),
        _requests(1),
    ),
    Series(
        "kaisched_clock_skew_seconds",
        "By how much the API server's clock is ahead of ours; decisions go by the server's.",
        (),
        attrgetter("skew_s"),
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
        for series in ADAPTER:
            if series.is_histogram:
                buckets, sum_s = state.renewals
                yield HistogramMetricFamily(
                    series.name, series.help, buckets=buckets, sum_value=sum_s
                )
            else:
                yield series.family(series.read(state))


# -- usage history ---------------------------------------------------------------------------------

UNITS: Final = {
    "gpu": ("gpus", 1 / 1000, "in GPUs"),
    "cpu": ("cpu_cores", 1 / 1000, "in cores"),
    "memory": ("memory_bytes", MEMORY_UNIT, "in bytes"),
}
"""By resource: the end of a metric's name, the factor from base units, and a description."""


def _allocated(resource: str, factor: float) -> Callable[[Published], Samples]:
    return lambda published: {
        share.name: share.allocated.get(resource, 0) * factor for share in published.shares
    }


def _capacity(resource: str, factor: float) -> Callable[[Published], Samples]:
    def read(published: Published) -> Samples:
        amount = published.capacity.get(resource)
        return {} if amount is None else {(): amount * factor}

    return read


def _usage_ratios(published: Published) -> Samples:
    """Return what queues used lately by queue and resource."""
    usage = published.usage
    if usage is None:
        return {}
    return {
        (queue, resource): parts / PARTS
        for row, resource in enumerate(published.usage_resources)
        if resource in UNITS
        for queue, parts in zip(published.usage_queues, usage.parts[row].tolist(), strict=True)
    }


# -- shared GPUs -----------------------------------------------------------------------------------

_READ: Final = "KAI-Scheduler's name, read by the usage store `prometheus`"

HISTORY: Final[tuple[Series[Published], ...]] = (
    *(
        Series(
            f"kai_queue_allocated_{unit}",
            f"What a queue's running pods hold, {words}; {_READ}.",
            ("queue_name",),
            _allocated(resource, factor),
        )
        for resource, (unit, factor, words) in UNITS.items()
    ),
    *(
        Series(
            f"kaisched_capacity_{unit}",
            f"Capacity that is divided among the queues, {words}.",
            (),
            _capacity(resource, factor),
        )
        for resource, (unit, factor, words) in UNITS.items()
    ),
    Series(
        "kaisched_queue_usage_ratio",
        "Decayed usage over decayed capacity, as the last cycle saw it.",
        ("queue", "resource"),
        _usage_ratios,
    ),
    Series(
        "kaisched_usage_age_seconds",
        "Age of the newest sample of usage history; +Inf for none.",
        (),
        lambda published: published.usage.age_s if published.usage else math.inf,
    ),
    Series(
        "kaisched_usage_coverage_ratio",
        "Share of the window that samples cover, 0 to 1.",
        (),
        lambda published: published.usage.coverage if published.usage else 0.0,
    ),
    Series(
        "kaisched_usage_state",
        "1 for the state of usage history: fresh, partial, stale or absent; all 0 without history.",
        ("state",),
        lambda published: {
            state.value: float(published.usage is not None and published.usage.state is state)
            for state in UsageState
        },
    ),
    Series(
        "kaisched_usage_server_state",
        "1 if the Prometheus server of usage history answers, 0 if not; absent without one.",
        (),
        lambda published: (
            {} if published.usage_server is None else {(): float(published.usage_server)}
        ),
    ),
)
"""Every metric of usage history, in the order of the reference page."""


CARD_CAP: Final = 2000
"""So many shared GPUs have a series of their own."""


def _shared_cards(nodes: NodeTable | None) -> int:
    """Return how many GPUs pods share."""
    table = None if nodes is None else nodes.cards
    return 0 if table is None else int(np.count_nonzero(table.tasks))


def _unheld_cards(nodes: NodeTable | None) -> int:
    """Return how many GPUs are in use that no reservation pod holds."""
    table = None if nodes is None else nodes.cards
    return 0 if table is None else int(np.count_nonzero(table.is_closed & (table.used > 0)))


def _used_cards(nodes: NodeTable | None) -> dict[tuple[str, str], float]:
    """Return the part of each shared GPU that pods hold, by node and number of the card."""
    table = None if nodes is None else nodes.cards
    if nodes is None or table is None:
        return {}
    return {
        (nodes.name[node], str(slot)): float(table.used[node, slot] / table.size[node])
        for node, slot in np.argwhere(table.tasks > 0)[:CARD_CAP].tolist()
    }


# -- claims on devices -----------------------------------------------------------------------------

CLASS_CAP: Final = 200
"""So many device classes have series of their own."""
CLAIMS: Final[tuple[Series[Published], ...]] = (
    Series(
        "kaisched_device_class_devices",
        "Devices of a class that nodes have for claims; those of pools that are being updated do"
        " not count. The first 200 classes.",
        ("class",),
    ),
    Series(
        "kaisched_device_class_allocated_devices",
        "Of these devices, those that claims have.",
        ("class",),
    ),
    Series(
        "kaisched_device_class_waiting_claims",
        "Claims without devices that pending pods use, by each class that they ask for; other for"
        " classes that do not exist, and for those beyond the first 200.",
        ("class",),
    ),
)


@dataclass(frozen=True, slots=True)
class ClaimFigures:
    """What the figures rest on, as of the last cycle."""

    offer: Offer
    held: Mapping[str, Held]
    """What claims have, by claim."""
    waiting: tuple[ResourceClaim, ...] = ()
    """Claims without devices that pending pods use."""


@dataclass(frozen=True, slots=True)
class _Pool:
    """The devices of a pool that are in some class."""

    slices: tuple[Slice, ...]
    """What it was counted from: the same objects for as long as nothing changes."""
    offered: Mapping[Place, Counter[str]]
    """How many of each class there are, by where they can be used."""
    devices: Mapping[str, tuple[Place, tuple[str, ...]]]
    """By name of a device: where it can be used, and its classes."""


class DeviceCounts:
    """Counts devices by class; a pool is only counted again when it changes.

    Scrapes may come at the same time: what is remembered is replaced as a whole.
    """

    def __init__(self) -> None:
        """Remember nothing."""
        self._known: tuple[tuple[DeviceClass, ...], dict[tuple[str, str], _Pool]] = (), {}

    def of(
        self, figures: ClaimFigures, nodes: NodeTable
    ) -> tuple[dict[str, int], dict[str, int], dict[str, int]]:
        """Return devices, devices that claims have, and claims that wait, each by class."""
        offer = figures.offer
        classes = tuple(of for _, of in sorted(offer.classes.items())[:CLASS_CAP])
        pools = self._counted(offer, classes)
        reach = _Reach(nodes)
        offered, allocated = (dict.fromkeys((it.name for it in classes), 0) for _ in range(2))
        for pool in pools.values():
            for place, numbers in pool.offered.items():
                if reach.has(place):
                    for name, number in numbers.items():
                        offered[name] += number
        for driver, of_pool, device in {
            identity for it in figures.held.values() for identity, _ in it.portions
        }:
            found = pools.get((driver, of_pool))
            place, names = found.devices.get(device, _NOWHERE) if found else _NOWHERE
            if names and reach.has(place):
                for name in names:
                    allocated[name] += 1
        return offered, allocated, _waiting_claims(figures.waiting, offered)

    def _counted(
        self, offer: Offer, classes: tuple[DeviceClass, ...]
    ) -> dict[tuple[str, str], _Pool]:
        before, known = self._known
        if before != classes:
            known = {}
        pools = {}
        for key, listed in offer.slices.items():
            slices = tuple(listed)
            pool = known.get(key)
            is_same = pool is not None and pool.slices == slices
            pools[key] = pool if pool is not None and is_same else _pool(slices, classes)
        self._known = classes, pools
        return pools


_NOWHERE: Final[tuple[Place, tuple[str, ...]]] = (Place(), ())


class _Reach:
    """Tells whether devices at a place can be used from some node; each place is judged once."""

    def __init__(self, nodes: NodeTable) -> None:
        self._nodes, self._names = nodes, frozenset(nodes.name)
        self._known: dict[Place, bool] = {}

    def has(self, place: Place) -> bool:
        if place.node:
            return place.node in self._names
        known = self._known.get(place)
        if known is None:
            sites = map(Site, self._nodes.name, self._nodes.labels)
            known = self._known[place] = any(matches(place, it) for it in sites)
        return known


def _pool(slices: Sequence[Slice], classes: Sequence[DeviceClass]) -> _Pool:
    """Count a pool: its newest generation, once all slices of it are there."""
    newest = max(it.generation for it in slices)
    current = [it for it in slices if it.generation == newest]
    offered: dict[Place, Counter[str]] = {}
    devices: dict[str, tuple[Place, tuple[str, ...]]] = {}
    for one in current if len(current) == current[0].slices else ():
        for device in one.devices:
            place = one.place or device.place or Place()
            names = tuple(it.name for it in classes if is_in(it, device))
            if names:
                offered.setdefault(place, Counter()).update(names)
                devices[device.name] = place, names
    return _Pool(tuple(slices), offered, devices)


def _waiting_claims(claims: Sequence[ResourceClaim], known: Mapping[str, int]) -> dict[str, int]:
    counts = dict.fromkeys((*known, OTHER), 0)
    for claim in claims:
        asks = (
            ask
            for it in claim.spec.devices.requests
            for ask in ((it.exactly,) if it.exactly is not None else it.first_available)
        )
        names = {it.device_class_name for it in asks}
        for name in {it if it in known else OTHER for it in names}:
            counts[name] += 1
    return counts


def claim_families(
    figures: ClaimFigures | None, nodes: NodeTable | None, counts: DeviceCounts
) -> Iterator[Metric]:
    """Yield the metrics; without claims on devices they have no series."""
    numbers: tuple[Mapping[str, int], ...] = ({}, {}, {})
    if figures is not None and nodes is not None:
        numbers = counts.of(figures, nodes)
    for series, by_class in zip(CLAIMS, numbers, strict=True):
        yield series.family(by_class)


# -- cycles and queues -----------------------------------------------------------------------------

QUEUE_CAP: Final = 2000


def _put_off(published: Published) -> Samples:
    """Return the jobs that were put off by queue, zeros included, so that an alert can compare."""
    counts: dict[str, float] = {}
    for row, queue in enumerate(published.shares):
        name = queue.name if row < QUEUE_CAP else OTHER
        counts[name] = counts.get(name, 0) + published.put_off.get(queue.name, 0)
    return counts


_CYCLES: Final[tuple[Series[Published], ...]] = (
    Series("kaisched_cycle_duration_seconds", "Duration of a scheduling cycle.", is_histogram=True),
    Series(
        "kaisched_cycles_total",
        "Cycles by outcome: completed; abandoned, because a plugin that the division needs failed;"
        " failed with an error. The last two decide nothing.",
        ("outcome",),
        attrgetter("cycles"),
    ),
    Series(
        "kaisched_last_cycle_timestamp_seconds",
        "When the last cycle ended, seconds since 1970; 0 before the first.",
        (),
        attrgetter("last_cycle_s"),
    ),
    Series(
        "kaisched_pending_jobs",
        "Jobs pending after the last cycle, by their dominant reason.",
        ("reason",),
        attrgetter("pending"),
    ),
    Series(
        "kaisched_put_off_jobs",
        "Jobs that the last cycle put off: their queue has too many different pending jobs.",
        ("queue",),
        _put_off,
    ),
    Series("kaisched_binds_total", "Pods bound.", (), attrgetter("binds")),
    Series(
        "kaisched_evictions_total",
        "Pods evicted, by action.",
        ("action",),
        attrgetter("evictions"),
    ),
    Series(
        "kaisched_queue_evictions_total",
        "Pods evicted, by the queue that lost them, the queue that they were evicted for (empty"
        " for none), and the reason: what entitles the latter by the policy, such as fair_sharing,"
        " priority or reclamation; without a word of the policy, the action.",
        ("queue", "preemptor", "reason"),
        attrgetter("queue_evictions"),
    ),
    Series(
        "kaisched_evictions_left_pods",
        "Pods that may still be evicted within the hour; +Inf without an eviction budget.",
        (),
        lambda published: (
            math.inf if published.evictions_left < 0 else float(published.evictions_left)
        ),
    ),
    Series(
        "kaisched_stuck_pods",
        "Pods that were deleted long ago and still hold room, which no job is made to wait for.",
        (),
        attrgetter("stuck"),
    ),
    Series(
        "kaisched_shared_gpus",
        "GPUs that pods share, or that are held for pods to share.",
        (),
        lambda published: float(_shared_cards(published.nodes)),
    ),
    Series(
        "kaisched_shared_gpu_used_ratio",
        "Part of a shared GPU that pods hold, by the number that plans and reasons give it: the"
        " first 2,000.",
        ("node", "card"),
        lambda published: _used_cards(published.nodes),
    ),
    Series(
        "kaisched_unheld_gpus",
        "GPUs that pods share and that no reservation pod holds: the device plugin may give them to"
        " others.",
        (),
        lambda published: float(_unheld_cards(published.nodes)),
    ),
    Series(
        "kaisched_nominations_total",
        "Pods promised room that they get once enough pods have left.",
        (),
        attrgetter("nominations"),
    ),
    Series(
        "kaisched_plugin_seconds_total",
        "Time spent in a plugin's answers.",
        ("plugin",),
        attrgetter("plugin_s"),
    ),
    Series(
        "kaisched_plugin_failures_total",
        "Answers in which a plugin raised or was invalid, and runs in which an action raised.",
        ("plugin",),
        attrgetter("plugin_failures"),
    ),
)

_OBSERVED: Final[tuple[Series[Published], ...]] = (
    Series(
        "kaisched_observed_jobs_total",
        "While observing: jobs of which another scheduler started pods, by when we would have: at"
        " the same_time, earlier, or not_yet.",
        ("outcome",),
        attrgetter("observed_jobs"),
    ),
    Series(
        "kaisched_observed_pods_total",
        "While observing: pods that another scheduler bound, by where we would have: same_node,"
        " other_node, or not_placed.",
        ("outcome",),
        attrgetter("observed_pods"),
    ),
    Series(
        "kaisched_observed_order_total",
        "While observing: jobs that another scheduler started, by whether one that we would have"
        " started first still waits in their queue: other_order, or same_order.",
        ("outcome",),
        attrgetter("observed_order"),
    ),
)

_SHARES: Final = {
    "fair_share": "Fair share of a queue",
    "allocated": "What a queue's running pods hold",
    "requested": "What a queue's running and pending pods ask for",
    "pending": "What a queue's pods ask for that do not run and are promised nothing",
    "deserved": "Quota of a queue (+Inf for unlimited)",
}
_EXTENDED: Final = ("pieces", 1, "in pieces of an extended resource")


def _share_series() -> Iterator[Series[Published]]:
    for share, text in _SHARES.items():
        for unit, _, words in UNITS.values():
            yield Series(f"kaisched_queue_{share}_{unit}", f"{text}, {words}.", ("queue",))
        unit, _, words = _EXTENDED
        yield Series(f"kaisched_queue_{share}_{unit}", f"{text}, {words}.", ("queue", "resource"))


def _figures(published: Published) -> Samples:
    """Return the figures of the first queues: unlike amounts they cannot be added up."""
    return {
        (queue.name, figure): number
        for queue in published.shares[:QUEUE_CAP]
        for figure, number in queue.figures.items()
    }


_FIGURE: Final[Series[Published]] = Series(
    "kaisched_queue_figure_ratio",
    "What the policy of the shard tells of a queue, by figure: such as its share where it lends.",
    ("queue", "figure"),
    _figures,
)


_DOMAINS: Final[Series[Published]] = Series(
    "kaisched_topology_domains",
    "Starts of gangs with a constraint of a topology, by how many domains of a level their pods are"
    " in; those on nodes without all labels of the topology count as in one domain more.",
    ("topology", "level"),
    is_histogram=True,
)


METRICS: Final[tuple[Series[Any], ...]] = (
    *_CYCLES,
    *_OBSERVED,
    *_share_series(),
    _FIGURE,
    _DOMAINS,
    *CLAIMS,
    *HISTORY,
    *ADAPTER,
)
"""Every metric, in the order of the reference page."""


class CycleCollector(Collector):
    """Serves the published state. ``publish`` is called by the loop, ``collect`` by a scrape."""

    def __init__(self) -> None:
        """Start with the state before the first cycle."""
        self._published = Published()
        self._devices = DeviceCounts()

    @property
    def published(self) -> Published:
        """The state that the next scrape will show."""
        return self._published

    def publish(self, published: Published) -> None:
        """Replace the state for scrapes, at once and as a whole."""
        self._published = published

    def collect(self) -> Iterable[Metric]:
        """Render one scrape from one state."""
        published = self._published
        for series in (*_CYCLES, *_OBSERVED):
            if series.is_histogram:
                buckets = cumulated(BUCKETS_S, published.durations)
                yield HistogramMetricFamily(
                    series.name, series.help, buckets=buckets, sum_value=published.duration_sum_s
                )
            else:
                yield series.family(series.read(published))
        yield from _queue_families(published.shares)
        yield _FIGURE.family(_FIGURE.read(published))
        yield _domains(published.domains)
        yield from claim_families(published.claims, published.nodes, self._devices)
        yield from (series.family(series.read(published)) for series in HISTORY)


def registry_of(*collectors: Collector) -> CollectorRegistry:
    """Return a registry with only these collectors."""
    registry = CollectorRegistry()
    for collector in collectors:
        registry.register(collector)
    return registry


def _queue_families(shares: Sequence[QueueShare]) -> Iterator[Metric]:
    by_name = {series.name: series for series in METRICS}
    for share in _SHARES:
        families = {
            unit: GaugeMetricFamily(
                (name := f"kaisched_queue_{share}_{unit}"),
                by_name[name].help,
                labels=by_name[name].labels,
            )
            for unit, _, _ in (*UNITS.values(), _EXTENDED)
        }
        for (queue, resource), amount in _capped(shares, share).items():
            unit, factor, _ = UNITS.get(resource, _EXTENDED)
            labels = [queue] if resource in UNITS else [queue, resource]
            families[unit].add_metric(labels, amount * factor)
        yield from families.values()


def _domains(spreads: Spreads) -> Metric:
    family = HistogramMetricFamily(_DOMAINS.name, _DOMAINS.help, labels=_DOMAINS.labels)
    for labels, spread in spreads.items():
        family.add_metric(labels, spread.buckets(), float(spread.total))
    return family


def _capped(shares: Sequence[QueueShare], share: str) -> dict[tuple[str, str], float]:
    """Return amounts by (queue, resource) in base units; infinite for no bound."""
    amounts: dict[tuple[str, str], float] = {}
    for row, queue in enumerate(shares):
        name = queue.name if row < QUEUE_CAP else OTHER
        for resource, amount in getattr(queue, share).items():
            if resource == "pods":  # slots of nodes, which queues do not divide
                continue
            value = math.inf if amount < 0 else float(amount)
            amounts[name, resource] = amounts.get((name, resource), 0.0) + value
    return amounts
