"""What a run shows while it lasts: a progress bar, or each cycle on the page of the live view."""

from __future__ import annotations

import sys
import threading
import time
from types import TracebackType
from typing import TYPE_CHECKING, Final, Self

from kaisched.clock import monotonic_s
from kaisched.text import visible
from kaisched.view.history import MOST_FRAMES
from kaisched.view.publisher import Publisher

if TYPE_CHECKING:
    from collections.abc import Callable

    from rich.progress import Progress, TaskID

    from kaisched.core.snapshot import Snapshot
    from kaisched.framework.report.result import CycleResult
    from kaisched.sim.cluster import Decide
    from kaisched.telemetry.stopwatch import Stopwatch


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
        self._title = visible(title)
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

    def update(self, now_s: float) -> None:
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


_GLANCE_S: Final = 0.25
"""Longest time between two looks whether to stop."""


class Stage:
    """A cycle of a simulation that readers see.

    Virtual time passes ``speed`` times as fast as real time; 0 is as fast as it goes. The thread of
    the simulation answers what only the session of the last cycle can tell while it waits for the
    next one, as a daemon's loop does.
    """

    def __init__(
        self,
        decide: Decide,
        watch: Stopwatch,
        speed: float,
        *,
        now_s: Callable[[], float] = monotonic_s,
    ) -> None:
        """Decide by ``decide``, whose actions ``watch`` measures."""
        self.publisher = Publisher("simulation", most_frames=MOST_FRAMES)
        self._decide, self._watch, self._speed, self._now_s = decide, watch, speed, now_s
        self._bell, self._end = threading.Event(), threading.Event()
        self.publisher.inquiries.ring = self._bell.set
        self._began: tuple[float, float] | None = None
        """Real and virtual time of the first cycle."""
        self._last: CycleResult | None = None
        self._cycles = 0

    def __call__(self, snapshot: Snapshot, now_s: float) -> CycleResult:
        """Decide on a snapshot when it is time, and show the result."""
        self._wait(now_s)
        self._watch.reset()
        start_s = self._now_s()
        result = self._decide(snapshot, now_s)
        self._cycles += 1
        self.publisher.take(
            result,
            cycle=self._cycles,
            time_s=now_s,
            duration_s=self._now_s() - start_s,
            by_action=self._watch.by_action(),
            by_plugin=self._watch.by_plugin(),
        )
        self._last = result
        return result

    def stay(self) -> None:
        """Go on showing the last cycle until stopped."""
        self._rest(lambda: True)

    def stop(self) -> None:
        """Stop waiting, from any thread."""
        self._end.set()
        self._bell.set()

    def _wait(self, now_s: float) -> None:
        if self._began is None:
            self._began = self._now_s(), now_s
        real_s, virtual_s = self._began
        until_s = real_s + (now_s - virtual_s) / self._speed if self._speed else real_s
        self._rest(lambda: self._now_s() < until_s, until_s)

    def _rest(self, goes_on: Callable[[], bool], until_s: float | None = None) -> None:
        """Answer readers, once at least."""
        inquiries = self.publisher.inquiries
        inquiries.answer(self._last)
        while not self._end.is_set() and goes_on():
            left_s = _GLANCE_S if until_s is None else until_s - self._now_s()
            due_s = inquiries.due_in_s()
            waits_s = min(left_s, _GLANCE_S) if due_s is None else min(left_s, due_s, _GLANCE_S)
            self._bell.wait(max(waits_s, 0.0))
            self._bell.clear()
            inquiries.answer(self._last)
        inquiries.forget()
