"""Publisher of the live view: the loop puts a view there after each cycle, readers take it.

Handing over is one assignment: whatever readers do, the loop waits for none of them.
"""

from __future__ import annotations

import math
import threading
from collections import deque
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from kaisched.clock import monotonic_s
from kaisched.framework.report.turns import Turns
from kaisched.view.history import (
    FRAME_S,
    MOST_SAMPLES,
    SAMPLE_S,
    CycleTimes,
    DecisionLog,
    Frame,
    Sample,
    Thinned,
    sample_of,
)
from kaisched.view.hours import Hour, Hours
from kaisched.view.live import following, view_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from pathlib import Path

    from kaisched.core.usage import Usage
    from kaisched.framework.advice.advice import Advice
    from kaisched.framework.advice.standing import StandingAdvice
    from kaisched.framework.report.records import DecisionRecord
    from kaisched.framework.report.result import CycleResult
    from kaisched.view.live import LiveView


class Publisher:
    """Publisher of one shard's view. ``take`` is for the loop's thread, the rest for any."""

    def __init__(
        self,
        shard: str,
        advice: StandingAdvice | None = None,
        *,
        most_frames: int = 0,
        pool: str = "",
        hours: Path | None = None,
    ) -> None:
        """Start without a view, to keep so many earlier ones.

        ``pool`` is the label value of the shard's node pool, ``hours`` the file of the last week.
        """
        self.shard, self.pool = shard, pool
        self.inquiries = Inquiries(advice)
        self._view: LiveView | None = None
        self._decisions = DecisionLog()
        self._samples = Thinned[Sample](MOST_SAMPLES, SAMPLE_S)
        self._frames = Thinned[Frame](most_frames, FRAME_S)
        self._hours = Hours(hours)

    @property
    def view(self) -> LiveView | None:
        """The view of the last cycle; None before the first one."""
        return self._view

    @property
    def hours(self) -> tuple[Hour, ...]:
        """What there was in the last week, hour by hour."""
        return self._hours.kept

    @property
    def frames(self) -> tuple[Frame, ...]:
        """Views of earlier cycles that are kept, the earliest first; none of a daemon."""
        return self._frames.kept

    def take(
        self,
        result: CycleResult,
        *,
        cycle: int,
        time_s: float,
        duration_s: float,
        usage: Usage | None = None,
        by_action: Mapping[str, float] | None = None,
        by_plugin: Mapping[str, float] | None = None,
    ) -> None:
        """Publish the view of a cycle."""
        taken = view_of(result, self.shard, usage=usage, time_s=time_s)
        stats = result.stats
        times = CycleTimes(
            cycle,
            time_s,
            duration_s,
            by_action or {},
            by_plugin or {},
            len(taken.waiting.rows),
            stats.tasks_bound,
            stats.tasks_evicted,
            stats.tasks_nominated,
        )
        history = self._decisions.add(taken.snapshot, taken.waiting, result, times)
        self._hours.add(taken, self._decisions.last)
        if self._samples.is_due(time_s) and (sample := sample_of(taken)) is not None:
            self._samples.add(sample)
        history = replace(history, samples=self._samples.kept)
        view = following(self._view, taken, history, cycle)
        if self._frames.is_due(time_s):
            self._frames.add(Frame.of(view))
        self._view = view


MOST_JOBS: Final = 100
"""Jobs that one inquiry may be about."""
MOST_WAITING: Final = 32
"""Inquiries that may wait; one more is answered at once, with nothing."""
REST: Final = 19.0
"""After an answer the loop rests so many times as long from answering, on average."""
AHEAD_S: Final = 0.1
"""Answers may take so much at once, in seconds, where nobody has asked lately: a person is answered
between two cycles, and the most that a flood can put a cycle off by is this and one answer."""


class Told(NamedTuple):
    """What the session tells of a waiting job."""

    record: DecisionRecord
    advice: tuple[Advice, ...]
    """What was tried for it, if it still holds."""
    advice_text: str
    turn: dict[str, Any] | None
    """Its place in the order, if that was asked for, as docs/reference/plan-json.md has it."""


class _Inquiry:
    def __init__(self, names: frozenset[str], *, with_turn: bool) -> None:
        self.names, self.with_turn = names, with_turn
        self.is_done = threading.Event()
        self.told: dict[str, Told] = {}


class Inquiries:
    """Inquiries about the jobs of one shard. ``ask`` is for any thread, the rest for the loop's."""

    def __init__(
        self,
        advice: StandingAdvice | None = None,
        now_s: Callable[[], float] = monotonic_s,
    ) -> None:
        """Start without any."""
        self.ring: Callable[[], None] = lambda: None
        """Called when an inquiry has come."""
        self._advice, self._now_s = advice, now_s
        self._waiting: deque[_Inquiry] = deque()
        self._rests_until_s = -math.inf
        self._turns: tuple[CycleResult, Turns] | None = None

    def ask(
        self, names: Iterable[str], wait_s: float, *, with_turn: bool = False
    ) -> Mapping[str, Told]:
        """Return what is told of jobs that wait, by name; without those that no answer came for."""
        wanted = frozenset(list(names)[:MOST_JOBS])
        if not wanted or len(self._waiting) >= MOST_WAITING:
            return {}
        inquiry = _Inquiry(wanted, with_turn=with_turn)
        self._waiting.append(inquiry)
        self.ring()
        if not inquiry.is_done.wait(wait_s):
            with suppress(ValueError):  # it is being answered
                self._waiting.remove(inquiry)
        return inquiry.told if inquiry.is_done.is_set() else {}

    def due_in_s(self) -> float | None:
        """Return in how many seconds the next inquiry may be answered; None without any."""
        return max(self._rests_until_s - self._now_s(), 0.0) if self._waiting else None

    def answer(self, result: CycleResult | None) -> None:
        """Answer the first inquiry from the result of the last cycle, unless it is too soon."""
        if self.due_in_s() != 0.0:
            return
        start_s = self._now_s()
        try:
            inquiry = self._waiting.popleft()
        except IndexError:  # its reader has given up meanwhile
            return
        try:
            if result is not None:
                self._answer(inquiry, result)
        finally:
            inquiry.is_done.set()
            since_s = max(self._rests_until_s, start_s - REST * AHEAD_S)
            self._rests_until_s = since_s + (1 + REST) * (self._now_s() - start_s)

    def forget(self) -> None:
        """Let go of the session of the last cycle, before the next one begins."""
        self._turns = None

    def _answer(self, inquiry: _Inquiry, result: CycleResult) -> None:
        records, names = result.records, result.records.session.jobs.name
        rows = [row for row in records.rows.tolist() if names[row] in inquiry.names]
        for row in rows:
            record = records.record(row)
            advice, text = self._advised(result, row, record)
            turn = self._turns_of(result).document(row) if inquiry.with_turn else None
            inquiry.told[names[row]] = Told(record, advice, text, turn)

    def _turns_of(self, result: CycleResult) -> Turns:
        if self._turns is None or self._turns[0] is not result:
            self._turns = result, Turns(result)
        return self._turns[1]

    def _advised(
        self, result: CycleResult, row: int, record: DecisionRecord
    ) -> tuple[tuple[Advice, ...], str]:
        if self._advice is None:
            return (), ""
        text = self._advice.words(result.records.session, row, record) or ""
        return (self._advice.told[record.pod_group].advice if text else ()), text
