"""Reader of traces: a folder with ``jobs.csv.gz`` (or ``jobs.csv``) and ``vcs.csv``.

Jobs have the columns ``submit_s``, ``duration_s``, ``num_gpus`` and ``vc``. Virtual clusters, which
become queues, have ``vc`` and ``published_nodes`` (may be empty). Other columns are ignored. An
invalid row is an error that names file, line, value and what to write instead; no row is ever left
out or guessed.
"""

from __future__ import annotations

import csv
import gzip
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TextIO

import numpy as np

from kaisched.core.axis import FloatVec, IntVec
from kaisched.errors import ConfigError
from kaisched.sim.trace import Trace

BUNDLED: Final = Path(__file__).parent.parent / "data" / "traces"
"""Traces that come with kaisched, by name."""
MOST_SECONDS: Final = 1e10
"""Three hundred years: more is a wrong unit, such as milliseconds."""
MOST_GPUS: Final = 1_000_000
JOB_COLUMNS: Final = ("submit_s", "duration_s", "num_gpus", "vc")
VC_COLUMNS: Final = ("vc", "published_nodes")


@dataclass(frozen=True, slots=True)
class Column:
    """One column of a file as text, with the line of each value."""

    path: Path
    name: str
    values: list[str]
    lines: list[int]

    def fail(self, row: int, message: str, fix: str) -> ConfigError:
        """Return the error that names a row's value and its line."""
        return ConfigError(
            message,
            file=f"{self.path}:{self.lines[row]}",
            path=self.name,
            value=self.values[row],
            fix=fix,
        )

    def numbers(self, least: float, most: float, fix: str) -> FloatVec:
        """Return the values as numbers; fail at the first that is none or out of range."""
        try:
            numbers = np.array(self.values, np.float64)
        except ValueError:
            row = next(i for i, text in enumerate(self.values) if _is_odd(text))
            raise self.fail(row, "is not a number", fix) from None
        wrong = ~((numbers >= least) & (numbers <= most))
        if wrong.any():
            raise self.fail(int(wrong.argmax()), "is out of range", fix)
        return numbers

    def whole_numbers(self, least: float, most: float, what: str) -> IntVec:
        """Return the values as whole numbers of something."""
        fix = f"write a whole number of {what} from {least:.0f} to {most:.0f}"
        numbers = self.numbers(least, most, fix)
        broken = numbers % 1 != 0
        if broken.any():
            raise self.fail(int(broken.argmax()), "is not whole", fix)
        return numbers.astype(np.int64)

    def filled_numbers(self, least: float, most: float, fix: str) -> list[float | None]:
        """Return the values as numbers, None for an empty one."""
        given = [row for row, text in enumerate(self.values) if text]
        filled = Column(
            self.path, self.name, [self.values[i] for i in given], [self.lines[i] for i in given]
        )
        number = dict(zip(given, filled.numbers(least, most, fix).tolist(), strict=True))
        return [number.get(row) for row in range(len(self.values))]


def _is_odd(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return True
    return False


def bundled_names(holding: str = "README.md") -> list[str]:
    """Return the names of the traces that come with kaisched and have a file of that name."""
    return sorted(path.parent.name for path in BUNDLED.glob(f"*/{holding}"))


def place_of(written: str, folder: Path, holding: str = "README.md") -> Path:
    """Return a bundled trace by its name, or a path relative to a folder.

    Raises:
        ConfigError: it is neither a path nor a bundled trace with a file named ``holding``.

    """
    if written in (known := bundled_names(holding)):
        return BUNDLED / written
    place = folder / written
    if not place.exists():
        fix = f"write a path, relative to the scenario; bundled are: {', '.join(known)}"
        raise ConfigError("there is no such trace", value=written, fix=fix)
    return place


def find_trace(name: str) -> Path:
    """Return the folder of a trace: a path, or the name of a bundled one."""
    if name in bundled_names("vcs.csv"):
        return BUNDLED / name
    folder = Path(name)
    if not folder.is_dir():
        raise ConfigError(
            "there is no such trace",
            value=name,
            fix="give a folder with jobs.csv.gz and vcs.csv, or the name of a bundled trace: "
            + ", ".join(bundled_names("vcs.csv")),
        )
    return folder


def read_trace(folder: Path) -> Trace:
    """Read a trace folder, sorted by submission."""
    names, nodes = _read_vcs(folder / "vcs.csv")
    jobs = folder / "jobs.csv.gz"
    columns = read_columns(jobs if jobs.is_file() else folder / "jobs.csv", JOB_COLUMNS)
    seconds = f"write seconds as a number from 0 to {MOST_SECONDS:.0f}"
    submit_s = columns["submit_s"].numbers(0, MOST_SECONDS, seconds)
    duration_s = columns["duration_s"].numbers(0, MOST_SECONDS, seconds)
    gpus = columns["num_gpus"].whole_numbers(1, MOST_GPUS, "GPUs")
    queue = _queues(columns["vc"], names, folder / "vcs.csv")
    order = np.argsort(submit_s, kind="stable")
    return Trace(
        name=folder.name,
        submit_s=submit_s[order],
        duration_s=duration_s[order],
        gpus=gpus[order],
        queue=queue[order],
        queue_names=names,
        published_nodes=nodes,
    )


def _queues(column: Column, names: tuple[str, ...], vcs: Path) -> IntVec:
    position = {name: i for i, name in enumerate(names)}
    try:
        return np.array([position[name] for name in column.values], np.int64)
    except KeyError:
        row = next(i for i, name in enumerate(column.values) if name not in position)
        raise column.fail(
            row, "is not known", f"name a vc of {vcs}, or add a row for it there"
        ) from None


def _read_vcs(path: Path) -> tuple[tuple[str, ...], tuple[float | None, ...]]:
    columns = read_columns(path, VC_COLUMNS)
    names = columns["vc"]
    seen: set[str] = set()
    for row, name in enumerate(names.values):
        if not name or not name.isprintable():
            raise names.fail(row, "is no name", "give each vc a name of printable characters")
        if name in seen:
            raise names.fail(row, "appears twice", "give each vc one row")
        seen.add(name)
    fix = f"write a number from 0 to {MOST_GPUS}, or leave it empty"
    nodes = columns["published_nodes"].filled_numbers(0, MOST_GPUS, fix)
    return tuple(names.values), tuple(nodes)


def read_columns(
    path: Path, wanted: tuple[str, ...], optional: tuple[str, ...] = ()
) -> dict[str, Column]:
    """Read columns of a CSV file as text, each value with its line.

    Raises:
        ConfigError: the file or a needed column is missing, or a row has another width.

    """
    if not path.is_file():
        raise ConfigError(
            "does not exist",
            file=str(path),
            fix="a trace is a folder with jobs.csv.gz (or jobs.csv) and vcs.csv",
        )
    try:
        with _opened(path) as text:
            rows = csv.reader(text)
            header = next(rows, [])
            wanted += tuple(name for name in optional if name in header)
            at = [_position(path, header, name) for name in wanted]
            lines: list[int] = []
            kept: list[list[str]] = []
            for row in rows:
                if len(row) == len(header):
                    lines.append(rows.line_num)
                    kept.append(row)
                elif row:
                    raise _wrong_width(path, rows.line_num, row, len(header))
    except (OSError, EOFError, zlib.error, csv.Error, UnicodeDecodeError) as error:
        raise ConfigError(
            f"cannot be read: {error}", file=str(path), fix="write it as CSV in UTF-8"
        ) from error
    return {
        name: Column(path, name, [row[position] for row in kept], lines)
        for name, position in zip(wanted, at, strict=True)
    }


def _opened(path: Path) -> TextIO:
    if path.suffix == ".gz":
        return gzip.open(path, "rt", encoding="utf-8", newline="")
    return path.open(encoding="utf-8", newline="")


def _wrong_width(path: Path, line: int, row: list[str], width: int) -> ConfigError:
    return ConfigError(
        f"{len(row)} values where the first line names {width} columns",
        file=f"{path}:{line}",
        value=",".join(row),
        fix="write one value for each column",
    )


def _position(path: Path, header: list[str], name: str) -> int:
    if name not in header:
        raise ConfigError(
            f"no column is called {name}",
            file=f"{path}:1",
            value=",".join(header),
            fix=f"name the columns in the first line: {name} is needed",
        )
    return header.index(name)
