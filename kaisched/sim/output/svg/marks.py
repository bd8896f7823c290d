"""The smallest parts of a drawing: escaped text, numbers, paths and rectangles."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from typing import Final

from kaisched.sim.output.svg.style import BOLD_SIZES, TEXT_SIZE, area_class, line_class

NAME_WIDTH: Final = 150
"""Longest name beside a chart, in pixels."""
_NARROW: Final = frozenset("fijlrtI.,:;'|!()[]/- ")
_WIDE: Final = frozenset("mwMW@%")
_BOLDER: Final = 1.1
"""Ratio of the widths of bold and plain text."""

Point = tuple[float, float]


def number(value: float) -> str:
    """Format a coordinate with at most one decimal: a tenth of a pixel."""
    return f"{value:.1f}".removesuffix(".0")


def text(at: Point, words: str, *, anchor: str = "start", kind: str = "tick") -> str:
    """Return a line of text; ``kind`` is a class of the style."""
    return (
        f'<text x="{number(at[0])}" y="{number(at[1])}" text-anchor="{anchor}" class="{kind}">'
        f"{escape(words)}</text>"
    )


def width_of(words: str, kind: str = "tick") -> float:
    """Return the largest width in pixels of words of a class, in any common font."""
    bold = BOLD_SIZES.get(kind)
    em = TEXT_SIZE if bold is None else bold * _BOLDER
    return em * sum(_part_of_em(letter) for letter in words)


def fitted(words: str, width: float, kind: str = "tick") -> str:
    """Cut words to a width, with an ellipsis if anything is left out."""
    if width_of(words, kind) <= width:
        return words
    fits = [at for at in range(len(words)) if width_of(f"{words[:at]}…", kind) <= width]
    return f"{words[: max(fits, default=0)]}…"


def _part_of_em(letter: str) -> float:
    if letter in _NARROW:
        return 0.42
    if letter in _WIDE or not letter.isascii():
        return 1.0
    return 0.64 if letter.islower() or letter.isdigit() else 0.84


def line(begin: Point, end: Point, kind: str) -> str:
    """Return a straight line."""
    return (
        f'<line x1="{number(begin[0])}" y1="{number(begin[1])}" '
        f'x2="{number(end[0])}" y2="{number(end[1])}" class="{kind}"/>'
    )


def path(points: Sequence[Point], style: str) -> str:
    """Return a line through points."""
    return f'<path d="{_through(points)}" {style}/>'


def area(upper: Sequence[Point], lower: Sequence[Point], style: str) -> str:
    """Return the area between two lines."""
    return f'<path d="{_through([*upper, *reversed(lower)])}Z" {style}/>'


def rectangles(boxes: Iterable[tuple[float, float, float, float]], style: str) -> str:
    """Return boxes (x, y, width, height) as one mark; nothing where there are none."""
    parts = [
        f"M{number(x)} {number(y)}h{number(width)}v{number(height)}h{number(-width)}z"
        for x, y, width, height in boxes
    ]
    return f'<path d="{"".join(parts)}" {style}/>' if parts else ""


def stroke(series: int, *, dash: str = "", width: float = 1.6) -> str:
    """Return the style of a line of a series."""
    dashed = f' stroke-dasharray="{dash}"' if dash else ""
    return f'class="{line_class(series)}" stroke-width="{width}"{dashed}'


def fill(series: int, opacity: float = 1.0) -> str:
    """Return the style of an area of a series."""
    return f'class="{area_class(series)}" fill-opacity="{opacity:g}"'


def _through(points: Sequence[Point]) -> str:
    """Return the path through points; horizontal and vertical steps need one number."""
    (x, y), *others = [(number(x), number(y)) for x, y in points]
    steps = [f"M{x} {y}"]
    for new_x, new_y in others:
        if new_y == y:
            steps.append(f"H{new_x}")
        elif new_x == x:
            steps.append(f"V{new_y}")
        else:
            steps.append(f"L{new_x} {new_y}")
        x, y = new_x, new_y
    return "".join(steps)
