"""Results as text: tables for people, at most 80 columns wide, and JSON for programs.

Equal results give equal bytes.
"""

from __future__ import annotations

import json
import textwrap
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Final

from kaisched.sim.outcome import Outcome, QueueOutcome
from kaisched.sim.output.files import Result, camel
from kaisched.sim.recorder import LevelOutcome
from kaisched.sim.report import QueueReport, Report
from kaisched.units import format_duration

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
    rows = _rows(("fair", "share"), report, shown)
    lines = [_title(report), "", *aligned(rows), "", *_summary(report)]
    silent = len(report.queues) - len(shown)
    if silent:
        lines.append(f"{silent} queues without a job are not shown.")
    return "\n".join(lines)


def json_of(report: Report) -> str:
    """Format all values, unrounded; keys in camelCase, ``_s`` written out."""
    answer = {"schemaVersion": "kaisched.io/simulation/v1", **camel(asdict(report))}
    return json.dumps(answer, indent=2, allow_nan=False)


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


def told_wait(seconds: float | None) -> str:
    """Format a duration that may not be known."""
    return NONE if seconds is None else short_duration(seconds)


def _title(report: Report) -> str:
    days = f"day {report.from_s / _DAY_S:.6g} to {report.until_s / _DAY_S:.6g}"
    size = f"{report.nodes} nodes with {report.gpus // report.nodes} GPUs"
    return f"{report.trace}, {days}, {size}, quota {report.quota}"


def _rows(
    share: tuple[str, str],
    sums: Report | Outcome,
    shown: Sequence[QueueReport] | Sequence[QueueOutcome],
) -> list[tuple[str, ...]]:
    """Return the heads of the columns, a line for each queue, and the sums below them.

    ``share`` are the two words over the GPU-hours that queues were entitled to.
    """
    entitled = sum(queue.entitled_gpu_hours for queue in sums.queues)
    waits = [queue.wait for queue in shown]
    columns = (
        ["", "queue", *(queue.name for queue in shown), "all"],
        ["", "jobs", *(f"{queue.jobs}" for queue in shown), f"{sums.jobs}"],
        ["GPU-", "hours", *hours_of([*(queue.gpu_hours for queue in shown), sums.gpu_hours])],
        [*share, *hours_of([*(queue.entitled_gpu_hours for queue in shown), entitled])],
        [
            "",
            "got",
            *(NONE if queue.got is None else f"{queue.got:.0%}" for queue in shown),
            f"{sums.gpu_hours / entitled:.0%}" if entitled else NONE,
        ],
        ["wait", "p50", *(told_wait(wait.p50_s if wait else None) for wait in waits), ""],
        ["wait", "p95", *(told_wait(wait.p95_s if wait else None) for wait in waits), ""],
        ["", "pending", *(f"{queue.pending}" for queue in shown), f"{sums.pending}"],
        ["", "evicted", *(f"{queue.evictions}" for queue in shown), f"{sums.evictions}"],
        [
            "hours",
            "lost",
            *hours_of([*(queue.lost_gpu_hours for queue in shown), sums.lost_gpu_hours]),
        ],
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


_MOST_ROWS: Final = 60
_LONGEST: Final = 40
_COMPARED: Final = (
    "policy",
    "used",
    "error",
    "Jain",
    "wait p50",
    "wait p95",
    "evicted",
    "hours lost",
)


def summary_of(outcome: Outcome) -> str:
    """Format an outcome: the setting, a line for each queue, and the sums."""
    shown = [queue for queue in outcome.queues if queue.jobs][:_MOST_ROWS]
    lines = [
        _outcome_title(outcome),
        "",
        *aligned(_rows(("entitled", "to"), outcome, shown)),
        "",
        *_sums(outcome),
    ]
    left_out = len(outcome.queues) - len(shown)
    if left_out:
        lines.append(f"{left_out} more queues are not shown; --out writes all of them.")
    return "\n".join(lines)


def comparison_of(results: Sequence[Result]) -> str:
    """Format a line for each of several runs, and what else than their policies differs."""
    rows: list[Sequence[str]] = [_COMPARED]
    for name, outcome in zip(names_of(results), [it.outcome for it in results], strict=True):
        waits = worst_waits(outcome)
        rows.append(
            (
                name,
                f"{outcome.utilisation:.1%}",
                f"{outcome.fairness_error:.1%}",
                f"{outcome.jain:.3f}",
                *map(told_wait, waits),
                f"{outcome.evictions}",
                f"{outcome.lost_gpu_hours:.1f}",
            )
        )
    differences = [
        textwrap.fill(text, WIDEST, break_long_words=False) for text in differences_of(results)
    ]
    return "\n".join([*aligned(rows, _LONGEST), *([""] if differences else []), *differences])


def worst_waits(outcome: Outcome) -> tuple[float | None, float | None]:
    """Return p50 and p95 of the wait, each in the queue where it is longest."""
    waits = [queue.wait for queue in outcome.queues if queue.wait is not None]
    if not waits:
        return None, None
    return max(wait.p50_s for wait in waits), max(wait.p95_s for wait in waits)


def _outcome_title(outcome: Outcome) -> str:
    long = format_duration(outcome.until_s)
    return (
        f"{outcome.name}: {long}, {outcome.nodes} nodes, {outcome.gpus:g} GPUs, seed {outcome.seed}"
    )


def _sums(outcome: Outcome) -> list[str]:
    failed = f" and {outcome.failures} failures of nodes" if outcome.failures else ""
    return [
        f"{outcome.utilisation:.1%} of the GPUs' time was used.",
        (
            f"Fairness error {outcome.fairness_error:.1%} of the GPU-hours entitled, "
            f"Jain's index {outcome.jain:.3f}."
        ),
        (
            f"{outcome.jobs} jobs: {outcome.finished} ended, {outcome.running} run, "
            f"{outcome.pending} wait; {outcome.evictions} evictions{failed}."
        ),
        *map(level_sentence, outcome.levels),
    ]


def level_sentence(level: LevelOutcome) -> str:
    """Say how far jobs of several pods are spread over the domains of a level."""
    return (
        f"{level.level}: {level.crossing:.1%} of pod pairs cross it; {level.in_one_domain} of "
        f"{level.starts} gangs started in one, {level.domains:.2f} on average."
    )


# -- several runs ---

_MOST_NAMED: Final = 8


def names_of(results: Sequence[Result]) -> list[str]:
    """Return a name for each run: of runs with equal names, the name of the file."""
    names = [result.outcome.name for result in results]
    files = [result.file for result in results]
    stems = [Path(file).stem for file in files]
    for better in (stems, files):
        is_shared = [
            len({files[at] for at, one in enumerate(names) if one == name}) > 1 for name in names
        ]
        names = [better[at] if is_shared[at] else name for at, name in enumerate(names)]
    return [
        f"{name} ({names[: at + 1].count(name)})" if names.count(name) > 1 else name
        for at, name in enumerate(names)
    ]


def differences_of(results: Sequence[Result]) -> list[str]:
    """Return a sentence for each difference in what the policies were given to divide."""
    names = names_of(results)
    return [
        *_difference("clusters", names, [_cluster(result) for result in results]),
        *_difference("queues", names, _queues(results)),
        *_difference("times", names, [format_duration(it.outcome.until_s) for it in results]),
        *_difference("seeds", names, [f"{result.outcome.seed}" for result in results]),
    ]


def _difference(what: str, names: Sequence[str], values: Sequence[str]) -> list[str]:
    if len(set(values)) <= 1:
        return []
    each = "; ".join(f"{name}: {value}" for name, value in zip(names, values, strict=True))
    return [f"The {what} differ too, not the policies alone: {each}."]


def _cluster(result: Result) -> str:
    counts = Counter(result.node_gpus).items()
    return ", ".join(f"{count} nodes with {gpus:g} GPUs" for gpus, count in sorted(counts))


def _queues(results: Sequence[Result]) -> list[str]:
    """Return for each run the queues that not all runs have."""
    names = [[queue.name for queue in result.outcome.queues] for result in results]
    in_all = set.intersection(*map(set, names))
    return [_listed([name for name in run if name not in in_all]) for run in names]


def _listed(own: Sequence[str]) -> str:
    shown = ", ".join(own[:_MOST_NAMED]) or "no more"
    return f"{shown}, ... ({len(own)})" if len(own) > _MOST_NAMED else shown
