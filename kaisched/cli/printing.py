"""Tables and lines for people: 80 columns, coloured only on a terminal, always in one order.

A name is never cut. Optional columns are dropped first, then the last column wraps; the terminal
wraps what is still too wide.
"""

from __future__ import annotations

import os
import shutil
import sys
import textwrap
from typing import TYPE_CHECKING, Final, NamedTuple, TextIO

from kaisched.cli.streams import print_error

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

DEFAULT_WIDTH: Final = 80
_DAY_S: Final = 86_400
_GAP: Final = "  "
_LEAST_TEXT: Final = 14
_BOLD, _PLAIN = "\x1b[1m", "\x1b[0m"


class Column(NamedTuple):
    """Column of a table: its heading, and how it fits the screen."""

    head: str
    is_number: bool = False
    """Aligned to the right."""
    may_go: bool = False
    """Dropped, the rightmost first, when the table is too wide."""


def print_table(
    title: str,
    columns: Sequence[Column],
    rows: Iterable[Sequence[str]],
    stream: TextIO | None = None,
) -> None:
    """Print a titled table and an empty line; nothing where there are no rows."""
    stream = sys.stdout if stream is None else stream
    lines = list(table_lines(columns, list(rows), width_of(stream)))
    if not lines:
        return
    bold, plain = (_BOLD, _PLAIN) if has_colors(stream) else ("", "")
    print(f"{bold}{title}{plain}", *lines, "", sep="\n", file=stream)


def width_of(stream: TextIO) -> int:
    """Return how many columns a table may take: the terminal's, COLUMNS, or 80."""
    if os.environ.get("COLUMNS", "").isdigit():
        return int(os.environ["COLUMNS"])
    return shutil.get_terminal_size().columns if stream.isatty() else DEFAULT_WIDTH


def has_colors(stream: TextIO) -> bool:
    """Tell whether a stream is a terminal whose user has not asked for plain text."""
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def table_lines(
    columns: Sequence[Column], rows: Sequence[Sequence[str]], width: int
) -> Iterator[str]:
    """Yield the lines of a table, its head first."""
    if not rows:
        return
    kept = _kept(columns, rows, width)
    heads = [columns[at] for at in kept]
    cells = [[column.head for column in heads], *([row[at] for at in kept] for row in rows)]
    widths = [max(len(row[at]) for row in cells) for at in range(len(kept))]
    room = max(width - sum(widths[:-1]) - len(_GAP) * (len(kept) - 1), _LEAST_TEXT)
    for row in cells:
        last = textwrap.wrap(row[-1], room, break_long_words=False, break_on_hyphens=False) or [""]
        for number, part in enumerate(last):
            lead = row[:-1] if number == 0 else [""] * (len(row) - 1)
            parts = [
                cell.rjust(size) if column.is_number else cell.ljust(size)
                for cell, size, column in zip(
                    [*lead, part], [*widths[:-1], min(widths[-1], room)], heads, strict=True
                )
            ]
            yield _GAP.join(parts).rstrip()


def _kept(columns: Sequence[Column], rows: Sequence[Sequence[str]], width: int) -> list[int]:
    """Return the columns that fit, dropping optional ones from the right."""
    needs = [
        max(len(column.head), *(len(row[at]) for row in rows)) for at, column in enumerate(columns)
    ]
    needs[-1] = min(needs[-1], _LEAST_TEXT)
    kept = list(range(len(columns)))
    while sum(needs[at] for at in kept) + len(_GAP) * (len(kept) - 1) > width:
        droppable = [at for at in kept if columns[at].may_go]
        if not droppable:
            break
        kept.remove(droppable[-1])
    return kept


def indented(entries: Iterable[tuple[str, str | None]]) -> list[str]:
    """Return names that are indented below those of their parents, from (name, parent) pairs."""
    depth: dict[str, int] = {}
    lines = []
    for name, parent in entries:
        depth[name] = depth.get(parent or "", -1) + 1
        lines.append("  " * depth[name] + name)
    return lines


def warn(text: str) -> None:
    """Print one line to standard error."""
    print_error(f"kaisched: {text}")


def timing_line(simulated_s: float, took_s: float, cycles: int) -> str:
    """Say how long a run took: for stderr, because it differs from run to run."""
    took_s = max(took_s, 1e-6)
    days_per_s = simulated_s / _DAY_S / took_s
    return f"took {took_s:.2f} s: {days_per_s:.1f} simulated days/s, {cycles / took_s:.0f} cycles/s"
