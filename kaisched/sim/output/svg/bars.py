"""Bars by name: a length for each name, to the right of 0 or to its left."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from kaisched.sim.output.svg.chart import Chart
from kaisched.sim.output.svg.legend import Entry, legend_height, legend_marks
from kaisched.sim.output.svg.marks import NAME_WIDTH, fill, fitted, line, rectangles, text, width_of
from kaisched.sim.output.svg.scale import Scale, label, short_label, ticks_over

_TOP: Final = 32
_BOTTOM: Final = 40
_VALUE: Final = 56
"""Width in pixels of the value beside a bar."""
_THICK: Final = 11
_THICKEST: Final = 22
_GAP: Final = 2
_BETWEEN_ROWS: Final = 10
_TICK_WIDTH: Final = 70


@dataclass(frozen=True, slots=True)
class Bars:
    """Bars of one group: one for each name, none without a value."""

    name: str
    values: Sequence[float | None]
    series: int
    opacity: float = 0.9


def bars_by_name(
    title: str,
    unit: str,
    names: Sequence[str],
    groups: Sequence[Bars],
    *,
    width: int = 600,
    height: int = 0,
    is_named: bool = True,
) -> Chart:
    """Draw a chart in which the bars of one name stand under each other.

    ``height`` is the least height of the chart. ``is_named`` says whether a legend names the
    groups; a single group needs none.
    """
    row, thick = _rows(len(names), len(groups), height - _TOP - _BOTTOM)
    bottom = _TOP + row * len(names)
    widest = min(NAME_WIDTH, width / 4)
    left = min(max((width_of(name) for name in names), default=0.0), widest) + 12
    x, ticks = _scale(groups, left, width)
    parts = [text((0, 15), title, kind="title")]
    for at in ticks:
        parts.append(line((x(at), _TOP), (x(at), bottom), "axis" if at == 0 else "grid"))
        parts.append(text((x(at), bottom + 15), label(at), anchor="middle"))
    parts.append(text((x.end, bottom + 31), unit, anchor="end", kind="unit"))
    for at, name in enumerate(names):
        middle = _TOP + row * (at + 0.5)
        words = fitted(name, widest)
        parts.append(text((left - 6, middle + 4), words, anchor="end"))
        top = middle - len(groups) * (thick + _GAP) / 2
        for number, group in enumerate(groups):
            value = group.values[at]
            if value is not None:
                parts += _bar(x, value, (top + number * (thick + _GAP), thick), group)
    is_legend_needed = is_named and len(groups) > 1
    entries = [Entry(it.name, fill(it.series, it.opacity), is_area=True) for it in groups]
    legend = entries if is_legend_needed else []
    parts += legend_marks(legend, left, bottom + _BOTTOM, width)
    end = bottom + _BOTTOM + legend_height(legend, left, width)
    return Chart(title, width, round(end), "".join(parts))


def _rows(names: int, groups: int, height: float) -> tuple[float, float]:
    """Return the heights of a name's row and of one bar."""
    row = max(groups * (_THICK + _GAP) + _BETWEEN_ROWS, height / max(names, 1))
    return row, min((row - _BETWEEN_ROWS) / groups - _GAP, _THICKEST)


def _scale(groups: Sequence[Bars], left: float, width: int) -> tuple[Scale, Sequence[float]]:
    """Return a scale for the longest bars and the values at their ends, and its ticks."""
    values = [value for group in groups for value in group.values if value is not None]
    least, most = min([0.0, *values]), max([0.0, *values])
    begin = left + (_VALUE if least < 0 else 0.0)
    end = float(width - _VALUE)
    count = math.ceil((end - begin) / _TICK_WIDTH)
    most = most or (0.0 if least < 0 else 1.0)
    ticks = [at for at in ticks_over(least, most, count) if least <= at <= most]
    return Scale(least, most, begin, end), ticks


def _bar(x: Scale, value: float, place: tuple[float, float], group: Bars) -> list[str]:
    top, thick = place
    begin, end = sorted((x(0.0), x(value)))
    is_left = value < 0
    return [
        rectangles([(begin, top, end - begin, thick)], fill(group.series, group.opacity)),
        text(
            (begin - 4 if is_left else end + 4, top + thick / 2 + 4),
            short_label(value),
            anchor="end" if is_left else "start",
            kind="value",
        ),
    ]
