"""Several runs in one picture: how far each queue is from what it is entitled to, and the cost."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np

from kaisched.sim.output.comparison import busiest_queues, wrong_hours
from kaisched.sim.output.files import Result
from kaisched.sim.output.plots import COLOURS, STEADY, pyplot, save
from kaisched.sim.output.summary import names_of
from kaisched.sim.output.svg.scale import time_unit

_SIZE: Final = (10.0, 6.0)
_GROUP: Final = 0.8
"""Height of the bars of one queue, of 1."""


def write_comparison(results: Sequence[Result], folder: Path) -> list[Path]:
    """Write the picture as PNG and SVG; the same runs give the same bytes.

    Raises:
        ConfigError: matplotlib is not installed, or the folder cannot be written.

    """
    plt = pyplot()
    with plt.rc_context(STEADY):
        figure, axes = plt.subplot_mosaic(
            [["queues", "wrong"], ["queues", "evictions"]], figsize=_SIZE, layout="constrained"
        )
        _queues(axes["queues"], results)
        _wrong(axes["wrong"], results)
        _evictions(axes["evictions"], results)
        handles, labels = axes["wrong"].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=2, frameon=False)
        written = save(figure, folder, "comparison")
        plt.close(figure)
    return written


def _queues(axes: Any, results: Sequence[Result]) -> None:
    """Draw GPU-hours beyond the entitlement, a bar for each run; below 0 is what is missing."""
    outcomes = [result.outcome for result in results]
    queues = busiest_queues(outcomes)
    place = np.arange(len(queues), dtype=np.float64)
    height = _GROUP / len(results)
    for row, outcome in enumerate(outcomes):
        beyond = {it.name: it.gpu_hours - it.entitled_gpu_hours for it in outcome.queues}
        at = place + (row - (len(results) - 1) / 2) * height
        axes.barh(at, [beyond.get(name, 0.0) for name in queues], height, color=_colour(row))
    axes.axvline(0.0, color="#1b1f24", lw=1.0)
    axes.set_yticks(place, queues)
    axes.invert_yaxis()
    axes.xaxis.set_major_formatter("{x:,.0f}")
    axes.set_title("Beyond what the queue is entitled to")
    axes.set_xlabel("GPU-hours")


def _wrong(axes: Any, results: Sequence[Result]) -> None:
    lines = [wrong_hours(result.timeline) for result in results]
    _over_time(axes, results, lines, "GPU-hours in the wrong hands so far")
    axes.tick_params(labelbottom=False)
    axes.set_xlabel("")


def _evictions(axes: Any, results: Sequence[Result]) -> None:
    lines = [np.cumsum(result.timeline.evictions.sum(axis=0)) for result in results]
    _over_time(axes, results, lines, "Evictions so far")


def _over_time(axes: Any, results: Sequence[Result], lines: Sequence[Any], title: str) -> None:
    longest_s = max(result.outcome.until_s for result in results)
    seconds, unit = time_unit(longest_s)
    names = names_of([result.outcome for result in results])
    for row, (name, result, line) in enumerate(zip(names, results, lines, strict=True)):
        edges = [0.0, *(result.timeline.end_s / seconds).tolist()]
        axes.plot(edges, [0.0, *line], color=_colour(row), lw=1.6, label=name)
    axes.set_xlim(0.0, longest_s / seconds)
    axes.set_ylim(bottom=0.0)
    axes.yaxis.set_major_formatter("{x:,.0f}")
    axes.set_title(title)
    axes.set_xlabel(f"time, {unit}")


def _colour(row: int) -> str:
    return COLOURS[row % len(COLOURS)]
