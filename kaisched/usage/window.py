"""Window of the past that counts, and the weight of each moment in it.

A moment at age ``a`` weighs ``0.5 ** (a / half_life)`` (rule U2 of docs/explanation/usage.md), or 1
without a half-life. The window says from which moment on the past counts (rule U3).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

if TYPE_CHECKING:
    from kaisched.objects.cron import Cron

WindowType = Literal["sliding", "tumbling", "cron"]

WEEK_S: Final = 604_800.0
STRETCHES: Final = 720
"""Stretches in a window unless a granularity is set: a week in steps of 14 minutes."""
FAINT_HALF_LIVES: Final = 32
"""Beyond this age a moment weighs less than 2^-32, below one part per billion: it is left out."""


@dataclass(frozen=True, slots=True)
class Window:
    """A window and a half-life; the defaults are KAI-Scheduler's."""

    type: WindowType = "sliding"
    size_s: float = WEEK_S
    half_life_s: float | None = None
    """None for no decay."""
    anchor_s: float = 0.0
    """Begin of the first tumbling window."""
    cron: Cron | None = None
    """Begins of windows, for type ``cron``."""
    granularity_s: float | None = None
    """Longest stretch of time within which use counts as even; None for a part of the window."""

    @property
    def faint_s(self) -> float:
        """The age beyond which moments weigh nothing."""
        return math.inf if self.half_life_s is None else FAINT_HALF_LIVES * self.half_life_s

    def start(self, now_s: float) -> float:
        """Return the moment from which on the past counts at ``now_s``.

        A tumbling window that has not begun yet is empty: its start is ``now_s``.
        """
        return max(self.edge(now_s), now_s - self.faint_s)

    def edge(self, now_s: float) -> float:
        """Return the begin of the window itself, whatever the decay."""
        if self.type == "cron" and self.cron is not None:
            return self.cron.before(now_s)
        if self.type == "tumbling":
            if now_s < self.anchor_s:
                return now_s
            return self.anchor_s + (now_s - self.anchor_s) // self.size_s * self.size_s
        return now_s - self.size_s

    def length_s(self, now_s: float) -> float:
        """Return how long the window at ``now_s`` is from begin to end, whatever the decay."""
        if self.type == "cron" and self.cron is not None:
            return self.cron.after(now_s) - self.cron.before(now_s)
        return self.size_s

    def grain_s(self, now_s: float) -> float:
        """Return the longest stretch of time within which use counts as even."""
        if self.granularity_s is not None:
            return self.granularity_s
        return min(self.length_s(now_s), self.faint_s) / STRETCHES

    @property
    def has_edges(self) -> bool:
        """Tell whether windows follow one another instead of sliding."""
        return self.type != "sliding"


def weight(age_s: float, half_life_s: float | None) -> float:
    """Return the weight of a moment of this age, 0 to 1; a moment in the future weighs 1."""
    if half_life_s is None or age_s <= 0:
        return 1.0
    return float(0.5 ** (age_s / half_life_s))


def weighed_s(start_s: float, end_s: float, now_s: float, half_life_s: float | None) -> float:
    """Return the seconds from ``start_s`` to ``end_s``, weighed at ``now_s``.

    This is the integral of :func:`weight` over that time.
    """
    span_s = end_s - start_s
    if half_life_s is None:
        return span_s
    # expm1 keeps the digits that 1 - 0.5 ** x would lose for a span far below the half-life.
    grown = -math.expm1(-math.log(2) * span_s / half_life_s)
    return half_life_s / math.log(2) * grown * weight(now_s - end_s, half_life_s)


def weighed_since(window: Window, first_s: float | None, now_s: float) -> float:
    """Return the whole weighed seconds of a window, from ``first_s`` on at the earliest."""
    start_s = max(window.start(now_s), now_s if first_s is None else first_s)
    return float(round(weighed_s(start_s, max(now_s, start_s), now_s, window.half_life_s)))
