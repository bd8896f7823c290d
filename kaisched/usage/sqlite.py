"""Usage store in a file: sums in the process, stretches in a file that one process owns.

Each stretch is a row. While samples are being added to a stretch, its row is written again every
``save_s``; a killed process loses only what came after the last write. The file is in SQLite's
write-ahead mode: a commit survives any end of the process; a power cut may lose the last commits,
but never the file. A file of something else stays as it is.
"""

from __future__ import annotations

import math
import os
import sqlite3
import stat
import threading
from dataclasses import replace
from datetime import UTC, datetime
from heapq import heappop, heappush
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec
import numpy as np

from kaisched.units import MEBIBYTE, format_duration, is_in_bytes
from kaisched.usage.history import HOLD_S, MemoryStore, Stretch
from kaisched.usage.settings import FETCH_S

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from kaisched.core.axis import FloatVec
    from kaisched.core.usage import Usage
    from kaisched.usage.history import Sample, Window


# -- files of something else -----------------------------------------------------------------------

MARK: Final = "CREATE TABLE stretch ("
"""In the first page of every history, or in the log beside it until that is copied."""
_MAGIC: Final = b"SQLite format 3\0"
_PAGE: Final = 4096
_LOG: Final = 64 * 1024
_VERSION, _APPLICATION, _CELLS = slice(60, 64), slice(68, 72), slice(103, 105)
"""Where the first page says who made it, and how many tables it has."""


def why_foreign(path: Path) -> str:
    """Return why a file is no place for a usage history, empty if it is one or may become one.

    A corrupt history is one as long as its first page is whole.

    Raises:
        OSError: the file cannot be read.

    """
    try:
        mode = path.stat().st_mode
    except FileNotFoundError:
        return ""
    if not stat.S_ISREG(mode):
        return "a folder" if stat.S_ISDIR(mode) else "a device or pipe, no file"
    for part in _parts(path)[1:]:
        if _is_there(part) and not _is_file(part):
            return f"beside {part.name}, which is no file"
    first = _begin_of(path, _PAGE)
    if first and not first.startswith(_MAGIC):
        return "a file of something else"
    mark, log = MARK.encode(), path.with_name(f"{path.name}-wal")
    if mark in first or (log.is_file() and mark in _begin_of(log, _LOG)):
        return ""
    is_empty = not first or not any(any(first[what]) for what in (_VERSION, _APPLICATION, _CELLS))
    return "" if is_empty else "a database of something else"


def _begin_of(path: Path, size: int) -> bytes:
    with path.open("rb") as file:
        return file.read(size)


def _parts(path: Path) -> list[Path]:
    """Return the file, and those that SQLite has beside it."""
    return [path.with_name(path.name + ending) for ending in _ASIDE]


def _is_there(path: Path) -> bool:
    return path.is_symlink() or path.exists()


def _is_file(path: Path) -> bool:
    """Tell whether this is a regular file, and no link to one."""
    return path.is_file() and not path.is_symlink()


# -- the file --------------------------------------------------------------------------------------

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
    os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_NONBLOCK, _OURS))
    for part in _parts(path):
        if part != path and not _is_file(part):
            continue
        mode = stat.S_IMODE(part.stat().st_mode)
        try:
            if mode & ~_OURS:
                _set_mode(part, mode & _OURS)
        except OSError as error:
            return f"others may read {part}: its mode {mode:o} stays ({_said(error)})"
    return ""


def _set_mode(path: Path, mode: int) -> None:
    """Set the rights of a regular file, by its number: its name may lead elsewhere meanwhile."""
    number = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    try:
        if stat.S_ISREG(os.fstat(number).st_mode):
            os.fchmod(number, mode)
    finally:
        os.close(number)


def move_aside(path: Path, now_s: float) -> Path:
    """Rename a corrupt file with the files beside it, and return its new name.

    No other file is replaced, and what is no file stays.
    """
    stamp = datetime.fromtimestamp(now_s, UTC).strftime("%Y%m%dT%H%M%SZ")
    aside, number = path.with_name(f"{path.name}.corrupt-{stamp}"), 1
    while any(map(_is_there, _parts(aside))):
        number += 1
        aside = path.with_name(f"{path.name}.corrupt-{stamp}-{number}")
    for part, to in zip(_parts(path), _parts(aside), strict=True):
        if _is_file(part) or (part == path and part.is_file()):
            part.rename(to)
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


# -- the thread that writes ------------------------------------------------------------------------

MOST_WAITING: Final = 2000
"""Most stretches that wait for a full disk; older ones are dropped, and counted."""
_LAST_WAIT_S: Final = 5.0


class Writer:
    """Writes the latest version of each stretch, and retries with the next sample."""

    def __init__(self, file: UsageFile) -> None:
        """Start the thread."""
        self._file = file
        self._lock = threading.Lock()
        self._news = threading.Event()
        self._waiting: dict[int, Row] = {}
        self._first_s: float | None = None
        self._keep_s = math.inf
        self._is_ending = False
        self.written_until_s = 0.0
        """End of the newest stretch in the file."""
        self.error = ""
        """Reason why the last write failed; empty if it did not."""
        self.dropped = 0
        self._thread = threading.Thread(target=self._run, name="usage-writer", daemon=True)
        self._thread.start()

    def put(self, rows: list[Row], first_s: float | None, keep_s: float) -> None:
        """Hand over rows that no longer change; of all rows those stay that cover ``keep_s``."""
        with self._lock:
            self._waiting.update((row.number, row) for row in rows)
            while len(self._waiting) > MOST_WAITING:
                del self._waiting[min(self._waiting)]
                self.dropped += 1
            self._first_s, self._keep_s = first_s, keep_s
        self._news.set()

    def close(self) -> None:
        """Write the waiting rows once, and end; take no longer than a few seconds."""
        self._is_ending = True
        self._news.set()
        self._thread.join(_LAST_WAIT_S)

    def _run(self) -> None:
        while not self._is_ending:
            self._news.wait()
            self._news.clear()
            self._write()
        self._write()
        self._file.close()

    def _write(self) -> None:
        with self._lock:
            rows, first_s, keep_s = dict(self._waiting), self._first_s, self._keep_s
        try:
            self._file.write(list(rows.values()), first_s, keep_s)
        except sqlite3.Error as error:
            self.error = f"{self._file.path}: {error}"
            return
        with self._lock:
            for number, row in rows.items():
                if self._waiting.get(number) is row:
                    del self._waiting[number]
        self.written_until_s = max(
            [self.written_until_s, *(row.stretch.end_s for row in rows.values())]
        )
        self.error = ""


# -- the store -------------------------------------------------------------------------------------


class SqliteStore:
    """Keeps samples in a file, or in the process if the file cannot be used, and says so."""

    def __init__(
        self,
        path: Path,
        window: Window,
        now_s: float,
        *,
        save_s: float = FETCH_S,
        staleness_s: float = math.inf,
    ) -> None:
        """Read the history from the file.

        Args:
            path: the file; it and missing folders are created.
            window: the part of the past that counts; older rows are deleted.
            now_s: the time, seconds since 1970.
            save_s: time between two writes of samples.
            staleness_s: age above which the newest sample is stale.

        """
        self._memory = MemoryStore(window, staleness_s=staleness_s)
        self._save_s = save_s
        self._saved_s = -math.inf
        self._number = 1
        self._lasting: tuple[str, ...] = ()
        self.writer: Writer | None = None
        file = self._opened(path, now_s)
        if file is not None:
            self.writer = Writer(file)

    def record(self, sample: Sample) -> None:
        """Add a sample of the present, and write if it is time."""
        done = self._memory.history.add(sample)
        if self.writer is None:
            return
        rows = [self._numbered(stretch) for stretch in done]
        # A clock that was set back must not stop the writes until it has caught up.
        is_due = not 0 <= sample.time_s - self._saved_s < self._save_s
        if rows or is_due:
            self._saved_s = sample.time_s
            self._write(self.writer, rows, sample.time_s)

    def _write(self, writer: Writer, rows: list[Row], now_s: float) -> None:
        history = self._memory.history
        if history.open is not None:
            rows = [*rows, Row(self._number, history.open.copy())]
        # Twice the window, counted in what rows cover: a wrong clock must not cost the history.
        window = history.window
        writer.put(rows, history.first_s, 2 * min(window.length_s(now_s), window.faint_s))

    def usage(self, now_s: float, queues: Sequence[str], resources: Sequence[str]) -> Usage:
        """Return decayed usage over decayed capacity, parts ``(R, Q)`` in the order asked."""
        usage = self._memory.usage(now_s, queues, resources)
        reasons = self._lasting
        if self.writer is not None and self.writer.error:
            reasons = (*reasons, f"history is not being written: {self.writer.error}")
        if self.writer is not None and self.writer.dropped:
            reasons = (*reasons, f"{self.writer.dropped} stretches of history were not written")
        return replace(usage, reasons=(*usage.reasons, *reasons)) if reasons else usage

    def is_ready(self) -> bool:
        """Return True: there is nothing to wait for."""
        return True

    def close(self) -> None:
        """Write the remaining samples."""
        if self.writer is not None:
            newest_s = self._memory.history.newest_s
            self._write(self.writer, [], newest_s if newest_s is not None else 0.0)
            self.writer.close()

    def _numbered(self, stretch: Stretch) -> Row:
        self._number += 1
        return Row(self._number - 1, stretch)

    def _opened(self, path: Path, now_s: float) -> UsageFile | None:
        try:
            return self._restored(path, now_s)
        except FileUnusableError as error:
            self._lasting = (f"history is kept in memory only: {error}",)
            return None
        except sqlite3.DatabaseError as error:
            return self._anew(path, now_s, error)

    def _anew(self, path: Path, now_s: float, error: Exception) -> UsageFile | None:
        try:
            aside = move_aside(path, now_s)
            self._lasting = (f"{path} was corrupt ({error}): moved to {aside}, history is empty",)
            return self._restored(path, now_s)
        except (OSError, FileUnusableError, sqlite3.Error) as again:
            self._lasting = (f"history is kept in memory only: {path} is corrupt, and {again}",)
            return None

    def _restored(self, path: Path, now_s: float) -> UsageFile:
        file = UsageFile(path)
        try:
            rows = list(file.read(self._memory.history.window.start(now_s)))
            self._number = file.next_number()
            first_s = file.first_s()
            newest_s = file.newest_s(now_s)
        except sqlite3.OperationalError as error:
            file.close()
            raise FileUnusableError(f"{path}: {error}") from error
        except sqlite3.DatabaseError:
            file.close()
            raise
        if file.warning:
            self._lasting = (*self._lasting, file.warning)
        self._record_clock_faults(path, rows, newest_s, now_s)
        is_known = first_s is not None and first_s <= now_s
        self._memory.history.restore(_in_order(rows, now_s), first_s if is_known else None)
        return file

    def _record_clock_faults(
        self, path: Path, rows: Sequence[Row], newest_s: float | None, now_s: float
    ) -> None:
        """Record that samples are too new or too old for the clock to be right."""
        end_s = max((row.stretch.end_s for row in rows), default=-math.inf)
        if end_s > now_s + HOLD_S:
            ahead = format_duration(round(end_s - now_s))
            text = (
                f"samples in {path} are up to {ahead} in the future: they stay, and do not count;"
                " the clock is wrong, or was when they were taken"
            )
            self._lasting = (*self._lasting, text)
        window_s = self._memory.history.window.length_s(now_s)
        if newest_s is not None and now_s - newest_s > window_s:
            age, length = (format_duration(round(it)) for it in (now_s - newest_s, window_s))
            text = (
                f"the newest sample in {path} is {age} old, and the window {length} long: samples"
                " stay, and none counts; unless the scheduler was stopped for so long, the clock is"
                " wrong"
            )
            self._lasting = (*self._lasting, text)


def _in_order(rows: Iterable[Row], now_s: float) -> list[Stretch]:
    """Return the stretches of the past in order of time; of two at a time the later written."""
    waiting: list[tuple[float, int, Stretch]] = []

    def add(number: int, stretch: Stretch | None) -> None:
        if stretch is not None:
            heappush(waiting, (stretch.start_s, number, stretch))

    for row in rows:
        add(row.number, row.stretch.part(-math.inf, now_s))
    kept: list[Row] = []
    while waiting:
        start_s, number, stretch = heappop(waiting)
        if kept and kept[-1].stretch.end_s > start_s:
            last = kept[-1]
            if last.number > number:
                add(number, stretch.part(last.stretch.end_s, math.inf))
                continue
            kept.pop()
            add(last.number, last.stretch.part(stretch.end_s, math.inf))
            if (before := last.stretch.part(-math.inf, start_s)) is not None:
                kept.append(Row(last.number, before))
        kept.append(Row(number, stretch))
    return [row.stretch for row in kept]
