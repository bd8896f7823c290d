"""A drawn chart, for a page or for a file of its own; and several charts as one file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import Final

from kaisched.sim.output.svg.legend import Entry, legend_height, legend_marks
from kaisched.sim.output.svg.marks import fitted, number, text
from kaisched.sim.output.svg.style import chart_style

_MARGIN: Final = 20
_HEADING: Final = 38
GAP: Final = 24
"""Pixels between the charts of a file."""


@dataclass(frozen=True, slots=True)
class Chart:
    """Marks on an area of pixels; the style of charts gives them their look."""

    title: str
    width: int
    height: int
    inside: str

    def inline(self, style: str) -> str:
        """Return the chart for a page with the style of charts; ``style`` is the element's own."""
        return (
            f'<svg viewBox="0 0 {self.width} {self.height}" style="{style}" role="img" '
            f'aria-label="{escape(self.title)}">{self.inside}</svg>'
        )


def picture(heading: str, columns: Sequence[Sequence[Chart]], legend: Sequence[Entry] = ()) -> str:
    """Return an SVG file: a heading, a legend for all charts, and columns of charts.

    The file includes its style and background, and is self-contained.
    """
    width = sum(max(chart.width for chart in column) + GAP for column in columns) - GAP
    right = _MARGIN + width
    words = fitted(heading, width, "heading")
    parts = [text((_MARGIN, _MARGIN + 16), words, kind="heading")]
    parts += legend_marks(legend, _MARGIN, _MARGIN + _HEADING, right)
    below = _MARGIN + _HEADING + (legend_height(legend, _MARGIN, right) + GAP if legend else 0.0)
    left, bottom = float(_MARGIN), 0.0
    for column in columns:
        top = below
        for chart in column:
            move = f"translate({number(left)} {number(top)})"
            parts.append(f'<g transform="{move}">{chart.inside}</g>')
            top += chart.height + GAP
        left += max(chart.width for chart in column) + GAP
        bottom = max(bottom, top - GAP)
    return _document(heading, right + _MARGIN, round(bottom + _MARGIN), parts)


def _document(title: str, width: int, height: int, parts: Sequence[str]) -> str:
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" '
        f'height="{height}" role="img">\n<title>{escape(title)}</title>\n'
        f"<style>\n{chart_style()}</style>\n"
        f'<rect class="back" width="{width}" height="{height}"/>\n'
        + "\n".join(parts)
        + "\n</svg>\n"
    )
