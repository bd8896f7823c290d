"""Table of the outcome of a scenario for people, at most 80 columns wide."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import Final

from kaisched.sim.crossings import LevelOutcome
from kaisched.sim.outcome import Outcome, QueueOutcome
from kaisched.sim.output.compared import differences_of, names_of
from kaisched.sim.output.files import Result
from kaisched.sim.table import NONE, WIDEST, aligned, hours_of, short_duration
from kaisched.units import format_duration

_HEAD: Final = (
    ("", "", "GPU-", "entitled", "", "wait", "wait", "", "", "hours"),
    ("queue", "jobs", "hours", "to", "got", "p50", "p95", "pending", "evicted", "lost"),
)
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
    lines = [_title(outcome), "", *aligned([*_HEAD, *_rows(outcome, shown)]), "", *_sums(outcome)]
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
                *(NONE if wait is None else short_duration(wait) for wait in waits),
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


def _title(outcome: Outcome) -> str:
    long = format_duration(outcome.until_s)
    return (
        f"{outcome.name}: {long}, {outcome.nodes} nodes, {outcome.gpus:g} GPUs, seed {outcome.seed}"
    )


def _rows(outcome: Outcome, shown: Sequence[QueueOutcome]) -> list[tuple[str, ...]]:
    entitled = sum(queue.entitled_gpu_hours for queue in outcome.queues)
    waits = [queue.wait for queue in shown]
    columns = (
        [*(queue.name for queue in shown), "all"],
        [*(f"{queue.jobs}" for queue in shown), f"{outcome.jobs}"],
        hours_of([*(queue.gpu_hours for queue in shown), outcome.gpu_hours]),
        hours_of([*(queue.entitled_gpu_hours for queue in shown), entitled]),
        [
            *(NONE if queue.got is None else f"{queue.got:.0%}" for queue in shown),
            f"{outcome.gpu_hours / entitled:.0%}" if entitled else NONE,
        ],
        [*(NONE if wait is None else short_duration(wait.p50_s) for wait in waits), ""],
        [*(NONE if wait is None else short_duration(wait.p95_s) for wait in waits), ""],
        [*(f"{queue.pending}" for queue in shown), f"{outcome.pending}"],
        [*(f"{queue.evictions}" for queue in shown), f"{outcome.evictions}"],
        hours_of([*(queue.lost_gpu_hours for queue in shown), outcome.lost_gpu_hours]),
    )
    return list(zip(*columns, strict=True))


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
