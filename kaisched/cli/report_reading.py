"""What reports are made of: evictions and jobs, from a live view or a Prometheus server."""

from __future__ import annotations

from collections import Counter
from datetime import datetime
from statistics import median
from typing import TYPE_CHECKING, Any, Final

from kaisched.clock import SystemClock
from kaisched.view.paging import MOST

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from kaisched.cli.live import Server

EVICTIONS: Final = "kaisched.io/evictions-report/v1"
WAITS: Final = "kaisched.io/waits-report/v1"


def evictions_of(url: str, seconds: float) -> dict[str, Any]:
    """Return the evictions that a Prometheus server has counted.

    Raises:
        UsageUnavailable: the server gives no usable answer.

    """
    from kaisched.usage.prometheus.store import evictions_of  # noqa: PLC0415 - where asked

    now_s = SystemClock().now_s()
    found = evictions_of(url, now_s - seconds, now_s)
    entries = [
        {"queue": it.queue, "preemptor": it.preemptor, "reason": it.reason, "pods": it.pods}
        for it in found
    ]
    return {"schemaVersion": EVICTIONS, "seconds": seconds, "since": None, "evictions": entries}


def seen_evictions(server: Server, seconds: float) -> dict[str, Any]:
    """Return the evictions among the last decisions of a running scheduler."""
    since_s, counts, oldest = SystemClock().now_s() - seconds, Counter[tuple[str, ...]](), None
    for it in server.entries("/evictions", "evictions", limit=MOST):  # the latest first
        if it["time"] is not None and _seconds(it["time"]) < since_s:
            break
        oldest = it["time"]
        counts[it["queue"], it["beneficiaryQueue"] or "", it["rule"]] += 1
    entries = [
        {"queue": queue, "preemptor": preemptor, "reason": reason, "pods": pods}
        for (queue, preemptor, reason), pods in sorted(counts.items())
    ]
    return {"schemaVersion": EVICTIONS, "seconds": seconds, "since": oldest, "evictions": entries}


def waits_of(server: Server, seconds: float) -> dict[str, Any]:
    """Return by queue how long the jobs of a running scheduler wait, or waited."""
    now_s = SystemClock().now_s()
    waiting: dict[str, list[float]] = {}
    waited: dict[str, list[float]] = {}
    for job in server.entries("/jobs", "jobs", limit=MOST, sort="name"):
        if job["created"] is None:
            continue
        created_s = _seconds(job["created"])
        if job["state"] == "pending":
            waiting.setdefault(job["queue"], []).append(max(now_s - created_s, 0.0))
        elif job["started"] is not None and _seconds(job["started"]) > now_s - seconds:
            wait_s = max(_seconds(job["started"]) - created_s, 0.0)
            waited.setdefault(job["queue"], []).append(wait_s)
    return {
        "schemaVersion": WAITS,
        "seconds": seconds,
        "queues": [
            {
                "name": name,
                "waiting": _summary(waiting, name),
                "started": _summary(waited, name),
            }
            for name in sorted({*waiting, *waited})
        ],
    }


def _summary(waits: Mapping[str, Iterable[float]], name: str) -> dict[str, Any]:
    found = sorted(waits.get(name, ()))
    return {
        "jobs": len(found),
        "medianSeconds": round(median(found), 3) if found else None,
        "longestSeconds": round(found[-1], 3) if found else None,
    }


def _seconds(stamp: str) -> float:
    return datetime.fromisoformat(stamp).timestamp()
