"""Charts over time: lines, areas on top of each other, and bars."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from kaisched.core.axis import FloatVec
from kaisched.sim.output.svg.chart import Chart
from kaisched.sim.output.svg.frame import Frame, time_frame
from kaisched.sim.output.svg.legend import Entry
from kaisched.sim.output.svg.marks import Point, area, fill, path, rectangles, stroke
from kaisched.sim.output.svg.style import NEUTRAL

FEW = 5
DASHED = "6 4"
DOTTED = "1.5 3.5"
_STACKED = 0.85
_SHADE = 0.3
_UNSEEN = 0.2
"""Pixels."""


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
    for line in sorted(lines, key=lambda line: not line.is_filled):
        points = _points(line, np.minimum(line.values, frame.y.most), frame)
        if line.is_filled:
            base = [(points[0][0], frame.y.begin), (points[-1][0], frame.y.begin)]
            marks.append(area(points, base, line.style))
        else:
            marks.append(path(points, line.style))
    return frame.draw(marks)


def stacked_chart(
    title: str,
    unit: str,
    layers: Sequence[Line],
    limit: Line,
    *,
    width: int = 1220,
    height: int = 220,
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
    frame = time_frame(title, float(ends_s[-1]), highest, unit, legend, width=width, height=height)
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
    most: int = 60,
    is_count: bool = False,
) -> Chart:
    """Draw sums over equal spans as bars, joining spans until they are few enough.

    With counts, the axis has whole numbers only.
    """
    joined = -(-len(values) // most)
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
