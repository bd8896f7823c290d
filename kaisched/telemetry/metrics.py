"""Prometheus metrics, where all of one scrape come from one published state.

Labels are bounded: queue (the first 2,000, the rest summed as ``other``), resource, action, plugin,
reason, outcome, node and card (of the first 2,000 shared GPUs), class (the first 200 device
classes), topology and level (of the objects that the cluster has), and those in adapter.py. Only
metrics of usage history name every queue. No metric names a pod.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Final

from prometheus_client import CollectorRegistry
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector

from kaisched.framework.report.records import QueueShare
from kaisched.telemetry import cards
from kaisched.telemetry.adapter import ADAPTER
from kaisched.telemetry.claims import ROWS as CLAIMS
from kaisched.telemetry.claims import DeviceCounts, claim_families
from kaisched.telemetry.domains import Spreads
from kaisched.telemetry.history import HISTORY, UNITS, history_families
from kaisched.telemetry.published import BUCKETS_S, OTHER, Pairs, Published

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
        lambda published: float(cards.shared(published.nodes)),
    ),
    Series(
        "kaisched_shared_gpu_used_ratio",
        "gauge",
        "Part of a shared GPU that pods hold, by the number that plans and reasons give it: the"
        " first 2,000.",
        ("node", "card"),
        lambda published: cards.used(published.nodes),
    ),
    Series(
        "kaisched_unheld_gpus",
        "gauge",
        "GPUs that pods share and that no reservation pod holds: the device plugin may give them to"
        " others.",
        (),
        lambda published: float(cards.unheld(published.nodes)),
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
