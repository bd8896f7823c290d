"""Prometheus metrics, where all of one scrape come from one published state.

Labels are bounded: queue (the first 2,000, the rest summed as ``other``), resource, action, plugin,
reason, outcome, node and card (of the first 2,000 shared GPUs), class (the first 200 device
classes), topology and level (of the objects that the cluster has), and those in adapter.py. No
metric names a pod.

Metrics of usage history have KAI-Scheduler's names for their inputs and name every queue: a queue
that is left out would lose its history. A Prometheus server that scrapes us collects the series
that KAI-Scheduler's queue controller exposes, so history goes on when either replaces the other.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import TYPE_CHECKING, Final

import numpy as np
from prometheus_client import CollectorRegistry
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector

from kaisched.core.claims.model import Place, Site, is_in
from kaisched.core.claims.pools import matches
from kaisched.core.usage import PARTS, UsageState
from kaisched.framework.report.records import QueueShare
from kaisched.telemetry.metrics import ADAPTER
from kaisched.telemetry.published import BUCKETS_S, OTHER, Pairs, Published, Spreads
from kaisched.units import MEMORY_UNIT

if TYPE_CHECKING:
    from kaisched.core.claims.model import DeviceClass, Slice
    from kaisched.core.claims.offer import Offer
    from kaisched.core.claims.table import Held
    from kaisched.core.tables import NodeTable
    from kaisched.objects.devices import ResourceClaim


UNITS: Final = {
    "gpu": ("gpus", 1 / 1000, "in GPUs"),
    "cpu": ("cpu_cores", 1 / 1000, "in cores"),
    "memory": ("memory_bytes", MEMORY_UNIT, "in bytes"),
}
"""By resource: the end of a metric's name, the factor from base units, and a description."""

_READ: Final = "KAI-Scheduler's name, read by the usage store `prometheus`"

HISTORY: Final = (
    *(
        (
            f"kai_queue_allocated_{unit}",
            ("queue_name",),
            f"What a queue's running pods hold, {words}; {_READ}.",
        )
        for unit, _, words in UNITS.values()
    ),
    *(
        (f"kaisched_capacity_{unit}", (), f"Capacity that is divided among the queues, {words}.")
        for unit, _, words in UNITS.values()
    ),
    (
        "kaisched_queue_usage_ratio",
        ("queue", "resource"),
        "Decayed usage over decayed capacity, as the last cycle saw it.",
    ),
    ("kaisched_usage_age_seconds", (), "Age of the newest sample of usage history; +Inf for none."),
    ("kaisched_usage_coverage_ratio", (), "Share of the window that samples cover, 0 to 1."),
    (
        "kaisched_usage_state",
        ("state",),
        "1 for the state of usage history: fresh, partial, stale or absent; all 0 without history.",
    ),
    (
        "kaisched_usage_server_state",
        (),
        "1 if the Prometheus server of usage history answers, 0 if not; absent without one.",
    ),
)
"""Name, labels and help of each metric."""


def history_families(published: Published) -> Iterator[Metric]:
    """Yield the metric families of one state."""
    families = {
        name: GaugeMetricFamily(name, text, labels=labels) for name, labels, text in HISTORY
    }
    for share in published.shares:
        for resource, (unit, factor, _) in UNITS.items():
            amount = share.allocated.get(resource, 0)
            families[f"kai_queue_allocated_{unit}"].add_metric([share.name], amount * factor)
    for resource, (unit, factor, _) in UNITS.items():
        if resource in published.capacity:
            amount = published.capacity[resource]
            families[f"kaisched_capacity_{unit}"].add_metric([], amount * factor)
    _add_usage(families, published)
    yield from families.values()


def _add_usage(families: Mapping[str, GaugeMetricFamily], published: Published) -> None:
    """Add the state of usage history, and what queues used."""
    usage = published.usage
    for state in UsageState:
        is_so = usage is not None and usage.state is state
        families["kaisched_usage_state"].add_metric([state.value], float(is_so))
    if published.usage_server is not None:
        reachable = float(published.usage_server)
        families["kaisched_usage_server_state"].add_metric([], reachable)
    families["kaisched_usage_age_seconds"].add_metric([], usage.age_s if usage else math.inf)
    families["kaisched_usage_coverage_ratio"].add_metric([], usage.coverage if usage else 0.0)
    if usage is not None:
        for row, resource in enumerate(published.usage_resources):
            if resource not in UNITS:
                continue
            for queue, parts in zip(published.usage_queues, usage.parts[row].tolist(), strict=True):
                families["kaisched_queue_usage_ratio"].add_metric([queue, resource], parts / PARTS)


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


CLASS_CAP: Final = 200
"""So many device classes have series of their own."""
CLAIMS: Final = (
    (
        "kaisched_device_class_devices",
        (
            "Devices of a class that nodes have for claims; those of pools that are being updated"
            " do not count. The first 200 classes."
        ),
    ),
    ("kaisched_device_class_allocated_devices", "Of these devices, those that claims have."),
    (
        "kaisched_device_class_waiting_claims",
        (
            "Claims without devices that pending pods use, by each class that they ask for; other"
            " for classes that do not exist, and for those beyond the first 200."
        ),
    ),
)
"""Name and help of each metric."""


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
    for (name, text), by_class in zip(CLAIMS, numbers, strict=True):
        family = GaugeMetricFamily(name, text, labels=("class",))
        for label, number in by_class.items():
            family.add_metric([label], number)
        yield family


QUEUE_CAP: Final = 2000

_ByLabel = Mapping[str, float]


def _put_off(published: Published) -> _ByLabel:
    """Return the jobs that were put off by queue, zeros included, so that an alert can compare."""
    counts: dict[str, float] = {}
    for row, queue in enumerate(published.shares):
        name = queue.name if row < QUEUE_CAP else OTHER
        counts[name] = counts.get(name, 0) + published.put_off.get(queue.name, 0)
    return counts


@dataclass(frozen=True, slots=True)
class Series:
    """One metric: name, type, help, and the function that reads its values."""

    name: str
    """Name as exposed; a counter's ends in ``_total``."""
    kind: str
    help: str
    labels: tuple[str, ...] = ()
    read: Callable[[Published], float | _ByLabel | Pairs | Mapping[tuple[str, str], float]] = (
        lambda _: 0.0
    )


_CYCLES: Final = (
    Series("kaisched_cycle_duration_seconds", "histogram", "Duration of a scheduling cycle."),
    Series(
        "kaisched_cycles_total",
        "counter",
        "Cycles by outcome: completed; abandoned, because a plugin that the division needs failed;"
        " failed with an error. The last two decide nothing.",
        ("outcome",),
        attrgetter("cycles"),
    ),
    Series(
        "kaisched_last_cycle_timestamp_seconds",
        "gauge",
        "When the last cycle ended, seconds since 1970; 0 before the first.",
        (),
        attrgetter("last_cycle_s"),
    ),
    Series(
        "kaisched_pending_jobs",
        "gauge",
        "Jobs pending after the last cycle, by their dominant reason.",
        ("reason",),
        attrgetter("pending"),
    ),
    Series(
        "kaisched_put_off_jobs",
        "gauge",
        "Jobs that the last cycle put off: their queue has too many different pending jobs.",
        ("queue",),
        _put_off,
    ),
    Series("kaisched_binds_total", "counter", "Pods bound.", (), attrgetter("binds")),
    Series(
        "kaisched_evictions_total",
        "counter",
        "Pods evicted, by action.",
        ("action",),
        attrgetter("evictions"),
    ),
    Series(
        "kaisched_queue_evictions_total",
        "counter",
        "Pods evicted, by the queue that lost them, the queue that they were evicted for (empty"
        " for none), and the reason: what entitles the latter by the policy, such as fair_sharing,"
        " priority or reclamation; without a word of the policy, the action.",
        ("queue", "preemptor", "reason"),
        attrgetter("queue_evictions"),
    ),
    Series(
        "kaisched_evictions_left_pods",
        "gauge",
        "Pods that may still be evicted within the hour; +Inf without an eviction budget.",
        (),
        lambda published: (
            math.inf if published.evictions_left < 0 else float(published.evictions_left)
        ),
    ),
    Series(
        "kaisched_stuck_pods",
        "gauge",
        "Pods that were deleted long ago and still hold room, which no job is made to wait for.",
        (),
        attrgetter("stuck"),
    ),
    Series(
        "kaisched_shared_gpus",
        "gauge",
        "GPUs that pods share, or that are held for pods to share.",
        (),
        lambda published: float(_shared_cards(published.nodes)),
    ),
    Series(
        "kaisched_shared_gpu_used_ratio",
        "gauge",
        "Part of a shared GPU that pods hold, by the number that plans and reasons give it: the"
        " first 2,000.",
        ("node", "card"),
        lambda published: _used_cards(published.nodes),
    ),
    Series(
        "kaisched_unheld_gpus",
        "gauge",
        "GPUs that pods share and that no reservation pod holds: the device plugin may give them to"
        " others.",
        (),
        lambda published: float(_unheld_cards(published.nodes)),
    ),
    Series(
        "kaisched_nominations_total",
        "counter",
        "Pods promised room that they get once enough pods have left.",
        (),
        attrgetter("nominations"),
    ),
    Series(
        "kaisched_plugin_seconds_total",
        "counter",
        "Time spent in a plugin's answers.",
        ("plugin",),
        attrgetter("plugin_s"),
    ),
    Series(
        "kaisched_plugin_failures_total",
        "counter",
        "Answers in which a plugin raised or was invalid, and runs in which an action raised.",
        ("plugin",),
        attrgetter("plugin_failures"),
    ),
)

_OBSERVED: Final = (
    Series(
        "kaisched_observed_jobs_total",
        "counter",
        "While observing: jobs of which another scheduler started pods, by when we would have: at"
        " the same_time, earlier, or not_yet.",
        ("outcome",),
        attrgetter("observed_jobs"),
    ),
    Series(
        "kaisched_observed_pods_total",
        "counter",
        "While observing: pods that another scheduler bound, by where we would have: same_node,"
        " other_node, or not_placed.",
        ("outcome",),
        attrgetter("observed_pods"),
    ),
    Series(
        "kaisched_observed_order_total",
        "counter",
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


def _share_series() -> Iterator[Series]:
    for share, text in _SHARES.items():
        for unit, _, words in UNITS.values():
            yield Series(f"kaisched_queue_{share}_{unit}", "gauge", f"{text}, {words}.", ("queue",))
        unit, _, words = _EXTENDED
        yield Series(
            f"kaisched_queue_{share}_{unit}", "gauge", f"{text}, {words}.", ("queue", "resource")
        )


_FIGURE: Final = Series(
    "kaisched_queue_figure_ratio",
    "gauge",
    "What the policy of the shard tells of a queue, by figure: such as its share where it lends.",
    ("queue", "figure"),
)


_DOMAINS: Final = Series(
    "kaisched_topology_domains",
    "histogram",
    "Starts of gangs with a constraint of a topology, by how many domains of a level their pods are"
    " in; those on nodes without all labels of the topology count as in one domain more.",
    ("topology", "level"),
)


METRICS: Final[tuple[Series, ...]] = (
    *_CYCLES,
    *_OBSERVED,
    *_share_series(),
    _FIGURE,
    _DOMAINS,
    *(Series(name, "gauge", text, ("class",)) for name, text in CLAIMS),
    *(Series(name, "gauge", text, labels) for name, labels, text in HISTORY),
    *(Series(row.name, row.kind, row.help, row.labels) for row in ADAPTER),
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
            yield (
                _duration(series, published)
                if series.kind == "histogram"
                else _plain(series, published)
            )
        yield from _queue_families(published.shares)
        yield _figures(published.shares)
        yield _domains(published.domains)
        yield from claim_families(published.claims, published.nodes, self._devices)
        yield from history_families(published)


def registry_of(*collectors: Collector) -> CollectorRegistry:
    """Return a registry with only these collectors."""
    registry = CollectorRegistry()
    for collector in collectors:
        registry.register(collector)
    return registry


def _duration(series: Series, published: Published) -> Metric:
    below = 0
    buckets = []
    for bound, number in zip((*BUCKETS_S, math.inf), published.durations, strict=True):
        below += number
        buckets.append(("+Inf" if math.isinf(bound) else str(bound), float(below)))
    return HistogramMetricFamily(
        series.name, series.help, buckets=buckets, sum_value=published.duration_sum_s
    )


def _plain(series: Series, published: Published) -> Metric:
    make = CounterMetricFamily if series.kind == "counter" else GaugeMetricFamily
    value = series.read(published)
    name = series.name.removesuffix("_total") if series.kind == "counter" else series.name
    if not isinstance(value, Mapping):
        return make(name, series.help, value=value)
    family = make(name, series.help, labels=series.labels)
    for label, number in value.items():
        family.add_metric([label] if isinstance(label, str) else label, number)
    return family


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


def _figures(shares: Sequence[QueueShare]) -> Metric:
    """Return the figures of the first queues: unlike amounts they cannot be added up."""
    family = GaugeMetricFamily(_FIGURE.name, _FIGURE.help, labels=_FIGURE.labels)
    for queue in shares[:QUEUE_CAP]:
        for figure, number in queue.figures.items():
            family.add_metric([queue.name, figure], number)
    return family


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
