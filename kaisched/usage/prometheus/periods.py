"""Sums over a period from the scheduler's own metrics in a Prometheus server, for reports.

Series of a queue are joined by their maximum at each step: processes that replace each other, and
copies of one server, report the same amounts.
"""

from __future__ import annotations

import math
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from kaisched.errors import UsageUnavailable
from kaisched.usage.period import HOUR_S, Period
from kaisched.usage.prometheus.client import Client
from kaisched.usage.prometheus.http import QueryError
from kaisched.usage.settings import PrometheusSettings

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

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
