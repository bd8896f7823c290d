"""Output of a sweep: a table, JSON, CSV, and a page that shows the trade-off."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any, Final

from kaisched.sim.output.files import write_text
from kaisched.sim.output.page import figure, heading, page, paragraph, table
from kaisched.sim.output.plots import Dot, scatter_chart
from kaisched.sim.output.tables import aligned, told_wait
from kaisched.sim.tuning import Sweep, Trial, told

_LONGEST: Final = 40
SCHEMA: Final = "kaisched.io/tune/v1"
_HEADS: Final = ("error", "lost", "together", "evicted", "used", "p95 wait")
_LONG_HEADS: Final = (
    "fairness error",
    "work lost",
    "together",
    "evictions",
    "GPUs used",
    "longest p95 wait",
)


def summary_of(sweep: Sweep) -> str:
    """Format a line for each setting, the cheapest first, and the recommendation."""
    rows: list[tuple[str, ...]] = [("setting", *_HEADS)]
    order = sorted(range(len(sweep.trials)), key=lambda at: (sweep.trials[at].cost, at))
    rows += [(_marked(sweep, at), *_cells(sweep.trials[at])) for at in order]
    names = "".join(
        f"  {_short(path)}: {path}\n" for path, _ in sweep.trials[0].values if _short(path) != path
    )
    return "\n".join(
        [
            f"{sweep.scenario}: {len(sweep.trials)} settings, the best first; * no other beats it",
            names,
            *aligned(rows, _LONGEST),
            "",
            *_recommendation(sweep),
        ]
    )


def json_of(sweep: Sweep) -> str:
    """Format every trial, unrounded."""
    frontier = set(sweep.frontier)
    answer = {
        "schemaVersion": SCHEMA,
        "scenario": sweep.scenario,
        "recommended": dict(sweep.recommended),
        "withoutEffect": sweep.idle,
        "reason": sweep.reason,
        "trials": [
            _plain(trial, is_on_frontier=at in frontier) for at, trial in enumerate(sweep.trials)
        ],
    }
    return json.dumps(answer, indent=2, allow_nan=False)


def write_sweep(sweep: Sweep, folder: Path) -> list[Path]:
    """Write all files of a sweep into a folder."""
    return [
        write_text(folder / "tune.json", json_of(sweep) + "\n"),
        write_text(folder / "tune.csv", _csv_of(sweep)),
        write_text(folder / "tune.html", html_of(sweep)),
    ]


def html_of(sweep: Sweep) -> str:
    """Return a page with the trade-off as a chart and a table."""
    frontier = [sweep.trials[at] for at in sweep.frontier]
    dots = [
        Dot(100 * trial.lost, 100 * trial.error, told(trial.values), at == sweep.best)
        for at, trial in enumerate(sweep.trials)
    ]
    chart = scatter_chart(
        "Fairness error against lost work, a dot for each setting",
        "work lost, % of GPU-hours",
        "fairness error, % of GPU-hours",
        dots,
        [(100 * trial.lost, 100 * trial.error) for trial in frontier],
    )
    paths = [path for path, _ in sweep.trials[0].values]
    order = sorted(range(len(sweep.trials)), key=lambda at: (sweep.trials[at].cost, at))
    rows = [
        (
            *(str(value) for _, value in sweep.trials[at].values),
            *_cells(sweep.trials[at]),
        )
        for at in order
    ]
    body = [
        heading(f"Tuning: {sweep.scenario}", 1),
        *map(paragraph, _recommendation(sweep)),
        figure(chart, "The dashed line joins the settings that no other beats in both."),
        heading("All settings"),
        table((*paths, *_LONG_HEADS), rows),
    ]
    return page(f"kaisched: tuning {sweep.scenario}", body)


def _recommendation(sweep: Sweep) -> list[str]:
    """Return the sentences on what to take, and on what made no difference."""
    idle = sweep.idle
    lines = [f"Recommended: {told(sweep.recommended)}."] if sweep.recommended else []
    lines.append(sweep.reason)
    if idle and sweep.recommended:
        lines.append(f"The values of {' and of '.join(map(_short, idle))} made no difference.")
    return lines


def _marked(sweep: Sweep, at: int) -> str:
    values = ", ".join(f"{value}" for _, value in sweep.trials[at].values)
    return f"{values} *" if at in sweep.frontier else values


def _short(path: str) -> str:
    return path.rpartition(".")[2]


def _cells(trial: Trial) -> tuple[str, ...]:
    wait_s = trial.longest_p95_wait_s
    return (
        f"{trial.error:.1%}",
        f"{trial.lost:.1%}",
        f"{trial.cost:.1%}",
        f"{trial.evictions:,}",
        f"{trial.utilisation:.1%}",
        told_wait(wait_s),
    )


def _plain(trial: Trial, *, is_on_frontier: bool) -> dict[str, Any]:
    return {
        "values": dict(trial.values),
        "fairnessError": trial.error,
        "lost": trial.lost,
        "evictions": trial.evictions,
        "utilisation": trial.utilisation,
        "jain": trial.jain,
        "longestP95WaitSeconds": trial.longest_p95_wait_s,
        "onFrontier": is_on_frontier,
    }


def _csv_of(sweep: Sweep) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    paths = [path for path, _ in sweep.trials[0].values]
    writer.writerow([*paths, "fairness_error", "lost", "evictions", "utilisation", "jain"])
    for trial in sweep.trials:
        numbers = (trial.error, trial.lost, trial.utilisation, trial.jain)
        error, lost, used, jain = (f"{number:.6f}" for number in numbers)
        writer.writerow(
            [*(value for _, value in trial.values), error, lost, trial.evictions, used, jain]
        )
    return text.getvalue()
