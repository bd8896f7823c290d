"""A progress bar over virtual time: on a terminal, once a run has taken a second."""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import TYPE_CHECKING, Final, Self

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

_PATIENCE_S: Final = 1.0
_LOOK_EVERY: Final = 64
"""Calls between two readings of the clock, each of which costs as much as a call."""


class Bar:
    """Progress bar on stderr, so that stdout stays clean. Costs next to nothing while hidden."""

    def __init__(
        self,
        title: str,
        begin_s: float,
        end_s: float,
        *,
        is_wanted: bool | None = None,
        is_slow: bool = False,
    ) -> None:
        """Cover the time from begin to end; with ``is_wanted`` None, only on a terminal.

        ``is_slow`` means that calls are rare, so that every call reads the clock.
        """
        self._title = title
        self._begin_s = begin_s
        self._end_s = end_s
        self._is_wanted = sys.stderr.isatty() if is_wanted is None else is_wanted
        self._look_every = 1 if is_slow else _LOOK_EVERY
        self._calls = 0
        self._began = time.perf_counter()
        self._progress: Progress | None = None
        self._task: TaskID | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._progress is not None:
            self._progress.stop()

    def tell(self, now_s: float) -> None:
        """Report how far virtual time has come."""
        self._calls += 1
        if not self._is_wanted or self._calls % self._look_every:
            return
        if self._progress is None:
            if time.perf_counter() - self._began < _PATIENCE_S:
                return
            self._progress, self._task = self._drawn()
        if self._task is not None:
            self._progress.update(self._task, completed=now_s - self._begin_s)

    def _drawn(self) -> tuple[Progress, TaskID]:
        # Imported late: most runs end before a bar appears.
        from rich.console import Console  # noqa: PLC0415
        from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn  # noqa: PLC0415

        progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.percentage:3.0f}%"),
            TimeRemainingColumn(),
            console=Console(stderr=True),
            transient=True,
        )
        task = progress.add_task(self._title, total=max(self._end_s - self._begin_s, 1.0))
        progress.start()
        return progress, task
