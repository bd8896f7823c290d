"""The report of one run, or of several side by side, as one page without any network."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

import numpy as np

from kaisched.core.axis import FloatVec
from kaisched.sim.outcome import HOUR_S, Outcome
from kaisched.sim.output.comparison import comparison
from kaisched.sim.output.files import Result, write_text
from kaisched.sim.output.page import (
    figure,
    heading,
    page,
    paragraph,
    side_by_side,
    table,
)
from kaisched.sim.output.shown import Shown, shown_of
from kaisched.sim.output.summary import names_of
from kaisched.sim.output.svg.bars import Bars, bars_by_name
from kaisched.sim.output.svg.charts import (
    DASHED,
    DOTTED,
    NEUTRAL,
    Line,
    bars_over_time,
    lines_chart,
    stacked_chart,
)
from kaisched.sim.output.svg.frame import Entry
from kaisched.sim.output.svg.heat import heat_chart
from kaisched.sim.table import NONE, short_duration
from kaisched.sim.timeline import Timeline
from kaisched.units import format_duration

MOST_NODE_ROWS: Final = 64
_MOST_TABLE_ROWS: Final = 100
_PARTS: Final = (0.0, 0.25, 0.5, 0.75, 1.0)
_PERCENT: Final = (0.0, 20.0, 40.0, 60.0, 80.0, 100.0)
_QUEUE_HEADS: Final = (
    "queue",
    "weight",
    "quota",
    "jobs",
    "GPU-hours",
    "entitled to",
    "got",
    "wait p50",
    "wait p95",
    "pending",
    "evicted",
    "GPU-hours lost",
)


def write_report(results: Sequence[Result], path: Path) -> Path:
    """Write the report of one run, or of several with a comparison first."""
    return write_text(path, report_html(results))


def report_html(results: Sequence[Result]) -> str:
    """Return the report."""
    names = names_of([result.outcome for result in results])
    title = names[0] if len(names) == 1 else " against ".join(names)
    body = [heading(title, 1)]
    if len(results) > 1:
        body += comparison(results, names)
    for name, result in zip(names, results, strict=True):
        body += [heading(name)] if len(results) > 1 else []
        body += _sections(result)
    body.append(
        paragraph(
            "Entitled: the time there was, divided by quota, priority and weight, and capped by "
            "the work that had come, run without waiting, and by the time that was left for it. "
            "Fair share: what the cycle divided out at that moment. Lines show means between two "
            "points.",
            is_soft=True,
        )
    )
    return page(f"kaisched: {title}", body)


def _sections(result: Result) -> list[str]:
    outcome, line = result.outcome, result.timeline
    shown = shown_of(result)
    return [
        paragraph(_told(outcome), is_soft=True),
        paragraph(_sums(outcome)),
        _queues(outcome),
        heading("Who held the GPUs"),
        figure(_held(line, shown)),
        side_by_side(_against_shares(line, shown)),
        heading("Fair over time"),
        side_by_side([figure(_cumulative(line, shown)), figure(_jain(line))]),
        heading("Waiting, use and disruption"),
        side_by_side(
            [
                figure(_waits(outcome, shown)),
                figure(_utilisation(line)),
                figure(_evictions(line)),
                figure(_lost(line)),
            ]
        ),
        heading("Nodes"),
        figure(_nodes(result)),
    ]


def _told(outcome: Outcome) -> str:
    return (
        f"{format_duration(outcome.until_s)} of virtual time, {outcome.nodes} nodes, "
        f"{outcome.gpus:g} GPUs, {outcome.jobs} jobs, seed {outcome.seed}, a step of "
        f"{format_duration(outcome.step_s)}, {outcome.cycles} cycles"
    )


def _sums(outcome: Outcome) -> str:
    failed = f", {outcome.failures} stops by failing nodes" if outcome.failures else ""
    return (
        f"{outcome.utilisation:.1%} of the GPUs' time was used. Fairness error "
        f"{outcome.fairness_error:.1%} of the GPU-hours entitled, Jain's index {outcome.jain:.3f}. "
        f"{outcome.finished} jobs ended, {outcome.running} run, {outcome.pending} wait. "
        f"{outcome.evictions} evictions{failed}; {outcome.lost_gpu_hours:,.1f} GPU-hours lost."
    )


def _queues(outcome: Outcome) -> str:
    rows = []
    for queue in outcome.queues[:_MOST_TABLE_ROWS]:
        wait = queue.wait
        rows.append(
            (
                queue.name,
                f"{queue.weight:g}",
                "unlimited" if queue.quota_gpus < 0 else f"{queue.quota_gpus:g}",
                f"{queue.jobs:,}",
                f"{queue.gpu_hours:,.1f}",
                f"{queue.entitled_gpu_hours:,.1f}",
                NONE if queue.got is None else f"{queue.got:.0%}",
                NONE if wait is None else short_duration(wait.p50_s),
                NONE if wait is None else short_duration(wait.p95_s),
                f"{queue.pending:,}",
                f"{queue.evictions:,}",
                f"{queue.lost_gpu_hours:,.1f}",
            )
        )
    return table(_QUEUE_HEADS, rows)


def _held(line: Timeline, shown: Shown) -> str:
    layers = [
        Line(name, values, series)
        for series, (name, values) in enumerate(
            zip(shown.names, shown.sums(line.allocated), strict=True)
        )
    ]
    capacity = Line("GPUs there are", line.capacity, 0)
    return stacked_chart("GPUs held, by queue", "GPUs", line.end_s, layers, capacity)


def _against_shares(line: Timeline, shown: Shown) -> list[str]:
    columns = zip(
        shown.names,
        shown.sums(line.allocated),
        shown.sums(line.fair_share),
        shown.sums(line.entitled),
        strict=True,
    )
    rows = list(columns)
    most = max((float(max(held.max(), fair.max())) for _, held, fair, _ in rows), default=1.0)
    figures = []
    for series, (name, held, fair, due) in enumerate(rows):
        lines = [
            Line("held", held, series, is_filled=True),
            Line("fair share", fair, series, DASHED),
            Line("entitled", due, series, DOTTED, width=2.0),
        ]
        title = f"{name}: held, fair share and entitlement"
        chart = lines_chart(title, "GPUs", line.end_s, lines, most=most, height=130)
        figures.append(figure(chart))
    return figures


def _cumulative(line: Timeline, shown: Shown) -> str:
    lines = []
    for series, name in enumerate(shown.names):
        used = shown.sums(line.gpu_hours)[series]
        due = shown.sums(line.entitled_hours)[series]
        lines.append(Line(name, used, series, is_stepped=False, width=2.0))
        lines.append(Line(name, due, series, DOTTED, is_stepped=False, is_named=False))
    title = "GPU-hours so far, held and entitled"
    dotted = [Entry("entitled", f'{NEUTRAL} stroke-dasharray="{DOTTED}"')]
    return lines_chart(title, "GPU-hours", line.end_s, lines, height=240, also=dotted)


def _jain(line: Timeline) -> str:
    lines = [Line("Jain's index", line.jain, 0)]
    title = "Jain's index of GPU-hours by entitled ones (1 is equal)"
    return lines_chart(title, "index", line.end_s, lines, height=240, y_ticks=_PARTS)


def _waits(outcome: Outcome, shown: Shown) -> str:
    by_name = {queue.name: queue.wait for queue in outcome.queues}
    names = [name for name in shown.names if by_name.get(name) is not None]
    waits = [wait for name in names if (wait := by_name[name]) is not None]
    bars = [
        Bars("half of the jobs", [wait.p50_s / HOUR_S for wait in waits], 0),
        Bars("95 %", [wait.p95_s / HOUR_S for wait in waits], 1),
    ]
    return bars_by_name("Wait to the first start, within which", "hours", names, bars)


def _utilisation(line: Timeline) -> str:
    used = Line("in use", line.utilisation * 100.0, 2, is_filled=True)
    return lines_chart("GPUs in use", "%", line.end_s, [used], y_ticks=_PERCENT)


def _evictions(line: Timeline) -> str:
    evictions = line.evictions.sum(axis=0)
    return bars_over_time("Evictions", "jobs", line.end_s, evictions, 1, is_count=True)


def _lost(line: Timeline) -> str:
    lost = line.lost_hours.sum(axis=0)
    return bars_over_time("Work done twice", "GPU-hours", line.end_s, lost, 3)


def _nodes(result: Result) -> str:
    run = result.run
    means = run.record.nodes.means()
    gpus = np.array(run.node_gpus)
    has_gpus = np.flatnonzero(gpus > 0).tolist()
    names, parts = _folded([run.node_names[at] for at in has_gpus], means[has_gpus], gpus[has_gpus])
    spans_s = means.shape[1] * run.record.nodes.width * run.scenario.pace.step_s
    return heat_chart("GPUs in use, by node", names, parts, max(spans_s, 1.0))


def _folded(names: list[str], used: FloatVec, gpus: FloatVec) -> tuple[list[str], FloatVec]:
    """Return at most so many rows: neighbours share one where there are more nodes."""
    if not names:
        return [], np.zeros((0, 1))
    each = -(-len(names) // MOST_NODE_ROWS)
    first = np.arange(0, len(names), each)
    sums = np.add.reduceat(used, first, axis=0)
    whole = np.add.reduceat(gpus, first)
    if each == 1:
        return names, sums / whole[:, None]
    last = [min(at + each, len(names)) - 1 for at in first.tolist()]
    folded = [f"{names[at]} to {names[end]}" for at, end in zip(first.tolist(), last, strict=True)]
    return folded, sums / whole[:, None]
