"""PromQL queries for decayed sums over a window, in steps.

A subquery evaluates an expression at whole multiples of the step. All series of a queue are summed,
so that a replaced exporter loses nothing. A moment counts only if both allocation and capacity are
known then, in both sums.

Most of the cost is the server's work at each step for each series. So series are summed over time
first and then over queues, and invalid values are counted before a query excludes them. This takes
a quarter of the time, measured on 50 queues and a week by the minute.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from kaisched.usage.settings import QUEUE_LABEL

if TYPE_CHECKING:
    from kaisched.usage.settings import PrometheusSettings

MOST_STEPS: Final = 10_800
"""Most steps, below the 11,000 points that a server returns; a week by the minute has 10,080."""
MOST_SAMPLES: Final = 2_000_000
"""Most series times steps in a query: a second's work for a server, far below its limit."""
STEPS_OF_HALF_LIFE: Final = 240
"""So one step weighs at most 0.3 % of the whole; 32 half-lives are then 7,680 steps."""


@dataclass(frozen=True, slots=True)
class Span:
    """A window in steps. Times are seconds since 1970 of the server's clock."""

    start_s: float
    at_s: float
    step_s: int
    half_life_s: float | None

    @property
    def subquery(self) -> str:
        """``[range:step]``, a millisecond longer, to include a step at the very start.

        Prometheus 3 excludes the left end, Prometheus 2 does not.
        """
        return f"[{round((self.at_s - self.start_s) * 1000) + 1}ms:{self.step_s}s]"

    @property
    def first_step_s(self) -> float:
        """The first step in the window."""
        return math.ceil(self.start_s / self.step_s) * self.step_s

    @property
    def steps(self) -> int:
        """Number of steps."""
        return max(int((self.at_s - self.first_step_s) // self.step_s) + 1, 0)

    @property
    def decay(self) -> str:
        """Weight of a step, as a factor behind an expression."""
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
    """Return the step for a window of this length, in whole seconds.

    It is the resolution, or less for a short half-life: the newest step counts in full, however new
    it is. It is a multiple of that if there would be too many steps for the server. ``coarser`` is
    a further factor, for a server that refused the last query as too much.
    """
    finest = max(span_s / MOST_STEPS, span_s * series / MOST_SAMPLES, 1.0)
    wanted_s = min(resolution_s, (half_life_s or math.inf) / STEPS_OF_HALF_LIFE)
    wanted = max(math.floor(wanted_s), 1)
    return max(math.ceil(finest / wanted), 1) * wanted * coarser


@dataclass(frozen=True, slots=True)
class Questions:
    """Queries about one resource."""

    settings: PrometheusSettings
    resource: str

    @property
    def _series(self) -> str:
        return self._once(self.settings.allocation[self.resource])

    @property
    def _capacity(self) -> str:
        # NaN is not above 0 either.
        return f"(sum({self._once(self.settings.capacity[self.resource])}) > 0)"

    def _once(self, metric: str) -> str:
        """Return an expression that counts copies once."""
        replica = self.settings.replica_label
        return f"(max without ({replica}) ({metric}))" if replica else f"({metric})"

    @property
    def series(self) -> str:
        """Query of the present number of series."""
        return f"count({self._series})"

    @property
    def newest(self) -> str:
        """Query of the time of the newest sample; for an expression, that is now."""
        return f"max(timestamp({self.settings.allocation[self.resource]}))"

    def negative(self, span: Span) -> str:
        """Return the query of the number of series that were below 0 at any step."""
        return f"count(min_over_time({self._series}{span.subquery}) < 0)"

    def unmatched(self, span: Span) -> str:
        """Return the query of the number of steps with allocation but without capacity."""
        steps = f"(group({self._series}) unless on() {self._capacity}){span.subquery}"
        return f"sum(count_over_time({steps}))"

    def used(self, span: Span, *, is_filtered: bool, is_matched: bool) -> str:
        """Return the query of decayed sums by queue.

        Args:
            span: the window.
            is_filtered: leave out invalid values.
            is_matched: leave out steps without capacity.

        """
        # NaN is not at least 0 either.
        series = f"({self._series} >= 0)" if is_filtered else self._series
        known = f" and on() {self._capacity}" if is_matched else ""
        steps = f"({series}{span.decay}{known}){span.subquery}"
        return f"sum by ({QUEUE_LABEL}) (sum_over_time({steps}))"

    @property
    def capacity(self) -> str:
        """Query of the capacity whenever allocation is known too: one series."""
        return f"{self._capacity} and on() group({self._series})"
