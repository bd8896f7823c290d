"""Writes lines to a file descriptor that may be blocked or closed, without blocking callers.

The leader of a shard must not lose its lease because its log is not being read.
"""

from __future__ import annotations

import atexit
import os
import threading
from collections import deque
from typing import Final

import structlog

MOST_LINES: Final = 10_000
"""Most lines that wait for a reader; further lines are dropped and counted."""
LAST_S: Final = 1.0
"""How long the end of the process waits for a reader of the log."""


class LinePipe:
    """Takes lines from any thread; a thread of its own writes them.

    It writes to the descriptor itself: a Python stream would hold its lock while it is blocked, and
    the interpreter could not end.
    """

    def __init__(self, descriptor: int) -> None:
        """Start the writing thread."""
        self.dropped = 0
        self._descriptor = descriptor
        self._lines: deque[str] = deque()
        self._news = threading.Condition()
        self._is_idle = True
        threading.Thread(target=self._run, name="log", daemon=True).start()
        atexit.register(self.drain, LAST_S)

    def write(self, line: str) -> None:
        """Queue a line, including its end."""
        with self._news:
            if len(self._lines) >= MOST_LINES:
                self.dropped += 1
                return
            self._lines.append(line)
            self._is_idle = False
            self._news.notify_all()

    def flush(self) -> None:
        """Do nothing: queued lines are written without it."""

    def drain(self, timeout_s: float) -> bool:
        """Wait until all lines are written, for at most ``timeout_s``; tell whether they are."""
        with self._news:
            return self._news.wait_for(lambda: self._is_idle, timeout_s)

    def _run(self) -> None:
        while True:
            with self._news:
                self._is_idle = not self._lines
                self._news.notify_all()
                self._news.wait_for(lambda: bool(self._lines))
                line = self._lines.popleft()
            self._put(line.encode("utf-8", "backslashreplace"))
            self._tell_dropped()

    def _put(self, data: bytes) -> None:
        try:
            while data:
                data = data[os.write(self._descriptor, data) :]
        except OSError:
            return  # the descriptor is closed, so the line is lost

    def _tell_dropped(self) -> None:
        with self._news:
            if self._lines or not self.dropped:
                return
            dropped, self.dropped = self.dropped, 0
        structlog.get_logger().warning("log_lines_dropped", lines=dropped)
