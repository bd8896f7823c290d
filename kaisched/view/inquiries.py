"""Inquiries: sentences on single jobs, which only the session of the last cycle can tell.

A reader asks from its own thread and waits; the loop answers between two turns, in its thread, from
the session that nobody else touches. Readers cannot keep it busy: answering takes a twentieth of
its time at most, and an inquiry is bounded in jobs.
"""

from __future__ import annotations

import math
import threading
from collections import deque
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from kaisched.clock import monotonic_s
from kaisched.framework.report.turns import Turns

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from kaisched.framework.advice.advice import Advice
    from kaisched.framework.advice.standing import StandingAdvice
    from kaisched.framework.report.records import CycleResult, DecisionRecord

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
        """Answer the first inquiry from the result of the last turn, unless it is too soon."""
        if self.due_in_s() != 0.0:
            return
        start_s = self._now_s()
        try:
            inquiry = self._waiting.popleft()
        except IndexError:  # its reader has given up meanwhile
            return
        try:
            if result is not None:
                self._tell(inquiry, result)
        finally:
            inquiry.is_done.set()
            since_s = max(self._rests_until_s, start_s - REST * AHEAD_S)
            self._rests_until_s = since_s + (1 + REST) * (self._now_s() - start_s)

    def forget(self) -> None:
        """Let go of the session of the last turn, before the next one begins."""
        self._turns = None

    def _tell(self, inquiry: _Inquiry, result: CycleResult) -> None:
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
