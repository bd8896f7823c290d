"""Several runs side by side: a table, what differs, and charts with a line or bar for each."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from kaisched.core.axis import FloatVec
from kaisched.sim.outcome import HOUR_S, Outcome, QueueOutcome, Timeline
from kaisched.sim.output.charts import HALF
from kaisched.sim.output.files import Result
from kaisched.sim.output.page import Chart, Entry, figure, fill, heading, side_by_side, table
from kaisched.sim.output.plots import Bars, Line, bars_by_name, lines_chart
from kaisched.sim.output.tables import told_wait, worst_waits
from kaisched.sim.recorder import LevelOutcome

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
    charts = [
        beyond_chart(outcomes, names),
        *_queue_charts(outcomes, names),
        wrong_chart(results, names),
        evicted_chart(results, names),
        lines_chart("Work done twice so far", "GPU-hours", _lines(results, names, lost_hours)),
        *levels_charts(outcomes, names),
    ]
    return [
        heading("Side by side"),
        table(_HEADS, [_row(name, it) for name, it in zip(names, outcomes, strict=True)]),
        side_by_side(figure(chart) for chart in charts),
    ]


def _row(name: str, outcome: Outcome) -> tuple[str, ...]:
    return (
        name,
        f"{outcome.utilisation:.1%}",
        f"{outcome.fairness_error:.1%}",
        f"{outcome.jain:.3f}",
        *map(told_wait, worst_waits(outcome)),
        f"{outcome.finished:,}",
        f"{outcome.evictions:,}",
        f"{outcome.lost_gpu_hours:,.1f}",
    )


def busiest_queues(outcomes: Sequence[Outcome]) -> list[str]:
    """Return the names of the busiest queues of all runs."""
    hours: dict[str, float] = {}
    for outcome in outcomes:
        for queue in outcome.queues:
            most = max(queue.gpu_hours, queue.entitled_gpu_hours)
            hours[queue.name] = max(hours.get(queue.name, 0.0), most)
    busiest = sorted(hours, key=lambda name: -hours[name])[:_MOST_QUEUES]
    return [name for name in hours if name in busiest]


def runs_legend(names: Sequence[str]) -> list[Entry]:
    """Return the legend of the runs, for all charts of a comparison."""
    return [Entry(name, fill(series), is_area=True) for series, name in enumerate(names)]


def beyond_chart(
    outcomes: Sequence[Outcome],
    names: Sequence[str],
    *,
    width: int = HALF,
    height: int = 0,
    is_named: bool = True,
) -> Chart:
    """Draw what each queue got beyond its entitlement; left of 0 is what it missed."""
    queues = busiest_queues(outcomes)
    bars = _bars(outcomes, names, queues, lambda it: it.gpu_hours - it.entitled_gpu_hours)
    title = "Beyond what the queue is entitled to"
    return bars_by_name(
        title, "GPU-hours", queues, bars, width=width, height=height, is_named=is_named
    )


def _queue_charts(outcomes: Sequence[Outcome], names: Sequence[str]) -> list[Chart]:
    """Draw what each queue got of its entitlement, and how long its jobs waited."""
    queues = busiest_queues(outcomes)
    got = _bars(outcomes, names, queues, lambda it: None if it.got is None else 100 * it.got)
    waits = _bars(outcomes, names, queues, lambda it: it.wait.p95_s / HOUR_S if it.wait else None)
    return [
        bars_by_name("GPU-hours held, of those entitled", "%", queues, got),
        bars_by_name("Wait within which 95 % started", "hours", queues, waits),
    ]


def _bars(
    outcomes: Sequence[Outcome],
    names: Sequence[str],
    queues: Sequence[str],
    amount: Callable[[QueueOutcome], float | None],
) -> list[Bars]:
    """Return a bar of each run for each of some queues, none without an amount."""
    groups = []
    for series, (name, outcome) in enumerate(zip(names, outcomes, strict=True)):
        amounts = {queue.name: amount(queue) for queue in outcome.queues}
        groups.append(Bars(name, [amounts.get(queue) for queue in queues], series))
    return groups


def levels_charts(
    outcomes: Sequence[Outcome],
    names: Sequence[str],
    *,
    width: int = HALF,
    is_named: bool = True,
) -> list[Chart]:
    """Draw how far gangs are spread over the domains of each level; none without a topology."""
    levels = [level.level for level in outcomes[0].levels]
    if not levels or any([it.level for it in each.levels] != levels for each in outcomes):
        return []
    amounts: tuple[tuple[str, Callable[[LevelOutcome], float]], ...] = (
        ("Pairs of pods of a gang in two domains", lambda level: 100 * level.crossing),
        ("Gangs in one domain", lambda level: 100 * level.together),
    )
    return [
        bars_by_name(
            title,
            "%",
            levels,
            [
                Bars(name, [amount(level) for level in outcome.levels], series)
                for series, (name, outcome) in enumerate(zip(names, outcomes, strict=True))
            ],
            width=width,
            is_named=is_named,
        )
        for title, amount in amounts
    ]


def wrong_chart(
    results: Sequence[Result], names: Sequence[str], *, width: int = HALF, is_named: bool = True
) -> Chart:
    """Draw the GPU-hours that the wrong queues got, up to each instant."""
    lines = _lines(results, names, wrong_hours, is_named=is_named)
    return lines_chart("In the wrong hands so far", "GPU-hours", lines, width=width)


def evicted_chart(
    results: Sequence[Result], names: Sequence[str], *, width: int = HALF, is_named: bool = True
) -> Chart:
    """Draw the evictions up to each instant."""
    lines = _lines(
        results, names, lambda line: np.cumsum(line.evictions.sum(axis=0)), is_named=is_named
    )
    return lines_chart("Evictions so far", "jobs", lines, width=width)


def wrong_hours(line: Timeline) -> FloatVec:
    """Return ``(T,)`` half the sum over queues of |GPU-hours - entitled| up to each point.

    The unit is GPU-hours, since as parts of a whole the first minutes would dwarf the rest.
    """
    apart = np.abs(line.gpu_hours - line.entitled_hours).sum(axis=0)
    hours: FloatVec = apart / 2.0
    return hours


def lost_hours(line: Timeline) -> FloatVec:
    """Return ``(T,)`` the GPU-hours lost up to each point."""
    return np.cumsum(line.lost_hours.sum(axis=0))


def _lines(
    results: Sequence[Result],
    names: Sequence[str],
    sums: Callable[[Timeline], FloatVec],
    *,
    is_named: bool = True,
) -> list[Line]:
    """Return a line for each run, as long as the run."""
    return [
        Line(
            name,
            result.timeline.end_s,
            sums(result.timeline),
            series,
            is_stepped=False,
            is_named=is_named,
        )
        for series, (name, result) in enumerate(zip(names, results, strict=True))
    ]
