"""Charts of the report as SVG files, as wide as a page of documentation: for docs and slides."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from kaisched.sim.output.charts import SHARES_LEGEND, held_chart, hours_chart, share_charts
from kaisched.sim.output.compared import names_of
from kaisched.sim.output.comparison import (
    beyond_chart,
    evictions_chart,
    levels_charts,
    runs_legend,
    wrong_chart,
)
from kaisched.sim.output.files import Result, write_text
from kaisched.sim.output.shown import shown_of
from kaisched.sim.output.svg.chart import GAP, Chart, picture

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
    return [write_text(folder / f"{stem}.svg", text) for stem, text in texts.items()]


def write_compared(results: Sequence[Result], folder: Path) -> Path:
    """Write the picture that compares several runs.

    Raises:
        ConfigError: the folder cannot be written.

    """
    outcomes = [result.outcome for result in results]
    names = names_of(results)
    over_time = [
        chart_of(results, names, width=_NARROW, is_named=False)
        for chart_of in (wrong_chart, evictions_chart)
    ]
    height = sum(chart.height for chart in over_time) + GAP
    beyond = beyond_chart(outcomes, names, width=_NARROW, height=height, is_named=False)
    text = picture("Runs compared", [[beyond], over_time], runs_legend(names))
    levels = levels_charts(outcomes, names, width=_NARROW, is_named=False)
    if levels:
        drawn = picture("Gangs and the topology", [[it] for it in levels], runs_legend(names))
        write_text(folder / "topology.svg", drawn)
    return write_text(folder / "comparison.svg", text)
