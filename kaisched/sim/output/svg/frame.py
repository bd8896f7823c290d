"""The frame of a chart: title, axes with units, grid and legend. Every chart stands in one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import Final

from kaisched.sim.output.svg.marks import line, number, text
from kaisched.sim.output.svg.scale import Scale, in_unit, label, ticks_up_to, time_ticks, time_unit

LEFT: Final = 56
_RIGHT: Final = 14
_TOP: Final = 30
_BOTTOM: Final = 40
_ROW: Final = 16
_LETTER: Final = 6.4
"""Pixels of a letter of the legend, about."""
_SAMPLE: Final = 22


@dataclass(frozen=True, slots=True)
class Entry:
    """One line of a legend: what it is, and the style of its sample."""

    name: str
    style: str
    is_area: bool = False


@dataclass(frozen=True, slots=True)
class Frame:
    """Where a chart is drawn. ``x`` takes seconds, ``y`` amounts."""

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

    def draw(self, marks: Sequence[str]) -> str:
        """Return the whole chart with these marks in it."""
        parts = [*self._grid(), *marks, *self._axes(), *self._legend()]
        return (
            f'<svg viewBox="0 0 {self.width} {self.height}" role="img" '
            f'aria-label="{escape(self.title)}">' + "".join(parts) + "</svg>"
        )

    def _grid(self) -> list[str]:
        left, right = self.x.begin, self.x.end
        return [line((left, self.y(at)), (right, self.y(at)), "grid") for at in self.y_ticks]

    def _axes(self) -> list[str]:
        bottom = self.y.begin
        seconds, _ = time_unit(self.x.most)
        words = in_unit(self.x_ticks, seconds)
        return [
            text((0, 15), self.title, kind="title"),
            line((self.x.begin, bottom), (self.x.end, bottom), "axis"),
            *(
                text((self.x(at), bottom + 15), word, anchor="middle")
                for at, word in zip(self.x_ticks, words, strict=True)
            ),
            *(
                text((self.x.begin - 6, self.y(at) + 4), label(at), anchor="end")
                for at in self.y_ticks
            ),
            text((self.x.end, bottom + 31), self.x_label, anchor="end", kind="unit"),
            text((0, self.y.end - 8), self.y_label, kind="unit"),
        ]

    def _legend(self) -> list[str]:
        parts: list[str] = []
        for (x, y), entry in zip(legend_places(self.legend, self.width), self.legend, strict=True):
            top = self.y.begin + _BOTTOM + y
            parts.append(sample_of(x, top, entry.style, is_area=entry.is_area))
            parts.append(text((x + _SAMPLE, top), entry.name, kind="legend"))
        return parts


def sample_of(x: float, y: float, style: str, *, is_area: bool) -> str:
    """Return the sample of a style that stands before its name, whose foot is at y."""
    if is_area:
        return f'<rect x="{number(x)}" y="{number(y - 9)}" width="16" height="10" {style}/>'
    return f'<path d="M{number(x)} {number(y - 4)}h16" {style}/>'


def legend_places(legend: Sequence[Entry], width: int) -> list[tuple[float, float]]:
    """Return where each entry of a legend begins, in rows as wide as the chart."""
    places = []
    x, y = float(LEFT), 6.0
    for entry in legend:
        needed = _SAMPLE + len(entry.name) * _LETTER + 14
        if x > LEFT and x + needed > width:
            x, y = float(LEFT), y + _ROW
        places.append((x, y))
        x += needed
    return places


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
    """Return a frame over time from 0; ``height`` is that of the plot, the legend comes below.

    ``unit`` names the amounts of the other axis, which run from 0 to at least ``most``.
    """
    ticks = ticks_up_to(max(most, 1e-9)) if y_ticks is None else list(y_ticks)
    instants, unit_of_time = time_ticks(end_s, 8 if width > 500 else 5)  # noqa: PLR2004
    rows = legend_places(legend, width)
    top = _TOP + 14
    bottom = top + height
    below = _BOTTOM + (rows[-1][1] + 8 if rows else 0)
    return Frame(
        width=width,
        height=round(bottom + below),
        title=title,
        x=Scale(0.0, end_s, LEFT, width - _RIGHT),
        y=Scale(0.0, ticks[-1], bottom, top),
        x_ticks=instants,
        y_ticks=ticks,
        x_label=f"time, {unit_of_time}",
        y_label=unit,
        legend=legend,
    )
