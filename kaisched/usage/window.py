"""Which part of the past counts, and how much each moment of it.

A moment at age ``a`` weighs ``0.5 ** (a / half_life)`` (rule U2 of docs/explanation/usage.md), or 1
without a half-life. The window says from when on moments count at all (rule U3).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

if TYPE_CHECKING:
    from kaisched.objects.cron import Cron

WindowType = Literal["sliding", "tumbling", "cron"]

WEEK_S: Final = 604_800.0
FAINT_HALF_LIVES: Final = 32
"""What is older weighs less than 2^-32, which is below one part per billion: it is left out."""


@dataclass(frozen=True, slots=True)
class Window:
    """A window and a half-life; the defaults are KAI-Scheduler's."""

    type: WindowType = "sliding"
    size_s: float = WEEK_S
    half_life_s: float | None = None
    """None: no decay."""
    anchor_s: float = 0.0
    """When the first tumbling window begins."""
    cron: Cron | None = None
    """When a new window begins, for type ``cron``."""

    @property
    def faint_s(self) -> float:
        """The age at which a moment no longer weighs anything."""
        return math.inf if self.half_life_s is None else FAINT_HALF_LIVES * self.half_life_s

    def start(self, now_s: float) -> float:
        """Return from when on the past counts at ``now_s``.

        A tumbling window that is yet to begin is empty: its start is ``now_s``.
        """
        return max(self.edge(now_s), now_s - self.faint_s)

    def edge(self, now_s: float) -> float:
        """Return where the window itself begins, whatever the decay."""
        if self.type == "cron" and self.cron is not None:
            return self.cron.before(now_s)
        if self.type == "tumbling":
            if now_s < self.anchor_s:
                return now_s
            return self.anchor_s + (now_s - self.anchor_s) // self.size_s * self.size_s
        return now_s - self.size_s

    @property
    def has_edges(self) -> bool:
        """Tell whether windows follow one another instead of sliding."""
        return self.type != "sliding"


def weight(age_s: float, half_life_s: float | None) -> float:
    """Return what a moment of this age weighs, 0 to 1; one from the future weighs 1."""
    if half_life_s is None or age_s <= 0:
        return 1.0
    return float(0.5 ** (age_s / half_life_s))


def weighed_s(start_s: float, end_s: float, now_s: float, half_life_s: float | None) -> float:
    """Return how many seconds the time from ``start_s`` to ``end_s`` amounts to at ``now_s``.

    The integral of :func:`weight` over that time.
    """
    span_s = end_s - start_s
    if half_life_s is None:
        return span_s
    # expm1 keeps the digits that 1 - 0.5 ** x would lose for a span far below the half-life.
    grown = -math.expm1(-math.log(2) * span_s / half_life_s)
    return half_life_s / math.log(2) * grown * weight(now_s - end_s, half_life_s)


def weighed_since(window: Window, first_s: float | None, now_s: float) -> float:
    """Return how many whole seconds a window amounts to, of which nothing is known before."""
    start_s = max(window.start(now_s), now_s if first_s is None else first_s)
    return float(round(weighed_s(start_s, max(now_s, start_s), now_s, window.half_life_s)))
