"""``kaisched report``: what queues used, who was evicted for whom, and how long jobs waited.

Evictions and jobs are read from a live view or a Prometheus server.
"""

from __future__ import annotations

from collections import Counter
from datetime import datetime
from statistics import median
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

import typer

from kaisched.cli import options, source
from kaisched.cli.printing import Printer, columns, print_table, queue_names, say
from kaisched.clock import SystemClock
from kaisched.units import format_duration
from kaisched.view.paths import MOST

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from kaisched.cli.live import Server

command = typer.Typer()
_BY = typer.Option("--by", help="What the rows are.")


@command.callback()
def _group() -> None:
    """Report what queues used, which pods were evicted for whom, and how long their jobs waited.

    Past weeks are read from a Prometheus server that scrapes the scheduler, or from the file of
    the usage store `sqlite`.
    """


@command.command("usage")
def usage(
    *,
    last: options.Last = "1w",
    prometheus: options.Prometheus = "",
    history_file: options.HistoryFile = None,
    resource: options.Resource = "gpu",
    output: options.Output = "table",
) -> None:
    """Report what queues used, and how much their fair shares came to, in GPU-hours.

    A queue's use contains that of the queues below it. Only Prometheus knows fair shares; a usage
    file goes back for the window of its shard.
    """
    origin = source.Origin(prometheus, history_file)
    period = source.period_of(origin, resource, last, "--last")
    print_usage(period.document(), output)


@command.command("evictions")
def evictions(
    *,
    by: Annotated[Literal["queue", "preemptor", "reason", "all"], _BY] = "queue",
    last: options.Last = "1w",
    prometheus: options.Prometheus = "",
    server: options.ServerUrl = "",
    shard_name: options.ShardName = "",
    output: options.Output = "table",
) -> None:
    """Report how many pods were evicted: from which queue, for which one, by which rule.

    Prometheus knows all of the time; the live view of a running scheduler its last 20,000
    decisions.
    """
    seconds, origin = source.span_s(last, "--last"), source.Origin(prometheus)
    if server or not origin.url:
        found = seen_evictions(source.told(source.running_scheduler(server, shard_name)), seconds)
    else:
        found = evictions_of(source.prometheus_of(origin), seconds)
    print_evictions(found, by, output)


@command.command("waits")
def waits(
    *,
    server: options.ServerUrl = "",
    shard_name: options.ShardName = "",
    last: Annotated[
        str, typer.Option("--last", help="Count jobs that started since then, such as 12h or 4w.")
    ] = "1w",
    output: options.Output = "table",
) -> None:
    """Report by queue how long waiting jobs have waited, and how long running ones did.

    It reads the live view of a running scheduler, which does not know jobs that have ended: short
    jobs count less than they did. Of several starts of a pod the last counts.
    """
    seconds = source.span_s(last, "--last")
    found = waits_of(source.told(source.running_scheduler(server, shard_name)), seconds)
    Printer(_print_waits, _wait_rows, queue_names).print(found, output)


# -- what reports are made of --------------------------------------------------------------------

EVICTIONS: Final = "kaisched.io/evictions-report/v1"
WAITS: Final = "kaisched.io/waits-report/v1"


def evictions_of(url: str, seconds: float) -> dict[str, Any]:
    """Return the evictions that a Prometheus server has counted.

    Raises:
        UsageUnavailable: the server gives no usable answer.

    """
    from kaisched.usage.prometheus import store  # noqa: PLC0415 - only when asked

    now_s = SystemClock().now_s()
    found = store.evictions_of(url, now_s - seconds, now_s)
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


# -- tables and rows -----------------------------------------------------------------------------

_GIBIBYTE: Final = 1 << 30
UNITS: Final = {"gpu": "GPU-hours", "cpu": "core-hours", "memory": "GiB-hours"}
_PERIOD: Final = columns("QUEUE", "#USED", "#FAIR SHARE", "#GOT", "#?OF CAPACITY")


def hours_of(resource: str, amount: float | None) -> str:
    """Return an amount times hours for a cell, to three digits at least."""
    if amount is None:
        return "-"
    shown = amount / _GIBIBYTE if resource == "memory" else amount
    return f"{shown:,.0f}" if shown >= 100 else f"{shown:.3g}"  # noqa: PLR2004 - three digits


def print_period(period: Mapping[str, Any]) -> None:
    """Print what queues used in a period, and which part of it is known."""
    resource, capacity = period["resource"], period["capacityHours"]
    print_table(
        f"The last {format_duration(period['seconds'])}: {UNITS[resource]}",
        _PERIOD,
        [
            (
                it["name"],
                hours_of(resource, it["usedHours"]),
                hours_of(resource, it["entitledHours"]),
                _ratio(it["usedHours"], it["entitledHours"]),
                _ratio(it["usedHours"], capacity),
            )
            for it in period["queues"]
        ],
    )
    say(f"{period['covered']:.0%} of this time is covered by samples")


def _ratio(amount: float, of: float | None) -> str:
    return f"{amount / of:.0%}" if of else "-"


def period_rows(period: Mapping[str, Any]) -> Iterator[Sequence[object]]:
    """Yield the rows of CSV."""
    heads = ("name", "usedHours", "entitledHours", "waitedHours")
    yield heads
    for it in period["queues"]:
        yield tuple(it[head] for head in heads)


USAGE: Final = "kaisched.io/usage-report/v1"
_KEYS: Final = ("queue", "preemptor", "reason")
_HEADS: Final = {"queue": "FROM QUEUE", "preemptor": "FOR QUEUE", "reason": "BECAUSE"}
_WAITS: Final = columns(
    "QUEUE", "#WAITING", "#HALF FOR", "#LONGEST", "#STARTED", "#HALF AFTER", "#LATEST"
)


def print_usage(period: Mapping[str, Any], output: str) -> None:
    """Print what queues used."""
    document = {"schemaVersion": USAGE, **period}
    Printer(print_period, period_rows, queue_names).print(document, output)


def print_evictions(document: Mapping[str, Any], by: str, output: str) -> None:
    """Print how many pods were evicted, summed up by one of the keys or by all three."""
    keys = _KEYS if by == "all" else (by,)
    counts: Counter[tuple[str, ...]] = Counter()
    for it in document["evictions"]:
        counts[tuple(it[key] for key in keys)] += it["pods"]
    lines = sorted(counts.items(), key=lambda it: (-it[1], it[0]))
    entries = [{**dict(zip(keys, key, strict=True)), "pods": pods} for key, pods in lines]

    def as_text(document: Mapping[str, Any]) -> None:
        span = format_duration(document["seconds"])
        heads = columns(*(_HEADS[key] for key in keys), "#PODS")
        rows = [[*(part or "-" for part in key), f"{pods}"] for key, pods in lines]
        print_table(f"Evicted in the last {span}", heads, rows)
        total = sum(counts.values())
        say(f"{total} pod{'' if total == 1 else 's'} evicted{_since(document)}")

    def as_rows(_: Mapping[str, Any]) -> Iterator[Sequence[object]]:
        yield (*keys, "pods")
        for it in entries:
            yield tuple(it.values())

    def as_names(_: Mapping[str, Any]) -> Iterator[str]:
        names = {it["queue"] for it in document["evictions"]}
        return queue_names({"queues": [{"name": name} for name in sorted(names)]})

    summed = {**document, "groupedBy": list(keys), "evictions": entries}
    Printer(as_text, as_rows, as_names).print(summed, output)


def _since(document: Mapping[str, Any]) -> str:
    oldest = document["since"]
    return f", the first of them at {oldest}" if oldest else ""


def _print_waits(document: Mapping[str, Any]) -> None:
    lines = [
        (it["name"], *_cells(it["waiting"]), *_cells(it["started"])) for it in document["queues"]
    ]
    span = format_duration(document["seconds"])
    print_table(f"Jobs that wait, and that started in the last {span} and run", _WAITS, lines)
    if not lines:
        say(f"no job waits, and none that runs started in the last {span}")


def _cells(summary: Mapping[str, Any]) -> tuple[str, str, str]:
    times = (summary["medianSeconds"], summary["longestSeconds"])
    half, most = ("-" if it is None else format_duration(float(round(it))) for it in times)
    return f"{summary['jobs']}", half, most


def _wait_rows(document: Mapping[str, Any]) -> Iterator[Sequence[object]]:
    of = ("jobs", "medianSeconds", "longestSeconds")
    parts = ("waiting", "started")
    yield ("name", *(f"{part}.{it}" for part in parts for it in of))
    for queue in document["queues"]:
        yield (queue["name"], *(queue[part][it] for part in parts for it in of))
