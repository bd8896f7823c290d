"""Bars by name: a length for each of several names, to the right."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import Final

from kaisched.sim.output.svg.frame import sample_of
from kaisched.sim.output.svg.marks import cut, fill, line, rectangles, text
from kaisched.sim.output.svg.scale import Scale, label, ticks_up_to

_TOP: Final = 30
_RIGHT: Final = 60
_LETTER: Final = 7
_WIDEST_NAME: Final = 190


@dataclass(frozen=True, slots=True)
class Bars:
    """One bar for each name."""

    name: str
    values: Sequence[float]
    series: int
    opacity: float = 0.9


def bars_by_name(
    title: str, unit: str, names: Sequence[str], groups: Sequence[Bars], *, width: int = 600
) -> str:
    """Return a chart in which the bars of one name stand under each other."""
    thick = 10 if len(groups) > 1 else 15
    row = len(groups) * (thick + 2) + 9
    left = min(max((len(name) for name in names), default=4) * _LETTER + 12, _WIDEST_NAME)
    highest = max((max(group.values, default=0.0) for group in groups), default=0.0)
    ticks = ticks_up_to(highest or 1.0)
    bottom = _TOP + row * len(names)
    x = Scale(0.0, ticks[-1], left, width - _RIGHT)
    parts = [text((0, 15), title, kind="title")]
    for at in ticks:
        parts.append(line((x(at), _TOP), (x(at), bottom), "grid"))
        parts.append(text((x(at), bottom + 15), label(at), anchor="middle"))
    parts.append(text((width, bottom + 31), unit, anchor="end", kind="unit"))
    for at, name in enumerate(names):
        top = _TOP + row * at + 4
        parts.append(text((left - 6, top + (row - 9) / 2 + 4), cut(name), anchor="end"))
        for number, group in enumerate(groups):
            value, y = group.values[at], top + number * (thick + 2)
            box = (x.begin, y, x(value) - x.begin, float(thick))
            parts.append(rectangles([box], fill(group.series, group.opacity)))
            parts.append(text((x(value) + 4, y + thick - 1), label(value), kind="value"))
    return _drawn(title, parts, groups, left, bottom + 42, width)


def _drawn(
    title: str, parts: list[str], groups: Sequence[Bars], left: float, y: float, width: int
) -> str:
    """Return the chart with its legend, which one group does not need."""
    if len(groups) > 1:
        for group in groups:
            parts.append(sample_of(left, y, fill(group.series, group.opacity), is_area=True))
            parts.append(text((left + 22, y), group.name, kind="legend"))
            left += 36 + len(group.name) * _LETTER
        y += 8
    inside = "".join(parts)
    return (
        f'<svg viewBox="0 0 {width} {y:.0f}" role="img" aria-label="{escape(title)}">{inside}</svg>'
    )
