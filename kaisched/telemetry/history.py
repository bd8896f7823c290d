"""Metrics of usage history, with KAI-Scheduler's names for their inputs.

A Prometheus server that scrapes us collects the series that KAI-Scheduler's queue controller
exposes, so history goes on when either replaces the other. These metrics have no bound on queues: a
queue that is left out would lose its history.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

from prometheus_client.core import GaugeMetricFamily, Metric

from kaisched.core.usage import PARTS, UsageState
from kaisched.units import MEMORY_UNIT

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from kaisched.telemetry.published import Published

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
