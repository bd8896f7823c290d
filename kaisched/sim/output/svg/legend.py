"""Legends: samples with their names, in rows as wide as the chart above."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from kaisched.sim.output.svg.marks import fitted, number, text, width_of

_ROW: Final = 18
_SAMPLE: Final = 22
_GAP: Final = 16


@dataclass(frozen=True, slots=True)
class Entry:
    """One entry of a legend: its name, and the style of its sample."""

    name: str
    style: str
    is_area: bool = False


def legend_height(legend: Sequence[Entry], left: float, width: float) -> float:
    """Return the height of a legend in pixels, 0 without entries."""
    places = _places(legend, left, width)
    return places[-1][1] + 8 if places else 0.0


def legend_marks(legend: Sequence[Entry], left: float, top: float, width: float) -> list[str]:
    """Draw the samples and names of a legend from ``left`` to ``width``, below ``top``.

    A name longer than a row is cut.
    """
    parts: list[str] = []
    for (x, y), entry in zip(_places(legend, left, width), legend, strict=True):
        parts.append(_sample(x, top + y, entry))
        name = fitted(entry.name, width - left - _SAMPLE)
        parts.append(text((x + _SAMPLE, top + y), name, kind="legend"))
    return parts


def _places(legend: Sequence[Entry], left: float, width: float) -> list[tuple[float, float]]:
    """Return the left end of each entry, and the foot of its row."""
    places = []
    x, y = left, 12.0
    for entry in legend:
        needed = _SAMPLE + width_of(entry.name)
        if x > left and x + needed > width:
            x, y = left, y + _ROW
        places.append((x, y))
        x += needed + _GAP
    return places


def _sample(x: float, y: float, entry: Entry) -> str:
    """Draw the sample before a name whose foot is at y."""
    if entry.is_area:
        box = f'x="{number(x)}" y="{number(y - 9)}" width="16" height="10"'
        return f"<rect {box} {entry.style}/>"
    return f'<path d="M{number(x)} {number(y - 4)}h16" {entry.style}/>'
