"""The page that a report stands in: style for light and dark, tables, sections. No script."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from typing import Final

_STYLE: Final = """
:root{color-scheme:light dark;--back:#fff;--text:#1b1f24;--soft:#59636e;--grid:#d9dee3;
--void:#eef1f4;--c0:#0072b2;--c1:#d55e00;--c2:#009e73;--c3:#b5549a;--c4:#b8860b;--c5:#3b8fc4;
--c6:#5d4b8c;--c7:#6b7280}
@media (prefers-color-scheme:dark){:root{--back:#14181d;--text:#e6eaee;--soft:#9aa5b1;
--grid:#2f363e;--void:#20262d;--c0:#56b4e9;--c1:#f0883e;--c2:#2fc595;--c3:#e08ac6;--c4:#e6c229;--c5:#8cc7ef;
--c6:#b3a1e6;--c7:#a3adb8}}
*{box-sizing:border-box}
body{margin:0 auto;max-width:1264px;padding:20px;background:var(--back);color:var(--text);
font:14px/1.5 system-ui,-apple-system,"Segoe UI",Roboto,sans-serif}
h1{font-size:24px;margin:0 0 4px}h2{font-size:18px;margin:32px 0 8px}
p{margin:4px 0;max-width:880px}.soft{color:var(--soft)}
table{border-collapse:collapse;margin:12px 0;font-variant-numeric:tabular-nums}
th,td{padding:3px 12px 3px 0;text-align:right;border-bottom:1px solid var(--grid);
white-space:nowrap}
th:first-child,td:first-child{text-align:left}
th{color:var(--soft);font-weight:600}
.wide{overflow-x:auto}
.grid{display:grid;gap:20px 24px;align-items:start;
grid-template-columns:repeat(auto-fill,minmax(min(560px,100%),1fr))}
figure{margin:12px 0}svg{display:block;width:100%;height:auto}
figcaption{color:var(--soft);font-size:13px}
svg text{fill:var(--text);font:11px system-ui,-apple-system,"Segoe UI",Roboto,sans-serif}
svg .title{font-size:13px;font-weight:600}
svg .tick,svg .unit,svg .value{fill:var(--soft)}
svg line.grid{stroke:var(--grid)}svg line.axis{stroke:var(--soft)}svg .void{fill:var(--void)}
"""


def page(title: str, body: Iterable[str]) -> str:
    """Return a whole document that needs nothing but itself."""
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
    """Return a table, the first column to the left and the others to the right."""
    head = "".join(f"<th>{escape(word)}</th>" for word in heads)
    lines = "".join(
        "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in rows
    )
    return (
        f'<div class="wide"><table><thead><tr>{head}</tr></thead><tbody>{lines}</tbody></table>'
        "</div>"
    )


def figure(chart: str, caption: str = "") -> str:
    """Return a chart with a line below it."""
    told = f"<figcaption>{escape(caption)}</figcaption>" if caption else ""
    return f"<figure>{chart}{told}</figure>"


def side_by_side(figures: Iterable[str]) -> str:
    """Return figures in columns, as many as there is room for."""
    return f'<div class="grid">{"".join(figures)}</div>'
