"""Charts of one run, for the report and for picture files. The busiest queues are named in them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from kaisched.core.axis import FloatVec, IntVec
from kaisched.sim.outcome import HOUR_S, Outcome, Timeline
from kaisched.sim.output.files import Result
from kaisched.sim.output.page import NEUTRAL, Chart, Entry, fill, fitted, stroke
from kaisched.sim.output.plots import (
    DASHED,
    DOTTED,
    WHOLE,
    Bars,
    Line,
    bars_by_name,
    bars_over_time,
    heat_chart,
    lines_chart,
    stacked_chart,
)

MOST: Final = 8
"""Rows of a picture, one for each colour; the last one sums the others if there are more."""
OTHERS: Final = "others"


@dataclass(frozen=True, slots=True)
class Shown:
    """Rows of a picture, and the row of each queue."""

    names: list[str]
    row_of_queue: IntVec
    """``(V,)``."""

    def sums(self, columns: FloatVec) -> FloatVec:
        """Sum columns ``(V, T)`` of queues into ``(rows, T)``."""
        sums = np.zeros((len(self.names), columns.shape[1]))
        np.add.at(sums, self.row_of_queue, columns)
        return sums


def shown_of(result: Result) -> Shown:
    """Choose the rows for a run: the busiest queues, in the order of the file."""
    queues = result.outcome.queues
    busy = [max(queue.gpu_hours, queue.entitled_gpu_hours) for queue in queues]
    active = [at for at, hours in enumerate(busy) if hours > 0] or list(range(len(queues)))
    by_work = sorted(active, key=lambda at: (-busy[at], at))
    has_others = len(by_work) > MOST or len(active) < len(queues)
    chosen = sorted(by_work[: MOST - 1] if len(by_work) > MOST else by_work)
    names = [queues[at].name for at in chosen]
    row = np.full(len(queues), len(chosen), np.int64)
    row[chosen] = np.arange(len(chosen))
    if has_others:
        names.append(f"{len(queues) - len(chosen)} {OTHERS}")
    return Shown(names, row)


HALF: Final = 600
"""Width in pixels of a chart beside another."""
MOST_NODE_ROWS: Final = 64
_SHADE: Final = 0.3
_PARTS: Final = (0.0, 0.25, 0.5, 0.75, 1.0)
_PERCENT: Final = (0.0, 20.0, 40.0, 60.0, 80.0, 100.0)


def held_chart(line: Timeline, shown: Shown, *, width: int = WHOLE) -> Chart:
    """Stack the GPUs that each queue held over time."""
    sums = shown.sums(line.allocated)
    layers = [
        Line(name, line.end_s, values, series)
        for series, (name, values) in enumerate(zip(shown.names, sums, strict=True))
    ]
    capacity = Line("GPUs there are", line.end_s, line.capacity, NEUTRAL)
    return stacked_chart("GPUs held, by queue", "GPUs", layers, capacity, width=width)


SHARES_LEGEND: Final = (
    Entry("held", fill(NEUTRAL, _SHADE), is_area=True),
    Entry("fair share", stroke(NEUTRAL, dash=DASHED)),
    Entry("entitled", stroke(NEUTRAL, dash=DOTTED, width=2.0)),
)
"""Entries of the common legend of :func:`share_charts`."""


def share_charts(
    line: Timeline, shown: Shown, *, width: int = HALF, is_named: bool = True
) -> list[Chart]:
    """Draw a chart for each queue: GPUs held, fair share and entitlement.

    All charts have one scale. ``is_named`` says whether each has a legend.
    """
    rows = list(
        zip(
            shown.names,
            shown.sums(line.allocated),
            shown.sums(line.fair_share),
            shown.sums(line.entitled),
            strict=True,
        )
    )
    most = max((float(max(held.max(), fair.max())) for _, held, fair, _ in rows), default=1.0)
    charts = []
    for series, (name, held, fair, due) in enumerate(rows):
        lines = [
            Line("held", line.end_s, held, series, is_filled=True, is_named=is_named),
            Line("fair share", line.end_s, fair, series, DASHED, is_named=is_named),
            Line("entitled", line.end_s, due, NEUTRAL, DOTTED, width=2.0, is_named=is_named),
        ]
        words = fitted(f"{name}: GPUs held", width, "title")
        charts.append(lines_chart(words, "GPUs", lines, most=most, width=width, height=130))
    return charts


def hours_chart(line: Timeline, shown: Shown, *, width: int = HALF) -> Chart:
    """Draw the GPU-hours of each queue so far, and its entitlement."""
    lines = []
    used, due = shown.sums(line.gpu_hours), shown.sums(line.entitled_hours)
    for series, name in enumerate(shown.names):
        lines.append(Line(name, line.end_s, used[series], series, is_stepped=False, width=2.0))
        lines.append(
            Line(name, line.end_s, due[series], series, DOTTED, is_stepped=False, is_named=False)
        )
    dotted = [Entry("entitled", stroke(NEUTRAL, dash=DOTTED))]
    title = "GPU-hours so far, held and entitled"
    return lines_chart(title, "GPU-hours", lines, width=width, height=240, also=dotted)


def jain_chart(line: Timeline) -> Chart:
    """Draw Jain's index of GPU-hours so far."""
    lines = [Line("Jain's index", line.end_s, line.jain, 0, is_named=False)]
    title = "Jain's index of GPU-hours by entitled ones (1 is equal)"
    return lines_chart(title, "index", lines, height=240, y_ticks=_PARTS)


def waits_chart(outcome: Outcome, shown: Shown) -> Chart:
    """Draw how long the jobs of each queue waited."""
    by_name = {queue.name: queue.wait for queue in outcome.queues}
    names = [name for name in shown.names if by_name.get(name) is not None]
    waits = [wait for name in names if (wait := by_name[name]) is not None]
    bars = [
        Bars("half of the jobs", [wait.p50_s / HOUR_S for wait in waits], 0),
        Bars("95 %", [wait.p95_s / HOUR_S for wait in waits], 1),
    ]
    return bars_by_name("Wait to the first start, within which", "hours", names, bars)


def use_chart(line: Timeline) -> Chart:
    """Draw the part of the GPUs in use."""
    used = Line("in use", line.end_s, line.utilisation * 100.0, 2, is_filled=True, is_named=False)
    return lines_chart("GPUs in use", "%", [used], y_ticks=_PERCENT)


def evictions_chart(line: Timeline) -> Chart:
    """Draw the number of evicted jobs over time."""
    evictions = line.evictions.sum(axis=0)
    return bars_over_time("Evictions", "jobs", line.end_s, evictions, 1, is_count=True)


def lost_chart(line: Timeline) -> Chart:
    """Draw the work that was done twice, at the time of the eviction."""
    lost = line.lost_hours.sum(axis=0)
    return bars_over_time("Work done twice", "GPU-hours", line.end_s, lost, 3)


def nodes_chart(result: Result) -> Chart:
    """Draw how much of each node was in use."""
    means = result.nodes.means()
    gpus = np.array(result.node_gpus)
    has_gpus = np.flatnonzero(gpus > 0).tolist()
    names, parts = _folded(
        [result.node_names[at] for at in has_gpus], means[has_gpus], gpus[has_gpus]
    )
    spans_s = means.shape[1] * result.nodes.width * result.step_s
    return heat_chart("GPUs in use, by node", names, parts, max(spans_s, 1.0))


def _folded(names: list[str], used: FloatVec, gpus: FloatVec) -> tuple[list[str], FloatVec]:
    """Merge neighbouring nodes until the rows are few enough."""
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
