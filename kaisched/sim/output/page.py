"""HTML page of a report: style for light and dark, tables, sections. No script."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from typing import Final

from kaisched.sim.output.svg.chart import Chart
from kaisched.sim.output.svg.style import DARK, FONT, LIGHT, Palette, chart_style

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
