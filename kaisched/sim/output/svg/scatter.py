"""Scatter chart: points on two axes of amounts, which trade off."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import Final

from kaisched.sim.output.svg.chart import Chart
from kaisched.sim.output.svg.charts import DASHED
from kaisched.sim.output.svg.marks import (
    Point,
    fill,
    line,
    number,
    path,
    stroke,
    text,
    width_of,
)
from kaisched.sim.output.svg.scale import Scale, label, ticks_over

_LEFT: Final = 64
_TOP: Final = 50


@dataclass(frozen=True, slots=True)
class Dot:
    """One point, its text, and whether it stands out."""

    x: float
    y: float
    name: str
    is_chosen: bool = False


def scatter_chart(
    title: str,
    x_label: str,
    y_label: str,
    dots: Sequence[Dot],
    frontier: Sequence[tuple[float, float]],
    *,
    width: int = 1220,
    height: int = 360,
) -> Chart:
    """Draw points, with a line through those of the frontier."""
    x_ticks = ticks_over(0.0, max((dot.x for dot in dots), default=1.0) or 1.0)
    y_ticks = ticks_over(0.0, max((dot.y for dot in dots), default=1.0) or 1.0)
    bottom = _TOP + height
    x = Scale(0.0, x_ticks[-1], _LEFT, width - 20)
    y = Scale(0.0, y_ticks[-1], bottom, _TOP)
    parts = [text((0, 15), title, kind="title"), text((0, _TOP - 13), y_label, kind="unit")]
    for at in y_ticks:
        parts.append(line((x.begin, y(at)), (x.end, y(at)), "grid"))
        parts.append(text((x.begin - 6, y(at) + 4), label(at), anchor="end"))
    parts += [text((x(at), bottom + 15), label(at), anchor="middle") for at in x_ticks]
    parts.append(line((x.begin, bottom), (x.end, bottom), "axis"))
    parts.append(text((x.end, bottom + 31), x_label, anchor="end", kind="unit"))
    if len(frontier) > 1:
        points = [(x(a), y(b)) for a, b in sorted(frontier)]
        parts.append(path(points, stroke(2, dash=DASHED, width=1.4)))
    for dot in sorted(dots, key=lambda dot: dot.is_chosen):
        radius, series = (7, 1) if dot.is_chosen else (4, 0)
        place = f'cx="{number(x(dot.x))}" cy="{number(y(dot.y))}" r="{radius}"'
        title = f"<title>{escape(dot.name)}</title>"
        parts.append(f"<circle {place} {fill(series, 0.85)}>{title}</circle>")
        if dot.is_chosen:
            parts.append(_name_of(dot, (x(dot.x), y(dot.y)), width, bottom))
    return Chart(title, width, bottom + 40, "".join(parts))


def _name_of(dot: Dot, at: Point, width: int, bottom: float) -> str:
    """Draw the name beside its dot: to the right, or where no dot of a frontier can be."""
    if at[0] + 11 + width_of(dot.name) <= width:
        return text((at[0] + 11, max(at[1] - 8, _TOP + 4)), dot.name, kind="legend")
    foot = min(at[1] + 18, bottom - 6)
    return text((at[0] - 11, foot), dot.name, anchor="end", kind="legend")
