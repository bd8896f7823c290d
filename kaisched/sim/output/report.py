"""Report of one run, or of several side by side: a page that needs no network, and SVG files."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from kaisched.sim.outcome import Outcome
from kaisched.sim.output.charts import (
    SHARES_LEGEND,
    evictions_chart,
    held_chart,
    hours_chart,
    jain_chart,
    lost_chart,
    nodes_chart,
    share_charts,
    shown_of,
    use_chart,
    waits_chart,
)
from kaisched.sim.output.comparison import (
    beyond_chart,
    comparison,
    evicted_chart,
    levels_charts,
    runs_legend,
    wrong_chart,
)
from kaisched.sim.output.files import Result, write_text, write_texts
from kaisched.sim.output.page import (
    GAP,
    Chart,
    figure,
    heading,
    page,
    paragraph,
    picture,
    side_by_side,
    table,
)
from kaisched.sim.output.tables import (
    NONE,
    differences_of,
    level_sentence,
    names_of,
    told_wait,
)
from kaisched.units import format_duration

_MOST_TABLE_ROWS: Final = 100
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
    names = names_of(results)
    title = names[0] if len(names) == 1 else " against ".join(names)
    body = [heading(title, 1)]
    if len(results) > 1:
        body += comparison(results, names)
        body += [paragraph(text) for text in differences_of(results)]
    for name, result in zip(names, results, strict=True):
        body += [heading(name)] if len(results) > 1 else []
        body += _sections(result)
    body.append(
        paragraph(
            "Entitled: GPU time, divided by quota, priority and weight, and capped by the work "
            "submitted, as if run without waiting, and by the time that was left for it. "
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
        paragraph(_setting(outcome), is_soft=True),
        paragraph(_sums(outcome)),
        _queues(outcome),
        heading("Who held the GPUs"),
        figure(held_chart(line, shown)),
        side_by_side(figure(chart) for chart in share_charts(line, shown)),
        heading("Fair over time"),
        side_by_side([figure(hours_chart(line, shown)), figure(jain_chart(line))]),
        heading("Waiting, use and disruption"),
        side_by_side(
            [
                figure(waits_chart(outcome, shown)),
                figure(use_chart(line)),
                figure(evictions_chart(line)),
                figure(lost_chart(line)),
            ]
        ),
        heading("Nodes"),
        figure(nodes_chart(result)),
    ]


def _setting(outcome: Outcome) -> str:
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
        f"{outcome.evictions} evictions{failed}; {outcome.lost_gpu_hours:,.1f} GPU-hours lost. "
        + " ".join(map(level_sentence, outcome.levels))
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
                told_wait(wait.p50_s if wait else None),
                told_wait(wait.p95_s if wait else None),
                f"{queue.pending:,}",
                f"{queue.evictions:,}",
                f"{queue.lost_gpu_hours:,.1f}",
            )
        )
    return table(_QUEUE_HEADS, rows)


_WIDE: Final = 820
_NARROW: Final = 398
_ONE_COLUMN: Final = 4
"""Most queues with their charts in one column; more take two columns."""


def write_pictures(result: Result, folder: Path) -> list[Path]:
    """Write the pictures of one run.

    Raises:
        ConfigError: the folder cannot be written.

    """
    line, shown, name = result.timeline, shown_of(result), result.outcome.name
    is_one = len(shown.names) <= _ONE_COLUMN
    shares = share_charts(line, shown, width=_WIDE if is_one else _NARROW, is_named=False)
    columns: list[list[Chart]] = [shares] if is_one else [shares[::2], shares[1::2]]
    texts = {
        "allocation": picture(name, [[held_chart(line, shown, width=_WIDE)]]),
        "fair-share": picture(name, columns, SHARES_LEGEND),
        "gpu-hours": picture(name, [[hours_chart(line, shown, width=_WIDE)]]),
    }
    return write_texts(folder, {f"{stem}.svg": text for stem, text in texts.items()})


def write_compared(results: Sequence[Result], folder: Path) -> Path:
    """Write the picture that compares several runs.

    Raises:
        ConfigError: the folder cannot be written.

    """
    outcomes = [result.outcome for result in results]
    names = names_of(results)
    over_time = [
        chart_of(results, names, width=_NARROW, is_named=False)
        for chart_of in (wrong_chart, evicted_chart)
    ]
    height = sum(chart.height for chart in over_time) + GAP
    beyond = beyond_chart(outcomes, names, width=_NARROW, height=height, is_named=False)
    text = picture("Runs compared", [[beyond], over_time], runs_legend(names))
    levels = levels_charts(outcomes, names, width=_NARROW, is_named=False)
    if levels:
        drawn = picture("Gangs and the topology", [[it] for it in levels], runs_legend(names))
        write_text(folder / "topology.svg", drawn)
    return write_text(folder / "comparison.svg", text)
