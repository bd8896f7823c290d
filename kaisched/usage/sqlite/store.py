"""Usage store in a file: sums in the process, stretches in the file.

Each stretch is a row. While samples are being added to a stretch, its row is written again every
``save_s``; a killed process loses only what came after the last write.
"""

from __future__ import annotations

import math
import sqlite3
from dataclasses import replace
from heapq import heappop, heappush
from typing import TYPE_CHECKING

from kaisched.units import format_duration
from kaisched.usage.history import HOLD_S
from kaisched.usage.memory import MemoryStore
from kaisched.usage.settings import FETCH_S
from kaisched.usage.sqlite.file import FileUnusableError, Row, UsageFile, move_aside
from kaisched.usage.sqlite.writer import Writer

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from kaisched.core.usage import Usage
    from kaisched.usage.port import Sample
    from kaisched.usage.sums import Stretch
    from kaisched.usage.window import Window


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
        self._tell_of_clocks(path, rows, newest_s, now_s)
        is_known = first_s is not None and first_s <= now_s
        self._memory.history.restore(_in_order(rows, now_s), first_s if is_known else None)
        return file

    def _tell_of_clocks(
        self, path: Path, rows: Sequence[Row], newest_s: float | None, now_s: float
    ) -> None:
        """Tell of samples that are too new or too old for the clock to be right."""
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
