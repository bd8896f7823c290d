"""Look of charts: the colours of light and dark pages, and the CSS rules that use them.

Charts name classes, never colours, so the rules serve the report and a file alike. The rules name
colours outright, since programs that draw SVG outside a browser know no CSS variables.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

FONT: Final = 'system-ui,-apple-system,"Segoe UI",Roboto,sans-serif'
TEXT_SIZE: Final = 12
BOLD_SIZES: Final = {"title": 14, "heading": 18}
"""Text sizes in pixels by class; other classes have ``TEXT_SIZE`` and are not bold."""
NEUTRAL: Final = -1
"""Series of lines that belong to no queue and no run, drawn in the colour of text."""


@dataclass(frozen=True, slots=True)
class Palette:
    """Colours on one background."""

    back: str
    text: str
    soft: str
    grid: str
    void: str
    series: tuple[str, ...]
    """Distinct for colour-blind readers too; a test measures the distances."""


LIGHT: Final = Palette(
    back="#ffffff",
    text="#1b1f24",
    soft="#59636e",
    grid="#d9dee3",
    void="#eef1f4",
    series=(
        "#0063c4",
        "#cc4a14",
        "#0aa877",
        "#b573a8",
        "#d8a200",
        "#62b5f5",
        "#31236b",
        "#5c6167",
    ),
)
DARK: Final = Palette(
    back="#14181d",
    text="#e6eaee",
    soft="#9aa5b1",
    grid="#2f363e",
    void="#20262d",
    series=(
        "#4c9be8",
        "#ef7540",
        "#26d39a",
        "#dd7fb8",
        "#f2dc4a",
        "#b4dcf7",
        "#8a5cf0",
        "#6f767e",
    ),
)


def line_class(series: int) -> str:
    """Return the class of a line of a series."""
    return "line-text" if series == NEUTRAL else f"line-{series % len(LIGHT.series)}"


def area_class(series: int) -> str:
    """Return the class of an area of a series."""
    return "area-text" if series == NEUTRAL else f"area-{series % len(LIGHT.series)}"


def chart_style() -> str:
    """Return the rules for charts, light or dark as the reader prefers."""
    bold = "".join(
        f"svg .{kind}{{font-size:{size}px;font-weight:600}}" for kind, size in BOLD_SIZES.items()
    )
    return (
        f"svg text{{font:{TEXT_SIZE}px {FONT}}}\n"
        f"{bold}\n"
        f"{_colours(LIGHT)}@media (prefers-color-scheme:dark){{\n{_colours(DARK)}}}\n"
    )


def _colours(palette: Palette) -> str:
    series = (("text", palette.text), *enumerate(palette.series))
    return (
        f"svg .back{{fill:{palette.back}}}svg text{{fill:{palette.text}}}"
        f"svg .tick,svg .unit,svg .value{{fill:{palette.soft}}}"
        f"svg .void{{fill:{palette.void}}}\n"
        f"svg .grid{{stroke:{palette.grid}}}svg .axis{{stroke:{palette.soft}}}\n"
        + "".join(f".line-{name}{{fill:none;stroke:{colour}}}" for name, colour in series)
        + "\n"
        + "".join(f".area-{name}{{fill:{colour}}}" for name, colour in series)
        + "\n"
    )
