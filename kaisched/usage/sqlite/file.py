"""File of a usage store: one row a stretch, in SQLite's write-ahead mode, owned by one process.

A commit survives any end of the process. A power cut may lose the last commits, but never the file.
"""

from __future__ import annotations

import os
import sqlite3
import stat
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec
import numpy as np

from kaisched.units import MEBIBYTE, is_in_bytes
from kaisched.usage.sqlite.foreign import MARK, why_foreign
from kaisched.usage.sums import Stretch

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kaisched.core.axis import FloatVec

SCHEMA: Final = 1
"""``user_version`` of our files."""
_BUSY_S: Final = 0.2
_LOG_PAGES: Final = 256
"""Pages of 4 kB after which the log beside the file is copied into it. SQLite's default would
let the log grow larger than a history of a few hours."""
_CACHE_KB: Final = 128
"""The part of the file that stays in memory. We read the file once, at the start; with SQLite's
default of 2 MB, memory would grow by nearly every page that is written."""
_OURS: Final = 0o600
_ASIDE: Final = ("", "-wal", "-shm")
_TABLES: Final = f"""
{MARK}
    number INTEGER PRIMARY KEY, start_s REAL NOT NULL, end_s REAL NOT NULL, amounts BLOB NOT NULL
);
CREATE TABLE fact (name TEXT PRIMARY KEY, value REAL NOT NULL);
"""
_DROP: Final = """
DELETE FROM stretch WHERE number IN (
    SELECT number FROM (
        SELECT number, sum(end_s - start_s) OVER (
            ORDER BY number DESC ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
        ) AS later_s FROM stretch
    ) WHERE later_s >= ?
)
"""


class FileUnusableError(Exception):
    """The file cannot be used now, for the reason in the message. It is left as it is."""


class Amounts(msgspec.Struct, frozen=True):
    """Contents of a row besides its times, as JSON: amounts times seconds; memory is in MiB."""

    resources: list[str]
    capacity: list[float]
    used: dict[str, list[float]]
    """Amounts by queue, in the order of the resources."""


class Row(NamedTuple):
    """A stretch to write; a later row with an equal number replaces it."""

    number: int
    stretch: Stretch


class UsageFile:
    """An open file, for use by one thread at a time."""

    def __init__(self, path: Path) -> None:
        """Open or create the file.

        Raises:
            FileUnusableError: it is locked, foreign, of a later version, or inaccessible.
            sqlite3.DatabaseError: it is corrupt.

        """
        self.path = path = path.absolute()  # else SQLite may take the name for one of its own
        self.warning = ""
        """Problem of a file that can be used all the same; empty without one."""
        try:
            if why := why_foreign(path):
                raise FileUnusableError(
                    f"{path}: {why}, which is left as it is; name another file in connectionString"
                )
            self.warning = _make_private(path)
            self._db = sqlite3.connect(path, timeout=_BUSY_S, check_same_thread=False)
        except (OSError, sqlite3.OperationalError) as error:
            raise FileUnusableError(f"{path}: {_said(error)}") from error
        try:
            self._prepare()
        except sqlite3.OperationalError as error:
            self._db.close()
            raise FileUnusableError(f"{path}: {_said(error)}") from error
        except Exception:
            self._db.close()
            raise

    def _prepare(self) -> None:
        db = self._db
        # One daemon a file: a second one would count everything twice.
        db.execute("PRAGMA locking_mode=EXCLUSIVE")
        db.execute("PRAGMA journal_mode=WAL")
        db.execute("PRAGMA synchronous=NORMAL")
        db.execute(f"PRAGMA wal_autocheckpoint={_LOG_PAGES}")
        db.execute(f"PRAGMA cache_size=-{_CACHE_KB}")
        (version,) = db.execute("PRAGMA user_version").fetchone()
        if version > SCHEMA:
            message = f"{self.path}: written by a later version (schema {version}, ours {SCHEMA})"
            raise FileUnusableError(message)
        (found,) = db.execute("PRAGMA quick_check").fetchone()
        if found != "ok":
            raise sqlite3.DatabaseError(found)
        if version == 0:
            if db.execute("SELECT count(*) FROM sqlite_master").fetchone() != (0,):
                raise FileUnusableError(f"{self.path}: a database of something else")
            db.executescript(f"BEGIN; {_TABLES} PRAGMA user_version={SCHEMA}; COMMIT;")
        # An empty write takes the lock now rather than at the first sample.
        db.execute("DELETE FROM fact WHERE name IS NULL")
        db.commit()

    def read(self, from_s: float) -> Iterator[Row]:
        """Yield the rows that end after a time, in the order in which they were written.

        Raises:
            sqlite3.DatabaseError: a row is invalid.

        """
        query = "SELECT * FROM stretch WHERE end_s > ? ORDER BY number"
        for number, start_s, end_s, amounts in self._db.execute(query, (from_s,)):
            try:
                yield Row(number, _stretch(start_s, end_s, amounts))
            except (msgspec.MsgspecError, TypeError, ValueError) as error:
                raise sqlite3.DatabaseError(f"row {number}: {error}") from error

    def newest_s(self, now_s: float) -> float | None:
        """Return the end of the newest row that begins before a time; None without any."""
        query = "SELECT max(end_s) FROM stretch WHERE start_s < ?"
        (newest_s,) = self._db.execute(query, (now_s,)).fetchone()
        return None if newest_s is None else float(newest_s)

    def next_number(self) -> int:
        """Return the number for a new stretch."""
        (last,) = self._db.execute("SELECT max(number) FROM stretch").fetchone()
        return 1 if last is None else int(last) + 1

    def first_s(self) -> float | None:
        """Return the time of the first sample ever."""
        row = self._db.execute("SELECT value FROM fact WHERE name = 'first_s'").fetchone()
        return None if row is None else float(row[0])

    def write(self, rows: list[Row], first_s: float | None, keep_s: float) -> None:
        """Write stretches and drop old ones, all or nothing.

        Those stay that were written last and cover ``keep_s`` together, whatever their times.

        Raises:
            sqlite3.Error: the write failed as a whole.

        """
        with self._db as db:
            db.executemany(
                "INSERT OR REPLACE INTO stretch VALUES (?, ?, ?, ?)",
                [
                    (row.number, row.stretch.start_s, row.stretch.end_s, _encoded(row.stretch))
                    for row in rows
                ],
            )
            if first_s is not None:
                db.execute("INSERT OR IGNORE INTO fact VALUES ('first_s', ?)", (first_s,))
            db.execute(_DROP, (keep_s,))

    def close(self) -> None:
        """Close the file."""
        self._db.close()


def _make_private(path: Path) -> str:
    """Create the file with private rights before SQLite does: it names queues and their usage.

    Returns:
        Rights that others still have, because they could not be removed.

    Raises:
        OSError: file or folder cannot be created.

    """
    if not path.parent.exists():
        path.parent.parent.mkdir(parents=True, exist_ok=True)
        path.parent.mkdir(mode=0o700, exist_ok=True)
    # SQLite gives the files beside it the mode of this one.
    os.close(os.open(path, os.O_RDWR | os.O_CREAT, _OURS))
    for part in (path.with_name(path.name + ending) for ending in _ASIDE):
        if not part.exists():
            continue
        mode = stat.S_IMODE(part.stat().st_mode)
        try:
            if mode & ~_OURS:
                part.chmod(mode & _OURS)
        except OSError as error:
            return f"others may read {part}: its mode {mode:o} stays ({_said(error)})"
    return ""


def move_aside(path: Path, now_s: float) -> Path:
    """Rename a corrupt file with the files beside it, and return its new name."""
    stamp = datetime.fromtimestamp(now_s, UTC).strftime("%Y%m%dT%H%M%SZ")
    aside, number = path.with_name(f"{path.name}.corrupt-{stamp}"), 1
    while aside.exists():
        number += 1
        aside = path.with_name(f"{path.name}.corrupt-{stamp}-{number}")
    for ending in _ASIDE:
        part = path.with_name(path.name + ending)
        if part.exists():
            part.rename(aside.with_name(aside.name + ending))
    return aside


def _said(error: Exception) -> str:
    return (error.strerror if isinstance(error, OSError) else None) or str(error)


def _encoded(stretch: Stretch) -> bytes:
    active = stretch.of_active()
    units = _units(active.resources)
    columns = (active.used.T / units).tolist()
    return msgspec.json.encode(
        Amounts(
            list(active.resources),
            (active.capacity / units).tolist(),
            dict(zip(active.queues, columns, strict=True)),
        )
    )


def _units(resources: Sequence[str]) -> FloatVec:
    """Return base units per unit of the file ``(R,)``: powers of two, so nothing is rounded."""
    return np.array([MEBIBYTE if is_in_bytes(name) else 1 for name in resources], np.float64)


def _stretch(start_s: float, end_s: float, amounts: bytes) -> Stretch:
    found = msgspec.json.decode(amounts, type=Amounts)
    rows = len(found.resources)
    capacity = np.array(found.capacity, np.float64)
    used = np.array(list(found.used.values()), np.float64).reshape(-1, rows).T
    is_sound = np.isfinite(used).all() and (used >= 0).all() and np.isfinite(capacity).all()
    if len(capacity) != rows or used.shape[1] != len(found.used) or not is_sound:
        raise ValueError("amounts that cannot be")
    if not start_s < end_s:
        raise ValueError("it ends before it begins")
    units = _units(found.resources)
    return Stretch(
        float(start_s),
        float(end_s),
        tuple(found.resources),
        tuple(found.used),
        used * units[:, np.newaxis],
        capacity * units,
    )
