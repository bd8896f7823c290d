"""Kinds of charts: lines, areas and bars over time, bars by name, a heat map, a scatter chart."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from itertools import pairwise
from typing import Final

import numpy as np

from kaisched.core.axis import FloatVec, IntVec
from kaisched.sim.output.page import (
    NAME_WIDTH,
    NEUTRAL,
    Chart,
    Entry,
    Point,
    Scale,
    area,
    fill,
    fitted,
    label,
    legend_height,
    legend_marks,
    line,
    number,
    path,
    rectangles,
    short_label,
    stroke,
    text,
    ticks_over,
    time_ticks,
    time_unit,
    width_of,
)

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


FEW = 5
DASHED = "6 4"
DOTTED = "1.5 3.5"
_STACKED = 0.85
_SHADE = 0.3
_UNSEEN = 0.2
"""Pixels."""
_MOST_BARS = 60
"""Over time."""
WHOLE: Final = 1220
"""Width in pixels of a chart on its own."""


@dataclass(frozen=True, slots=True)
class Line:
    """A line over time: amounts at instants, or means of the spans that end there."""

    name: str
    ends_s: FloatVec
    values: FloatVec
    series: int
    dash: str = ""
    is_filled: bool = False
    is_stepped: bool = True
    """Means stay the same over a span; sums grow along straight lines."""
    width: float = 1.6
    is_named: bool = True
    """Whether the legend names it."""

    @property
    def style(self) -> str:
        """Attributes of the line's path."""
        if self.is_filled:
            return fill(self.series, _SHADE)
        return stroke(self.series, dash=self.dash, width=self.width)

    @property
    def entry(self) -> Entry:
        """The line's entry in a legend."""
        return Entry(self.name, self.style, self.is_filled)


def lines_chart(
    title: str,
    unit: str,
    lines: Sequence[Line],
    *,
    most: float | None = None,
    width: int = 600,
    height: int = 200,
    y_ticks: Sequence[float] | None = None,
    also: Sequence[Entry] = (),
) -> Chart:
    """Draw lines, each over its own spans; ``also`` are more entries of the legend."""
    highest = max((float(line.values.max(initial=0.0)) for line in lines), default=0.0)
    frame = time_frame(
        title,
        max(float(line.ends_s[-1]) for line in lines),
        highest if most is None else most,
        unit,
        [*(line.entry for line in lines if line.is_named), *also],
        width=width,
        height=height,
        y_ticks=y_ticks,
    )
    marks = []
    for each in sorted(lines, key=lambda each: not each.is_filled):
        points = _points(each, np.minimum(each.values, frame.y.most), frame)
        if each.is_filled:
            base = [(points[0][0], frame.y.begin), (points[-1][0], frame.y.begin)]
            marks.append(area(points, base, each.style))
        else:
            marks.append(path(points, each.style))
    return frame.draw(marks)


def stacked_chart(
    title: str, unit: str, layers: Sequence[Line], limit: Line, *, width: int
) -> Chart:
    """Draw areas on top of each other, the first at the bottom, and a limit over them.

    All areas have the spans of the limit.
    """
    ends_s = limit.ends_s
    total = np.sum([layer.values for layer in layers], axis=0)
    highest = max(float(total.max(initial=0.0)), float(limit.values.max(initial=0.0)))
    style = stroke(NEUTRAL, dash=DASHED, width=1.2)
    legend = [Entry(layer.name, fill(layer.series, _STACKED), True) for layer in layers]
    legend.append(Entry(limit.name, style))
    frame = time_frame(title, float(ends_s[-1]), highest, unit, legend, width=width, height=220)
    marks = []
    below = np.zeros(len(ends_s))
    for layer in layers:
        above = below + layer.values
        upper = _stairs(ends_s, above, frame)
        marks.append(area(upper, _stairs(ends_s, below, frame), fill(layer.series, _STACKED)))
        below = above
    marks.append(path(_stairs(ends_s, limit.values, frame), style))
    return frame.draw(marks)


def bars_over_time(
    title: str,
    unit: str,
    ends_s: FloatVec,
    values: FloatVec,
    series: int,
    *,
    is_count: bool = False,
) -> Chart:
    """Draw sums over equal spans as bars, joining spans until they are few enough.

    With counts, the axis has whole numbers only.
    """
    joined = -(-len(values) // _MOST_BARS)
    first = np.arange(0, len(values), joined)
    sums = np.add.reduceat(values, first)
    ends = np.append(ends_s[first[1:] - 1], ends_s[-1])
    begins = np.concatenate(([0.0], ends[:-1]))
    highest = float(sums.max(initial=0.0)) or 1.0
    ticks = [float(at) for at in range(int(highest) + 1)] if is_count and highest <= FEW else None
    frame = time_frame(title, float(ends_s[-1]), highest, unit, (), y_ticks=ticks)
    boxes = [
        (
            frame.x(begin),
            frame.y(value),
            max(frame.x(end) - frame.x(begin) - 1.0, 0.5),
            frame.y.begin - frame.y(value),
        )
        for begin, end, value in zip(begins.tolist(), ends.tolist(), sums.tolist(), strict=True)
        if value > 0
    ]
    return frame.draw([rectangles(boxes, fill(series, 0.9))])


def _points(line: Line, values: FloatVec, frame: Frame) -> list[Point]:
    if line.is_stepped:
        return _stairs(line.ends_s, values, frame)
    xs = [0.0, *line.ends_s.tolist()]
    ys = [0.0, *values.tolist()]
    return _bends([(frame.x(x), frame.y(y)) for x, y in zip(xs, ys, strict=True)])


def _bends(points: list[Point]) -> list[Point]:
    """Return the points at which a line bends enough for the eye; drop the points between.

    Each point after a bend leaves a range of slopes that pass near enough.
    """
    kept = [points[0]]
    least, most = -math.inf, math.inf
    for before, (x, y) in pairwise(points):
        begin_x, begin_y = kept[-1]
        if before != kept[-1] and not least <= (y - begin_y) / (x - begin_x) <= most:
            kept.append(before)
            begin_x, begin_y = before
            least, most = -math.inf, math.inf
        least = max(least, (y - _UNSEEN - begin_y) / (x - begin_x))
        most = min(most, (y + _UNSEEN - begin_y) / (x - begin_x))
    return [*kept, points[-1]]


def _stairs(ends_s: FloatVec, values: FloatVec, frame: Frame) -> list[Point]:
    """Return corners only where the value changes: most spans equal the one before."""
    points: list[Point] = []
    begin = 0.0
    last = None
    for end, value in zip(ends_s.tolist(), values.tolist(), strict=True):
        if last is None or value != last:
            if last is not None:
                points.append((frame.x(begin), frame.y(last)))
            points.append((frame.x(begin), frame.y(value)))
        last, begin = value, end
    if last is not None:
        points.append((frame.x(begin), frame.y(last)))
    return points


_BARS_TOP: Final = 32
_VALUE: Final = 56
"""Width in pixels of the value beside a bar."""
_THICK: Final = 11
_THICKEST: Final = 22
_GAP: Final = 2
_BETWEEN_ROWS: Final = 10
_AMOUNT_WIDTH: Final = 70


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
    row, thick = _rows(len(names), len(groups), height - _BARS_TOP - _BOTTOM)
    bottom = _BARS_TOP + row * len(names)
    widest = min(NAME_WIDTH, width / 4)
    left = min(max((width_of(name) for name in names), default=0.0), widest) + 12
    x, ticks = _scale(groups, left, width)
    parts = [text((0, 15), title, kind="title")]
    for at in ticks:
        parts.append(line((x(at), _BARS_TOP), (x(at), bottom), "axis" if at == 0 else "grid"))
        parts.append(text((x(at), bottom + 15), label(at), anchor="middle"))
    parts.append(text((x.end, bottom + 31), unit, anchor="end", kind="unit"))
    for at, name in enumerate(names):
        middle = _BARS_TOP + row * (at + 0.5)
        words = fitted(name, widest)
        parts.append(text((left - 6, middle + 4), words, anchor="end"))
        top = middle - len(groups) * (thick + _GAP) / 2
        for place, group in enumerate(groups):
            value = group.values[at]
            if value is not None:
                parts += _bar(x, value, (top + place * (thick + _GAP), thick), group)
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
    count = math.ceil((end - begin) / _AMOUNT_WIDTH)
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


_SHADES: Final = 8
_HEAT_LEFT: Final = NAME_WIDTH + 6
_HEAT_TOP: Final = 30
_MANY: Final = 40
_SAMPLE: Final = 24


def heat_chart(title: str, names: Sequence[str], parts: FloatVec, end_s: float) -> Chart:
    """Draw rows of equal spans up to an instant; ``parts`` ``(N, S)`` are from 0 to 1."""
    tall = 13 if len(names) <= _MANY else 8
    bottom = _HEAT_TOP + tall * len(names)
    x = Scale(0.0, end_s, _HEAT_LEFT, WHOLE - 14)
    whole = (
        f'x="{_HEAT_LEFT}" y="{_HEAT_TOP}" width="{x.end - x.begin}" height="{bottom - _HEAT_TOP}"'
    )
    marks = [text((0, 15), title, kind="title"), f'<rect {whole} class="void"/>']
    shades = np.rint(np.clip(parts, 0.0, 1.0) * _SHADES).astype(np.int64)
    marks += [_cells(shades, shade, tall, x) for shade in range(1, _SHADES + 1)]
    every = -(-len(names) // _MANY) if names else 1
    marks += [
        text(
            (_HEAT_LEFT - 6, _HEAT_TOP + row * tall + tall - 2),
            fitted(names[row], NAME_WIDTH),
            anchor="end",
        )
        for row in range(0, len(names), every)
    ]
    instants, unit = time_ticks(end_s, 12)
    marks += [*time_axis(x, instants, f"time, {unit}", bottom), *_legend(bottom + 26)]
    return Chart(title, WHOLE, bottom + 44, "".join(marks))


def _cells(shades: IntVec, shade: int, tall: int, x: Scale) -> str:
    """Draw all cells of one shade as one mark; neighbours in a row are one box."""
    span = (x.end - x.begin) / max(shades.shape[1], 1)
    boxes = []
    for row, cells in enumerate(shades == shade):
        edges = np.flatnonzero(np.diff(np.concatenate(([0], cells.astype(np.int64), [0]))))
        for begin, end in edges.reshape(-1, 2).tolist():
            wide = (end - begin) * span
            boxes.append((x.begin + begin * span, float(_HEAT_TOP + row * tall), wide, tall - 1.0))
    return rectangles(boxes, fill(0, shade / _SHADES))


def _legend(y: int) -> list[str]:
    parts = [text((_HEAT_LEFT - 6, y + 9), "0 %", anchor="end", kind="legend")]
    for shade in range(_SHADES + 1):
        box = f'x="{_HEAT_LEFT + shade * _SAMPLE}" y="{y}" width="{_SAMPLE}" height="10"'
        parts.append(f'<rect {box} class="void"/><rect {box} {fill(0, shade / _SHADES)}/>')
    end = _HEAT_LEFT + (_SHADES + 1) * _SAMPLE + 6
    return [*parts, text((end, y + 9), "100 % of its GPUs in use", kind="legend")]


_SCATTER_LEFT: Final = 64


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
) -> Chart:
    """Draw points, with a line through those of the frontier."""
    x_ticks = ticks_over(0.0, max((dot.x for dot in dots), default=1.0) or 1.0)
    y_ticks = ticks_over(0.0, max((dot.y for dot in dots), default=1.0) or 1.0)
    bottom = _TOP + 360
    x = Scale(0.0, x_ticks[-1], _SCATTER_LEFT, WHOLE - 20)
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
            parts.append(_name_of(dot, (x(dot.x), y(dot.y)), bottom))
    return Chart(title, WHOLE, bottom + 40, "".join(parts))


def _name_of(dot: Dot, at: Point, bottom: float) -> str:
    """Draw the name beside its dot: to the right, or where no dot of a frontier can be."""
    if at[0] + 11 + width_of(dot.name) <= WHOLE:
        return text((at[0] + 11, max(at[1] - 8, _TOP + 4)), dot.name, kind="legend")
    foot = min(at[1] + 18, bottom - 6)
    return text((at[0] - 11, foot), dot.name, anchor="end", kind="legend")
