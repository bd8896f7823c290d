"""A report as text: for people at most 80 columns wide, for programs as JSON.

The same report gives the same bytes.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any, Final

from kaisched.sim.report import QueueReport, Report

_HEAD: Final = (
    "queue",
    "jobs",
    "GPU-hours",
    "fair share",
    "got",
    "wait p50",
    "wait p95",
    "pending",
)
_LONGEST_NAME: Final = 16
_MINUTE_S: Final = 60
_HOUR_S: Final = 3600
_DAY_S: Final = 86_400
NONE: Final = "-"


def table_of(report: Report) -> str:
    """Return the whole report: what was run, a line for each queue, and the sums."""
    shown = [queue for queue in report.queues if queue.jobs]
    rows = [_HEAD, *(_row(queue) for queue in shown), _sum_row(report)]
    lines = [_title(report), "", *_aligned(rows), "", *_summary(report)]
    silent = len(report.queues) - len(shown)
    if silent:
        lines.append(f"{silent} queues without a job are not shown.")
    return "\n".join(lines)


def json_of(report: Report) -> str:
    """Return everything there is, unrounded; keys in camelCase, ``_s`` written out."""
    answer = {"schemaVersion": "kaisched.io/simulation/v1", **_camel(asdict(report))}
    return json.dumps(answer, indent=2, allow_nan=False)


def _camel(value: Any) -> Any:
    if isinstance(value, dict):
        return {_camel_key(key): _camel(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_camel(item) for item in value]
    return value


def _camel_key(key: str) -> str:
    first, *others = key.split("_")
    return first + "".join("Seconds" if word == "s" else word.capitalize() for word in others)


def short_duration(seconds: float) -> str:
    """Return a duration in its two largest units, rounded down: ``2d3h``, ``1h5m``, ``4m``."""
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


def _row(queue: QueueReport) -> tuple[str, ...]:
    wait = queue.wait
    return (
        _short_name(queue.name),
        f"{queue.jobs}",
        f"{queue.gpu_hours:.1f}",
        f"{queue.entitled_gpu_hours:.1f}",
        NONE if queue.got is None else f"{queue.got:.0%}",
        NONE if wait is None else short_duration(wait.p50_s),
        NONE if wait is None else short_duration(wait.p95_s),
        f"{queue.pending}",
    )


def _sum_row(report: Report) -> tuple[str, ...]:
    entitled = sum(queue.entitled_gpu_hours for queue in report.queues)
    return (
        "all",
        f"{report.jobs}",
        f"{report.gpu_hours:.1f}",
        f"{entitled:.1f}",
        f"{report.gpu_hours / entitled:.0%}" if entitled else NONE,
        "",
        "",
        f"{report.pending}",
    )


def _summary(report: Report) -> list[str]:
    end = (
        "not all jobs have ended"
        if report.makespan_s is None
        else f"all jobs ended within {short_duration(report.makespan_s)}"
    )
    lines = [
        f"{report.utilisation:.1%} of the GPUs' time was used; {end}.",
        (
            f"{report.jobs} jobs: {report.finished} ended, {report.running} run, "
            f"{report.pending} wait; {report.evictions} evictions; {report.cycles} cycles."
        ),
    ]
    lines += [
        f"warning: plugin {failure.plugin} failed {failure.times} times at {failure.question}: "
        f"{failure.error}"
        for failure in report.failures
    ]
    return lines


def _short_name(name: str) -> str:
    return name if len(name) <= _LONGEST_NAME else name[: _LONGEST_NAME - 3] + "..."


def _aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """Return lines with the first column to the left and the others to the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = []
    for first, *others in rows:
        cells = [first.ljust(widths[0])]
        cells += [text.rjust(width) for text, width in zip(others, widths[1:], strict=True)]
        lines.append("  ".join(cells).rstrip())
    return lines
