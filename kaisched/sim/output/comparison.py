"""Several runs side by side: a table, and charts in which each run is a line or a bar."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from kaisched.core.axis import FloatVec
from kaisched.sim.outcome import HOUR_S, Outcome
from kaisched.sim.output.files import Result
from kaisched.sim.output.page import figure, heading, side_by_side, table
from kaisched.sim.output.summary import worst_waits
from kaisched.sim.output.svg.bars import Bars, bars_by_name
from kaisched.sim.output.svg.charts import Line, lines_chart
from kaisched.sim.table import NONE, short_duration
from kaisched.sim.timeline import Timeline

_MOST_QUEUES = 12
_HEADS = (
    "policy",
    "used",
    "fairness error",
    "Jain's index",
    "longest p50 wait",
    "longest p95 wait",
    "jobs ended",
    "evictions",
    "GPU-hours lost",
)


def comparison(results: Sequence[Result], names: Sequence[str]) -> list[str]:
    """Return the parts of a page that compare runs."""
    outcomes = [result.outcome for result in results]
    return [
        heading("Side by side"),
        table(_HEADS, [_row(name, it) for name, it in zip(names, outcomes, strict=True)]),
        side_by_side(
            [
                figure(_hours(outcomes, names)),
                figure(_waits(outcomes, names)),
                figure(_error(results, names)),
                figure(_lost(results, names)),
            ]
        ),
    ]


def _row(name: str, outcome: Outcome) -> tuple[str, ...]:
    return (
        name,
        f"{outcome.utilisation:.1%}",
        f"{outcome.fairness_error:.1%}",
        f"{outcome.jain:.3f}",
        *(NONE if it is None else short_duration(it) for it in worst_waits(outcome)),
        f"{outcome.finished:,}",
        f"{outcome.evictions:,}",
        f"{outcome.lost_gpu_hours:,.1f}",
    )


def busiest_queues(outcomes: Sequence[Outcome]) -> list[str]:
    """Return the names of the busiest queues that any run has."""
    hours: dict[str, float] = {}
    for outcome in outcomes:
        for queue in outcome.queues:
            most = max(queue.gpu_hours, queue.entitled_gpu_hours)
            hours[queue.name] = max(hours.get(queue.name, 0.0), most)
    busiest = sorted(hours, key=lambda name: -hours[name])[:_MOST_QUEUES]
    return [name for name in hours if name in busiest]


def _hours(outcomes: Sequence[Outcome], names: Sequence[str]) -> str:
    queues = busiest_queues(outcomes)
    groups = []
    for series, (name, outcome) in enumerate(zip(names, outcomes, strict=True)):
        got = {queue.name: queue.got or 0.0 for queue in outcome.queues}
        groups.append(Bars(name, [100 * got.get(queue, 0.0) for queue in queues], series))
    return bars_by_name("GPU-hours by those entitled", "%", queues, groups)


def _waits(outcomes: Sequence[Outcome], names: Sequence[str]) -> str:
    queues = busiest_queues(outcomes)
    groups = []
    for series, (name, outcome) in enumerate(zip(names, outcomes, strict=True)):
        wait = {queue.name: queue.wait for queue in outcome.queues}
        longest = [it.p95_s / HOUR_S if (it := wait.get(queue)) else 0.0 for queue in queues]
        groups.append(Bars(name, longest, series))
    return bars_by_name("Wait within which 95 % started", "hours", queues, groups)


def _error(results: Sequence[Result], names: Sequence[str]) -> str:
    lines = [
        Line(name, wrong_hours(result.timeline), series, is_stepped=False)
        for series, (name, result) in enumerate(zip(names, results, strict=True))
    ]
    return lines_chart("In the wrong hands so far", "GPU-hours", _ends(results), lines)


def wrong_hours(line: Timeline) -> FloatVec:
    """Return ``(T,)`` half the sum over queues of |GPU-hours - entitled| up to each point.

    In GPU-hours and no part of them: in the first minutes all parts are large.
    """
    apart = np.abs(line.gpu_hours - line.entitled_hours).sum(axis=0)
    hours: FloatVec = apart / 2.0
    return hours


def _lost(results: Sequence[Result], names: Sequence[str]) -> str:
    lines = [
        Line(name, np.cumsum(result.timeline.lost_hours.sum(axis=0)), series, is_stepped=False)
        for series, (name, result) in enumerate(zip(names, results, strict=True))
    ]
    return lines_chart("Work done twice so far", "GPU-hours", _ends(results), lines)


def _ends(results: Sequence[Result]) -> FloatVec:
    return max((result.timeline.end_s for result in results), key=lambda ends: float(ends[-1]))
