"""Reports as tables, CSV and names."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, Final

from kaisched.cli.history_text import period_rows, print_period
from kaisched.cli.output import Printer, queue_names
from kaisched.cli.printing import Column, print_table
from kaisched.units import format_duration

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

USAGE: Final = "kaisched.io/usage-report/v1"
_KEYS: Final = ("queue", "preemptor", "reason")
_HEADS: Final = {"queue": "FROM QUEUE", "preemptor": "FOR QUEUE", "reason": "BECAUSE"}
_WAITS: Final = (
    Column("QUEUE"),
    *(
        Column(head, is_number=True)
        for head in ("WAITING", "HALF FOR", "LONGEST", "STARTED", "HALF AFTER", "LATEST")
    ),
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
        columns = [*(Column(_HEADS[key]) for key in keys), Column("PODS", is_number=True)]
        rows = [[*(part or "-" for part in key), f"{pods}"] for key, pods in lines]
        print_table(f"Evicted in the last {span}", columns, rows)
        print(f"{sum(counts.values())} pods evicted{_since(document)}")  # noqa: T201

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


def print_waits(document: Mapping[str, Any], output: str) -> None:
    """Print how long jobs wait, and how long those waited that run."""
    Printer(_print_waits, _wait_rows, queue_names).print(document, output)


def _print_waits(document: Mapping[str, Any]) -> None:
    lines = [
        (it["name"], *_cells(it["waiting"]), *_cells(it["started"])) for it in document["queues"]
    ]
    span = format_duration(document["seconds"])
    print_table(f"Jobs that wait, and that started in the last {span} and run", _WAITS, lines)
    if not lines:
        print(f"no job waits, and none that runs started in the last {span}")  # noqa: T201


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
