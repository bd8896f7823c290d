"""Output: streams, tables and lines for people, and documents in the form that is asked for.

All that commands print goes through here, since most of it is text of others: what would steer a
terminal is written out (``kaisched.text``).

Tables have 80 columns, are coloured only on a terminal, and always in one order. A name is never
cut. Optional columns are dropped first, then the last column wraps; the terminal wraps what is
still too wide.
"""

from __future__ import annotations

import csv
import errno
import io
import json
import os
import shutil
import sys
import textwrap
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TextIO

from kaisched.clock import SystemClock
from kaisched.errors import ClusterUnavailable, ConfigError
from kaisched.text import visible, visible_text
from kaisched.units import IN_THOUSANDTHS, MEMORY_UNIT, format_amount, is_in_bytes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from kaisched.cli.live import Server

DEFAULT_WIDTH: Final = 80
_DAY_S: Final = 86_400
_GAP: Final = "  "
_LEAST_TEXT: Final = 14
_BOLD, _PLAIN = "\x1b[1m", "\x1b[0m"
_AGAIN_S: Final = 1.0
"""Pause before a stream is opened again."""
_CLEAR: Final = "\x1b[H\x1b[2J"

# -- streams -------------------------------------------------------------------------------------

_MODES: Final = {"stdin": os.O_RDONLY, "stdout": os.O_RDONLY, "stderr": os.O_WRONLY}
"""How to open the null device in the place of a closed stream: output must not get lost there."""


class _Output(io.FileIO):
    """Standard output, which says why it cannot be written."""

    def write(self, data: Any, /) -> int:
        try:
            return super().write(data)
        except BrokenPipeError:
            raise
        except OSError as error:
            is_closed = error.errno == errno.EBADF
            reason = "is closed" if is_closed else f"cannot be written: {error.strerror}"
            fix = "send it to a file with room"
            raise ConfigError(f"standard output {reason}", fix=fix) from None


def prepare() -> None:
    """Replace closed streams, and make standard output say why it cannot be written."""
    for name, mode in _MODES.items():
        if getattr(sys, name) is None:
            # Else the next file that is opened would take the stream's number.
            opened = os.open(os.devnull, mode)
            mode_of_file = "r" if name == "stdin" else "w"
            setattr(sys, name, os.fdopen(opened, mode_of_file, closefd=False))
    old = sys.stdout
    try:
        number = old.fileno()
    except OSError:  # no file, but an object of a caller in Python
        return
    sys.stdout = io.TextIOWrapper(
        io.BufferedWriter(_Output(number, "w", closefd=False)),
        encoding=old.encoding,
        errors=old.errors,
        line_buffering=old.isatty(),
    )


def say(*lines: str) -> None:
    """Print lines to standard output; each stays one line, whatever is in it."""
    print(*map(visible, lines), sep="\n")


def say_wrapped(*lines: str) -> None:
    """Print lines, wrapped at the width of a terminal; what goes on is indented more.

    In a file or a pipe each stays one line, as ``grep`` reads it.
    """
    is_wrapped = sys.stdout.isatty() or os.environ.get("COLUMNS", "").isdigit()
    for line in map(visible, lines):
        lead = line[: len(line) - len(line.lstrip())]
        wide = max(width_of(sys.stdout), len(lead) + _LEAST_TEXT)
        print(
            textwrap.fill(
                line.lstrip(),
                wide,
                initial_indent=lead,
                subsequent_indent=f"{lead}    ",
                break_long_words=False,
                break_on_hyphens=False,
            )
            if is_wrapped
            else line
        )


def say_text(text: str) -> None:
    """Print a text of several lines, and one line break."""
    print(visible_text(text), flush=True)


def draw(lines: Iterable[str], before: str, between: str, after: str) -> None:
    """Draw lines on a terminal, with sequences of our own around them."""
    sys.stdout.write(before + between.join(map(visible, lines)) + after)
    sys.stdout.flush()


def print_error(line: str) -> None:
    """Print a line to standard error, which may be unable to take it."""
    try:
        print(visible(line), file=sys.stderr, flush=True)
    except OSError:
        discard(sys.stderr)


def discard(stream: TextIO) -> None:
    """Discard what a stream has not written, and all that comes, also at exit."""
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, stream.fileno())
    os.close(null)


def finish() -> None:
    """Discard what a stream still cannot write, which would be one more error at exit."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ConfigError):
            with suppress(OSError):
                discard(stream)


# -- tables --------------------------------------------------------------------------------------


class Column(NamedTuple):
    """Column of a table: its heading, and how it fits the screen."""

    head: str
    is_number: bool = False
    """Aligned to the right."""
    may_go: bool = False
    """Dropped, the rightmost first, when the table is too wide."""


def print_table(title: str, columns: Sequence[Column], rows: Iterable[Sequence[str]]) -> None:
    """Print a titled table and an empty line; nothing where there are no rows."""
    title = visible(title)
    stream = sys.stdout
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


def columns(*heads: str) -> tuple[Column, ...]:
    """Return columns by their heads: ``#`` before one aligns numbers, ``?`` lets it be dropped."""
    return tuple(Column(it.lstrip("#?"), "#" in it[:2], "?" in it[:2]) for it in heads)


def table_lines(
    columns: Sequence[Column], rows: Sequence[Sequence[str]], width: int
) -> Iterator[str]:
    """Yield the lines of a table, its head first."""
    if not rows:
        return
    columns = [it._replace(head=visible(it.head)) for it in columns]
    rows = [[visible(" ".join(cell.split("\n"))) for cell in row] for row in rows]
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


def amount_cell(resource: str, amount: float | None) -> str:
    """Return an amount of a document for a cell; None is unlimited."""
    if amount is None:
        return "unlimited"
    if is_in_bytes(resource):
        return format_amount(resource, int(amount) // MEMORY_UNIT)
    is_fine = resource in IN_THOUSANDTHS
    return format_amount(resource, round(amount * 1000) if is_fine else int(amount))


def count(number: int, what: str) -> str:
    """Return a number of things, such as ``1 pod`` or ``2 pods``."""
    return f"{number} {what}{'' if number == 1 else 's'}"


def counted(reasons: Mapping[str, int]) -> str:
    """Return reasons with the number of jobs of each."""
    return ", ".join(f"{number} {reason}" for reason, number in reasons.items())


# -- documents -----------------------------------------------------------------------------------


def print_json(document: Mapping[str, Any]) -> None:
    """Print a document as JSON."""
    say_text(json.dumps(document, indent=2, default=str))


def _lists_in(document: Mapping[str, Any]) -> Iterator[list[dict[str, Any]]]:
    """Yield the lists of objects in a document."""
    for it in document.values():
        if isinstance(it, list) and it and all(isinstance(each, dict) for each in it):
            yield it
            for each in it:
                yield from _lists_in(each)


def _rows_in(document: Mapping[str, Any]) -> Iterator[Sequence[object]]:
    """Yield the only list of a document as a table; else each value with its path."""
    found = list(_lists_in(document))
    if len(found) == 1 and not any(isinstance(it, dict) for it in found[0][0].values()):
        heads = list(dict.fromkeys(key for entry in found[0] for key in entry))
        yield heads
        for entry in found[0]:
            yield [_plain(entry.get(key)) for key in heads]
        return
    yield "path", "value"
    yield from _values_in(document, "")


def _values_in(value: Any, path: str) -> Iterator[tuple[str, object]]:
    inner = value.items() if isinstance(value, dict) else enumerate(value)
    for key, it in inner:
        at = f"{path}.{key}".lstrip(".")
        if isinstance(it, dict | list) and it:
            yield from _values_in(it, at)
        else:
            yield at, _plain(it)


def _plain(value: object) -> object:
    return value if isinstance(value, str) or value is None else json.dumps(value, default=str)


def _names_in(document: Mapping[str, Any]) -> Iterator[str]:
    """Yield the names of what a document lists, each once."""
    keys = ("pod", "podGroup", "name", "key", "rule", "check")
    each = (entry for entries in _lists_in(document) for entry in entries)
    found = (next((entry[key] for key in keys if entry.get(key)), None) for entry in each)
    yield from dict.fromkeys(str(it) for it in found if it)


class Printer(NamedTuple):
    """How a document is printed."""

    as_text: Callable[[Mapping[str, Any]], None]
    as_rows: Callable[[Mapping[str, Any]], Iterable[Sequence[object]]] = _rows_in
    """The rows of CSV, the heads first."""
    as_names: Callable[[Mapping[str, Any]], Iterable[str]] = _names_in
    """The lines of ``-o name``: ``kind/name``, as kubectl reads them."""

    def print(self, document: Mapping[str, Any], output: str) -> None:
        """Print a document; in any other form than json, yaml, csv and name as text."""
        if output == "json":
            print_json(document)
        elif output == "yaml":
            import yaml  # noqa: PLC0415 - only when asked

            text = yaml.safe_dump(document, sort_keys=False, allow_unicode=True)
            if text != visible_text(text):  # YAML has escapes of its own, in quotes
                text = yaml.safe_dump(document, sort_keys=False)
            say_text(text.removesuffix("\n"))
        elif output == "csv":
            writer = csv.writer(sys.stdout, lineterminator="\n")
            for row in self.as_rows(document):
                writer.writerow("" if it is None else visible(str(it)) for it in row)
        elif output == "name":
            for name in self.as_names(document):
                say(name)
        else:
            self.as_text(document)


def print_document(document: Mapping[str, Any], output: str) -> None:
    """Print a document as JSON, YAML, CSV or names."""
    Printer(print_json).print(document, output)


def queue_names(document: Mapping[str, Any]) -> Iterator[str]:
    """Yield the queues of a document as kubectl reads them."""
    for entry in document["queues"]:
        yield f"queue.scheduling.run.ai/{entry['name']}"


def watch(
    server: Server, get: Callable[[], Mapping[str, Any]], printer: Printer, output: str
) -> None:
    """Print a document, and again at every change."""
    for number in _changes(server):
        if has_colors(sys.stdout):
            sys.stdout.write(_CLEAR)
        elif number:
            say("---" if output == "yaml" else "")
        printer.print(get(), output)
        sys.stdout.flush()


def _changes(server: Server) -> Iterator[int]:
    """Count the revisions; a stream that ends in an orderly way is opened again."""
    number, seen = 0, -1
    while True:
        told = number
        for revision in server.changes():
            if revision != seen:
                seen = revision
                yield number
                number += 1
        if told == number and not number:
            raise ClusterUnavailable(f"{server.url} has no view", fix="see its /readyz")
        SystemClock().sleep(_AGAIN_S)
