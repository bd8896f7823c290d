"""The threads that write reports: a few at a time, at a limited rate, only while we lead."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, Final

import structlog

from kaisched.clock import monotonic_s
from kaisched.cluster.kubernetes.gate import Gate
from kaisched.cluster.kubernetes.report_box import ReportBox

WRITERS: Final = 4
"""More than one, since a server may be slow to answer."""
_GLANCE_S: Final = 0.2
"""How often to check whether we lead."""
_CATCH_UP_S: Final = 0.1
"""The writes of so long a pause may be sent at once."""


class ReportWriters:
    """Threads that write the next report whenever one is due."""

    def __init__(
        self,
        box: ReportBox,
        step: Callable[[], bool],
        gate: Gate,
        *,
        per_second: float,
        write_s: float,
    ) -> None:
        """Start the threads.

        Args:
            box: tells when a report is due.
            step: writes the next report that is due; returns whether there was one.
            gate: checked before each write.
            per_second: most reports written per second.
            write_s: how long a write may take; it must end while the gate is open.

        """
        self._box, self._step, self._gate, self._write_s = box, step, gate, write_s
        self._gap_s, self._next_s = 1.0 / per_second, 0.0
        self._rate, self._end = threading.Lock(), threading.Event()
        self._log: Any = structlog.get_logger()
        self._threads = [
            threading.Thread(target=self._run, name=f"reports-{number}", daemon=True)
            for number in range(WRITERS)
        ]
        for thread in self._threads:
            thread.start()

    def close(self) -> None:
        """Write nothing more; writes under way are not awaited."""
        self._end.set()
        self._box.clear()
        with self._box.news:
            self._box.news.notify_all()

    def _run(self) -> None:
        while not self._end.is_set():
            if not self._gate.is_open(self._write_s):
                self._end.wait(_GLANCE_S)
                continue
            self._await_news()
            if not self._has_turn() or not self._gate.is_open(self._write_s):
                continue
            try:
                self._step()
            except Exception as error:  # noqa: BLE001 - one bad report must not end the writer
                self._log.error("write_failed", err=f"{type(error).__name__}: {error}")

    def _await_news(self) -> None:
        """Wait until a report is due, or for a while."""
        due_s = self._box.next_s()
        wait_s = _GLANCE_S if due_s is None else min(due_s - monotonic_s(), _GLANCE_S)
        if wait_s > 0:
            with self._box.news:
                self._box.news.wait(wait_s)

    def _has_turn(self) -> bool:
        """Wait until one more may be sent; return False if none is due, or at the end."""
        now_s = monotonic_s()
        with self._rate:
            due_s = self._box.next_s()
            if due_s is None or due_s > now_s:
                return False
            mine_s = max(self._next_s, now_s - _CATCH_UP_S)
            self._next_s = mine_s + self._gap_s
        return not self._end.wait(max(mine_s - now_s, 0.0))
