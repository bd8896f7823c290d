"""Frame of a chart over time: title, axes with units, grid and legend."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from kaisched.sim.output.svg.chart import Chart
from kaisched.sim.output.svg.legend import Entry, legend_height, legend_marks
from kaisched.sim.output.svg.marks import line, text
from kaisched.sim.output.svg.scale import Scale, label, ticks_over, time_ticks, time_unit

LEFT: Final = 60
_RIGHT: Final = 14
_TOP: Final = 50
_BOTTOM: Final = 40
_TICK_WIDTH: Final = 60
"""Width in pixels of the label of an instant."""


@dataclass(frozen=True, slots=True)
class Frame:
    """Area of a chart. ``x`` takes seconds, ``y`` amounts."""

    width: int
    height: int
    title: str
    x: Scale
    y: Scale
    x_ticks: Sequence[float]
    y_ticks: Sequence[float]
    x_label: str
    y_label: str
    legend: Sequence[Entry]

    def draw(self, marks: Sequence[str]) -> Chart:
        """Draw the whole chart with these marks in it."""
        legend = legend_marks(self.legend, LEFT, self.y.begin + _BOTTOM, self.width)
        parts = [*self._grid(), *marks, *self._axes(), *legend]
        return Chart(self.title, self.width, self.height, "".join(parts))

    def _grid(self) -> list[str]:
        left, right = self.x.begin, self.x.end
        return [line((left, self.y(at)), (right, self.y(at)), "grid") for at in self.y_ticks]

    def _axes(self) -> list[str]:
        return [
            text((0, 15), self.title, kind="title"),
            *time_axis(self.x, self.x_ticks, self.x_label, self.y.begin),
            *(
                text((self.x.begin - 6, self.y(at) + 4), label(at), anchor="end")
                for at in self.y_ticks
            ),
            text((0, self.y.end - 13), self.y_label, kind="unit"),
        ]


def time_axis(x: Scale, ticks: Sequence[float], words: str, bottom: float) -> list[str]:
    """Draw an axis over time, with its words below its end."""
    seconds, _ = time_unit(x.most)
    return [
        line((x.begin, bottom), (x.end, bottom), "axis"),
        *(text((x(at), bottom + 15), label(at / seconds), anchor="middle") for at in ticks),
        text((x.end, bottom + 31), words, anchor="end", kind="unit"),
    ]


def time_frame(
    title: str,
    end_s: float,
    most: float,
    unit: str,
    legend: Sequence[Entry],
    *,
    width: int = 600,
    height: int = 200,
    y_ticks: Sequence[float] | None = None,
) -> Frame:
    """Make a frame over time from 0; ``height`` is that of the plot, the legend comes below.

    ``unit`` names the amounts of the other axis, which run from 0 to at least ``most``.
    """
    ticks = ticks_over(0.0, max(most, 1e-9)) if y_ticks is None else list(y_ticks)
    instants, unit_of_time = time_ticks(end_s, (width - LEFT) // _TICK_WIDTH)
    bottom = _TOP + height
    return Frame(
        width=width,
        height=round(bottom + _BOTTOM + legend_height(legend, LEFT, width)),
        title=title,
        x=Scale(0.0, end_s, LEFT, width - _RIGHT),
        y=Scale(0.0, ticks[-1], bottom, _TOP),
        x_ticks=instants,
        y_ticks=ticks,
        x_label=f"time, {unit_of_time}",
        y_label=unit,
        legend=legend,
    )
