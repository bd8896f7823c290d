"""The questions: PromQL for decayed sums over a window, in steps.

A subquery evaluates an expression at whole multiples of the step. All series of a queue are summed,
so that an exporter that was replaced in between loses nothing; and a moment counts only where both
allocation and capacity are known, in both sums.

What a server does at each step for each series costs most of the time. So series are summed over
time first and over queues after that, and what must be left out is looked for before it is left
out: a quarter of the time, measured on 50 queues and a week by the minute.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from kaisched.usage.settings import QUEUE_LABEL

if TYPE_CHECKING:
    from kaisched.usage.settings import PrometheusSettings

MOST_STEPS: Final = 10_800
"""Below the 11,000 points that a server returns at most; a week by the minute is 10,080."""
MOST_SAMPLES: Final = 2_000_000
"""Series times steps of one question: a second's work for a server, and far below its limit."""
STEPS_OF_HALF_LIFE: Final = 240
"""So that one step weighs at most 0.3 % of all; 32 half-lives are then 7,680 steps."""


@dataclass(frozen=True, slots=True)
class Span:
    """A window at a time, in steps. Seconds since 1970 of the server's clock."""

    start_s: float
    at_s: float
    step_s: int
    half_life_s: float | None

    @property
    def subquery(self) -> str:
        """``[range:step]``; a millisecond more, so that a step at the very start is in it.

        Prometheus 3 leaves the left end out, Prometheus 2 does not.
        """
        return f"[{round((self.at_s - self.start_s) * 1000) + 1}ms:{self.step_s}s]"

    @property
    def first_step_s(self) -> float:
        """The first step that is in the window."""
        return math.ceil(self.start_s / self.step_s) * self.step_s

    @property
    def steps(self) -> int:
        """How many steps there are."""
        return max(int((self.at_s - self.first_step_s) // self.step_s) + 1, 0)

    @property
    def decay(self) -> str:
        """What a step weighs, as a factor to be put behind an expression."""
        if self.half_life_s is None:
            return ""
        return f" * (0.5 ^ (({self.at_s:.3f} - time()) / {self.half_life_s:.3f}))"


def step_s(
    span_s: float,
    resolution_s: float,
    half_life_s: float | None,
    series: int,
    coarser: int = 1,
) -> int:
    """Return a step for so long a window, in whole seconds.

    The resolution, or less for a short half-life: the newest step counts whole, however new it is.
    A multiple of that where it is too fine for the server. ``coarser`` is a further factor, for a
    server that found the last question too much.
    """
    finest = max(span_s / MOST_STEPS, span_s * series / MOST_SAMPLES, 1.0)
    wanted_s = min(resolution_s, (half_life_s or math.inf) / STEPS_OF_HALF_LIFE)
    wanted = max(math.floor(wanted_s), 1)
    return max(math.ceil(finest / wanted), 1) * wanted * coarser


@dataclass(frozen=True, slots=True)
class Questions:
    """What is asked about one resource."""

    settings: PrometheusSettings
    resource: str

    @property
    def _series(self) -> str:
        return self._once(self.settings.allocation[self.resource])

    @property
    def _capacity(self) -> str:
        # NaN is not above 0, either.
        return f"(sum({self._once(self.settings.capacity[self.resource])}) > 0)"

    def _once(self, metric: str) -> str:
        """Return an expression in which copies count once."""
        replica = self.settings.replica_label
        return f"(max without ({replica}) ({metric}))" if replica else f"({metric})"

    @property
    def series(self) -> str:
        """How many series there are now."""
        return f"count({self._series})"

    @property
    def newest(self) -> str:
        """When the newest sample was taken; now, for an expression."""
        return f"max(timestamp({self.settings.allocation[self.resource]}))"

    def negative(self, span: Span) -> str:
        """Return how many series were below 0 at any step."""
        return f"count(min_over_time({self._series}{span.subquery}) < 0)"

    def unmatched(self, span: Span) -> str:
        """Return at how many steps there was allocation without capacity."""
        steps = f"(group({self._series}) unless on() {self._capacity}){span.subquery}"
        return f"sum(count_over_time({steps}))"

    def used(self, span: Span, *, is_filtered: bool, is_matched: bool) -> str:
        """Return decayed sums by queue.

        Args:
            span: the window.
            is_filtered: leave out values that are no amounts.
            is_matched: leave out steps without capacity.

        """
        # NaN is not at least 0, either.
        series = f"({self._series} >= 0)" if is_filtered else self._series
        known = f" and on() {self._capacity}" if is_matched else ""
        steps = f"({series}{span.decay}{known}){span.subquery}"
        return f"sum by ({QUEUE_LABEL}) (sum_over_time({steps}))"

    @property
    def capacity(self) -> str:
        """The capacity, wherever allocation is known too: one series."""
        return f"{self._capacity} and on() group({self._series})"
