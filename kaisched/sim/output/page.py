"""Parts of pages and of pictures: the style for light and dark, marks, legends, scales, tables.

Charts name classes, never colours, so the rules serve the report and a file alike. The rules name
colours outright, since programs that draw SVG outside a browser know no CSS variables. No script.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape
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


_UNITS: Final = (
    (86_400.0, "days", (1.0, 2.0, 5.0, 7.0, 14.0, 28.0)),
    (3600.0, "hours", (1.0, 2.0, 3.0, 6.0, 12.0)),
    (60.0, "minutes", (1.0, 2.0, 5.0, 10.0, 15.0, 30.0)),
    (1.0, "seconds", (1.0, 2.0, 5.0, 10.0, 15.0, 30.0)),
)
"""Units of time: seconds, and the distances at which people read a clock or a calendar."""
_FEWEST: Final = 3
"""Least number of units in a span shown in that unit: two days read better as 48 hours."""
_STEPS: Final = (1.0, 2.0, 2.5, 5.0, 10.0)
_FINE: Final = 0.01
_COARSE: Final = 100.0


@dataclass(frozen=True, slots=True)
class Scale:
    """Maps amounts from ``least`` to ``most`` to pixels that may run either way."""

    least: float
    most: float
    begin: float
    end: float

    def __call__(self, value: float) -> float:
        """Return the pixel of an amount."""
        part = (value - self.least) / ((self.most - self.least) or 1.0)
        return self.begin + part * (self.end - self.begin)


def nice_step(span: float, ticks: int) -> float:
    """Return a round distance of which about ``ticks`` fit into a span."""
    rough = max(span, 1e-9) / max(ticks, 1)
    power = 10.0 ** math.floor(math.log10(rough))
    return next(step * power for step in _STEPS if step * power >= rough * (1 - 1e-9))


def ticks_over(least: float, most: float, count: int = 5) -> list[float]:
    """Return round amounts with 0 among them, from at most ``least`` to at least ``most``."""
    least, most = min(least, 0.0), max(most, 0.0)
    step = nice_step(most - least, count)
    first, last = math.floor(least / step + 1e-9), math.ceil(most / step - 1e-9)
    return [step * at for at in range(first, max(last, first + 1) + 1)]


def time_unit(seconds: float) -> tuple[float, str]:
    """Return the unit in which a span of time reads well: its seconds and its name."""
    size, name, _ = _unit(seconds)
    return size, name


def time_ticks(end_s: float, count: int = 8) -> tuple[list[float], str]:
    """Return round instants from 0 in seconds, none after the end, and the name of their unit."""
    size, name, steps = _unit(end_s)
    units = end_s / size
    step = next((it for it in steps if it >= units / count), None) or nice_step(units, count)
    return [step * at * size for at in range(int(units / step + 1e-9) + 1)], name


def label(value: float) -> str:
    """Format an amount for an axis."""
    value += 0.0  # there is no -0
    if value and abs(value) < _FINE:
        words = f"{value:.1g}"
    else:
        words = f"{value:,.2f}".rstrip("0").rstrip(".")
    return words.replace("-", "−")  # noqa: RUF001 - a minus is as wide as a digit


def short_label(value: float) -> str:
    """Format an amount beside its mark, with three digits."""
    size = abs(value)
    return label(round(value, 0 if size >= _COARSE else 1 if size >= 1 else 2))


def _unit(seconds: float) -> tuple[float, str, tuple[float, ...]]:
    return next((unit for unit in _UNITS if seconds >= _FEWEST * unit[0]), _UNITS[-1])


_LEAST_SCALE: Final = 0.8
"""Smallest scale of a chart at which its text is still legible."""


def _variables(palette: Palette) -> str:
    names = ("back", "text", "soft", "grid")
    return ";".join(f"--{name}:{getattr(palette, name)}" for name in names)


_STYLE: Final = f"""
:root{{color-scheme:light dark;{_variables(LIGHT)}}}
@media (prefers-color-scheme:dark){{:root{{{_variables(DARK)}}}}}
*{{box-sizing:border-box}}
body{{margin:0 auto;max-width:1264px;padding:20px;background:var(--back);color:var(--text);
font:14px/1.5 {FONT}}}
h1{{font-size:24px;margin:0 0 4px}}h2{{font-size:18px;margin:32px 0 8px}}
p{{margin:4px 0;max-width:880px}}.soft{{color:var(--soft)}}
table{{border-collapse:collapse;margin:12px 0;font-variant-numeric:tabular-nums}}
th,td{{padding:3px 12px 3px 0;text-align:right;border-bottom:1px solid var(--grid);
white-space:nowrap}}
th:first-child,td:first-child{{text-align:left}}
th{{color:var(--soft);font-weight:600}}
.wide{{overflow-x:auto}}
.grid{{display:grid;gap:20px 24px;align-items:start;
grid-template-columns:repeat(auto-fill,minmax(min(560px,100%),1fr))}}
figure{{margin:12px 0;overflow-x:auto}}svg{{display:block;width:100%;height:auto}}
figcaption{{color:var(--soft);font-size:13px}}
{chart_style()}"""


def page(title: str, body: Iterable[str]) -> str:
    """Return a whole, self-contained document."""
    policy = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width,initial-scale=1">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        f'<link rel="icon" href="data:,">\n<title>{escape(title)}</title>\n'
        f"<style>{_STYLE}</style>\n</head>\n<body>\n" + "\n".join(body) + "\n</body>\n</html>\n"
    )


def heading(words: str, level: int = 2) -> str:
    """Return a heading."""
    return f"<h{level}>{escape(words)}</h{level}>"


def paragraph(words: str, *, is_soft: bool = False) -> str:
    """Return a paragraph."""
    kind = ' class="soft"' if is_soft else ""
    return f"<p{kind}>{escape(words)}</p>"


def table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table with the first column aligned to the left, the rest to the right."""
    head = "".join(f"<th>{escape(word)}</th>" for word in heads)
    lines = "".join(
        "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in rows
    )
    return (
        f'<div class="wide"><table><thead><tr>{head}</tr></thead><tbody>{lines}</tbody></table>'
        "</div>"
    )


def figure(chart: Chart, caption: str = "") -> str:
    """Return a chart with a line below it. On a narrow screen it scrolls and stays legible."""
    told = f"<figcaption>{escape(caption)}</figcaption>" if caption else ""
    least = f"min-width:{chart.width * _LEAST_SCALE:.0f}px"
    return f"<figure>{chart.inline(least)}{told}</figure>"


def side_by_side(figures: Iterable[str]) -> str:
    """Return figures in as many columns as there is room for."""
    return f'<div class="grid">{"".join(figures)}</div>'
