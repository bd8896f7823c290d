"""The smallest parts of a drawing: escaped text, numbers, paths and rectangles."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

LONGEST_NAME = 24

Point = tuple[float, float]

COLOURS = 8
"""Series that have a colour of their own; ``--c0`` to ``--c7`` in the page."""


def number(value: float) -> str:
    """Return a coordinate with one decimal at most: a tenth of a pixel."""
    return f"{value:.1f}".removesuffix(".0")


def colour(series: int) -> str:
    """Return the colour of a series."""
    return f"var(--c{series % COLOURS})"


def text(at: Point, words: str, *, anchor: str = "start", kind: str = "tick") -> str:
    """Return a line of text; ``kind`` is a class of the page."""
    return (
        f'<text x="{number(at[0])}" y="{number(at[1])}" text-anchor="{anchor}" class="{kind}">'
        f"{escape(words)}</text>"
    )


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


def cut(name: str) -> str:
    """Return a name that fits beside a chart."""
    return name if len(name) <= LONGEST_NAME else f"{name[: LONGEST_NAME - 1]}…"


def stroke(series: int, *, dash: str = "", width: float = 1.6) -> str:
    """Return the style of a line of a series."""
    dashed = f' stroke-dasharray="{dash}"' if dash else ""
    return f'fill="none" stroke="{colour(series)}" stroke-width="{width}"{dashed}'


def fill(series: int, opacity: float = 1.0) -> str:
    """Return the style of an area of a series."""
    return f'fill="{colour(series)}" fill-opacity="{opacity:g}"'


def _through(points: Sequence[Point]) -> str:
    return "M" + "L".join(f"{number(x)} {number(y)}" for x, y in points)
