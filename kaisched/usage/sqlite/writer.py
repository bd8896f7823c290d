"""Writer thread: a slow or full disk must not make a cycle wait."""

from __future__ import annotations

import math
import sqlite3
import threading
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from kaisched.usage.sqlite.file import Row, UsageFile

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
