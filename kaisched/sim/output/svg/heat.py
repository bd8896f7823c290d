"""A heat map over time: a row for each name, darker where more of it is in use."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from kaisched.core.axis import FloatVec, IntVec
from kaisched.sim.output.svg.chart import Chart
from kaisched.sim.output.svg.frame import time_axis
from kaisched.sim.output.svg.marks import NAME_WIDTH, fill, fitted, rectangles, text
from kaisched.sim.output.svg.scale import Scale, time_ticks

_SHADES: Final = 8
_LEFT: Final = NAME_WIDTH + 6
_TOP: Final = 30
_MANY: Final = 40
_SAMPLE: Final = 24


def heat_chart(
    title: str, names: Sequence[str], parts: FloatVec, end_s: float, *, width: int = 1220
) -> Chart:
    """Draw rows of equal spans up to an instant; ``parts`` ``(N, S)`` are from 0 to 1."""
    tall = 13 if len(names) <= _MANY else 8
    bottom = _TOP + tall * len(names)
    x = Scale(0.0, end_s, _LEFT, width - 14)
    whole = f'x="{_LEFT}" y="{_TOP}" width="{x.end - x.begin}" height="{bottom - _TOP}"'
    marks = [text((0, 15), title, kind="title"), f'<rect {whole} class="void"/>']
    shades = np.rint(np.clip(parts, 0.0, 1.0) * _SHADES).astype(np.int64)
    marks += [_cells(shades, shade, tall, x) for shade in range(1, _SHADES + 1)]
    every = -(-len(names) // _MANY) if names else 1
    marks += [
        text(
            (_LEFT - 6, _TOP + row * tall + tall - 2), fitted(names[row], NAME_WIDTH), anchor="end"
        )
        for row in range(0, len(names), every)
    ]
    instants, unit = time_ticks(end_s, 12)
    marks += [*time_axis(x, instants, f"time, {unit}", bottom), *_legend(bottom + 26)]
    return Chart(title, width, bottom + 44, "".join(marks))


def _cells(shades: IntVec, shade: int, tall: int, x: Scale) -> str:
    """Draw all cells of one shade as one mark; neighbours in a row are one box."""
    span = (x.end - x.begin) / max(shades.shape[1], 1)
    boxes = []
    for row, line in enumerate(shades == shade):
        edges = np.flatnonzero(np.diff(np.concatenate(([0], line.astype(np.int64), [0]))))
        for begin, end in edges.reshape(-1, 2).tolist():
            wide = (end - begin) * span
            boxes.append((x.begin + begin * span, float(_TOP + row * tall), wide, tall - 1.0))
    return rectangles(boxes, fill(0, shade / _SHADES))


def _legend(y: int) -> list[str]:
    parts = [text((_LEFT - 6, y + 9), "0 %", anchor="end", kind="legend")]
    for shade in range(_SHADES + 1):
        box = f'x="{_LEFT + shade * _SAMPLE}" y="{y}" width="{_SAMPLE}" height="10"'
        parts.append(f'<rect {box} class="void"/><rect {box} {fill(0, shade / _SHADES)}/>')
    end = _LEFT + (_SHADES + 1) * _SAMPLE + 6
    return [*parts, text((end, y + 9), "100 % of its GPUs in use", kind="legend")]
