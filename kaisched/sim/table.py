"""Text forms of a report: a table for people, at most 80 columns wide, and JSON for programs.

Equal reports give equal bytes.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any, Final

from kaisched.sim.report import QueueReport, Report

_HEAD: Final = (
    ("", "", "GPU-", "fair", "", "wait", "wait", "", "", "hours"),
    ("queue", "jobs", "hours", "share", "got", "p50", "p95", "pending", "evicted", "lost"),
)
WIDEST: Final = 80
_LONGEST_NAME: Final = 16
_SHORTEST_NAME: Final = 8
_EXACT_BELOW: Final = 1000.0
"""Columns of hours have a decimal if all their values are below this."""
_MINUTE_S: Final = 60
_HOUR_S: Final = 3600
_DAY_S: Final = 86_400
NONE: Final = "-"


def table_of(report: Report) -> str:
    """Format the whole report: the setting, a line for each queue, and the sums."""
    shown = [queue for queue in report.queues if queue.jobs]
    rows = [*_HEAD, *_rows(report, shown)]
    lines = [_title(report), "", *aligned(rows), "", *_summary(report)]
    silent = len(report.queues) - len(shown)
    if silent:
        lines.append(f"{silent} queues without a job are not shown.")
    return "\n".join(lines)


def json_of(report: Report) -> str:
    """Format all values, unrounded; keys in camelCase, ``_s`` written out."""
    answer = {"schemaVersion": "kaisched.io/simulation/v1", **camel(asdict(report))}
    return json.dumps(answer, indent=2, allow_nan=False)


def camel(value: Any) -> Any:
    """Convert the keys of plain values to camelCase."""
    if isinstance(value, dict):
        return {_camel_key(key): camel(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [camel(item) for item in value]
    return value


def _camel_key(key: str) -> str:
    first, *others = key.split("_")
    return first + "".join("Seconds" if word == "s" else word.capitalize() for word in others)


def short_duration(seconds: float) -> str:
    """Format a duration in its two largest units, rounded down: ``2d3h``, ``1h5m``, ``4m``."""
    for size, unit, part, part_unit in (
        (_DAY_S, "d", _HOUR_S, "h"),
        (_HOUR_S, "h", _MINUTE_S, "m"),
    ):
        if seconds >= size:
            whole, rest = divmod(int(seconds), size)
            return f"{whole}{unit}{rest // part}{part_unit}"
    return f"{int(seconds) // _MINUTE_S}m"


def _title(report: Report) -> str:
    days = f"day {report.from_s / _DAY_S:.6g} to {report.until_s / _DAY_S:.6g}"
    size = f"{report.nodes} nodes with {report.gpus // report.nodes} GPUs"
    return f"{report.trace}, {days}, {size}, quota {report.quota}"


def _rows(report: Report, shown: Sequence[QueueReport]) -> list[tuple[str, ...]]:
    """Return the cells of a line for each queue, and of the sums below them."""
    entitled = sum(queue.entitled_gpu_hours for queue in report.queues)
    waits = [queue.wait for queue in shown]
    columns = (
        [*(queue.name for queue in shown), "all"],
        [*(f"{queue.jobs}" for queue in shown), f"{report.jobs}"],
        hours_of([*(queue.gpu_hours for queue in shown), report.gpu_hours]),
        hours_of([*(queue.entitled_gpu_hours for queue in shown), entitled]),
        [
            *(NONE if queue.got is None else f"{queue.got:.0%}" for queue in shown),
            f"{report.gpu_hours / entitled:.0%}" if entitled else NONE,
        ],
        [*(NONE if wait is None else short_duration(wait.p50_s) for wait in waits), ""],
        [*(NONE if wait is None else short_duration(wait.p95_s) for wait in waits), ""],
        [*(f"{queue.pending}" for queue in shown), f"{report.pending}"],
        [*(f"{queue.evictions}" for queue in shown), f"{report.evictions}"],
        hours_of([*(queue.lost_gpu_hours for queue in shown), report.lost_gpu_hours]),
    )
    return list(zip(*columns, strict=True))


def hours_of(column: Sequence[float]) -> list[str]:
    """Format hours with one decimal, or without decimals if a column has large values."""
    digits = 1 if max(column) < _EXACT_BELOW else 0
    return [f"{hours:.{digits}f}" for hours in column]


def _summary(report: Report) -> list[str]:
    end = (
        "not all jobs have ended"
        if report.makespan_s is None
        else f"all jobs ended within {short_duration(report.makespan_s)}"
    )
    return [
        f"{report.utilisation:.1%} of the GPUs' time was used; {end}.",
        f"On average {report.fair_share_distance:.1%} of the GPUs were away from fair shares.",
        (
            f"{report.jobs} jobs: {report.finished} ended, {report.running} run, "
            f"{report.pending} wait; {report.evictions} evictions; {report.cycles} cycles."
        ),
    ]


def aligned(rows: Sequence[Sequence[str]], longest: int = _LONGEST_NAME) -> list[str]:
    """Align lines: the first column to the left, the rest to the right.

    Names get the room that the numbers leave on a terminal, but at most ``longest``. A longer name
    is not cut: it has a line to itself.
    """
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    left = WIDEST - sum(2 + width for width in widths[1:])
    most = min(max(left, _SHORTEST_NAME), longest)
    widths[0] = min(widths[0], most)
    lines = []
    for first, *others in rows:
        if len(first) > most:
            lines.append(first)
        cells = [(first if len(first) <= most else "").ljust(widths[0])]
        cells += [text.rjust(width) for text, width in zip(others, widths[1:], strict=True)]
        lines.append("  ".join(cells).rstrip())
    return lines
