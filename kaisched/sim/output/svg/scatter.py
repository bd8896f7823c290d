"""Points on two axes of amounts: a trade."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import Final

from kaisched.sim.output.svg.marks import colour, fill, line, number, path, text
from kaisched.sim.output.svg.scale import Scale, label, ticks_up_to

_LEFT: Final = 64
_TOP: Final = 44


@dataclass(frozen=True, slots=True)
class Dot:
    """One point, what is told of it, and whether it stands out."""

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
) -> str:
    """Return points, with a line through those of the frontier."""
    x_ticks = ticks_up_to(max((dot.x for dot in dots), default=1.0) or 1.0)
    y_ticks = ticks_up_to(max((dot.y for dot in dots), default=1.0) or 1.0)
    bottom = _TOP + height
    x = Scale(0.0, x_ticks[-1], _LEFT, width - 20)
    y = Scale(0.0, y_ticks[-1], bottom, _TOP)
    parts = [text((0, 15), title, kind="title"), text((0, _TOP - 10), y_label, kind="unit")]
    for at in y_ticks:
        parts.append(line((x.begin, y(at)), (x.end, y(at)), "grid"))
        parts.append(text((x.begin - 6, y(at) + 4), label(at), anchor="end"))
    parts += [text((x(at), bottom + 15), label(at), anchor="middle") for at in x_ticks]
    parts.append(line((x.begin, bottom), (x.end, bottom), "axis"))
    parts.append(text((x.end, bottom + 31), x_label, anchor="end", kind="unit"))
    if len(frontier) > 1:
        points = [(x(a), y(b)) for a, b in sorted(frontier)]
        style = f'fill="none" stroke="{colour(2)}" stroke-width="1.4" stroke-dasharray="6 4"'
        parts.append(path(points, style))
    for dot in sorted(dots, key=lambda dot: dot.is_chosen):
        radius, series = (7, 1) if dot.is_chosen else (4, 0)
        place = f'cx="{number(x(dot.x))}" cy="{number(y(dot.y))}" r="{radius}"'
        told = f"<title>{escape(dot.name)}</title>"
        parts.append(f"<circle {place} {fill(series, 0.85)}>{told}</circle>")
        if dot.is_chosen:
            parts.append(text((x(dot.x) + 11, y(dot.y) - 8), dot.name, kind="legend"))
    inside = "".join(parts)
    size = f"0 0 {width} {bottom + 40}"
    return f'<svg viewBox="{size}" role="img" aria-label="{escape(title)}">{inside}</svg>'
