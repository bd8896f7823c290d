"""The arguments of time-based-fairshare."""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import UTC, datetime
from functools import cached_property
from typing import Literal

from pydantic import Field, field_validator, model_validator

from kaisched import (
    Arguments,
    Cron,
    former_values,
    parse_cron,
    parse_duration,
    shard_setting,
)

Normalization = Literal["siblings", "cluster"]
HandOver = Literal["none", "timeSlices", "budgets"]

_NEVER = "never"
_LIVES = 1.4426950408889634
"""1 / ln 2: all that a history of half-lives weighs is so many of them."""
_LEAST_TURNS_S = 604_800.0
_PARTS_OF_HISTORY = 8
"""No eviction costs more than such a part of the history over 1 + k: else no debt may reach it."""


class TimeBasedFairshareArguments(Arguments):
    """How past usage is measured, how strongly it counts, and who has the surplus by slices."""

    k_value: float = Field(
        default=1.0,
        ge=0.0,
        le=1e6,
        allow_inf_nan=False,
        description="How strongly past usage counts against a queue; 0 looks at the present only. "
        "A shard's `kValue` sets it.",
        json_schema_extra=shard_setting("kValue"),
    )
    normalization: Normalization = Field(
        default="siblings",
        description="What usage is measured against: what a queue's siblings have used and may use "
        "of their parent's part, or the whole cluster, as in KAI-Scheduler.",
    )
    count_in_quota: bool = Field(
        default=False,
        description="Whether usage that the quota covers counts against a queue too, as in "
        "KAI-Scheduler.",
    )
    count_in_share: bool = Field(
        default=True,
        description="Whether usage within a queue's part by weight counts against it too, as in "
        "KAI-Scheduler; else only what exceeds the part does, and nobody gets more for waiting.",
    )
    hand_over: HandOver = Field(
        default="none",
        description="Whether queues with jobs that cannot be divided have the surplus by time "
        "slices, and whether those last until another queue has used less or a budget is used up.",
        json_schema_extra=former_values(time_slices="timeSlices"),
    )
    eviction_cost: str = Field(
        default="30m",
        description="For how long what is evicted is taken to have run, where only past usage "
        "justifies it; 0s for evictions that cost nothing.",
    )
    half_life_period: str = Field(
        default="0s",
        description="Half-life of the history, 0 for none. Slices need it; `usageDBConfig` sets "
        "it.",
        json_schema_extra=shard_setting("usageDBConfig.usageParams.halfLifePeriod"),
    )
    window_size: str = Field(
        default="1w",
        description="Length of the history, or of the budget period; `usageDBConfig` sets it.",
        json_schema_extra=shard_setting("usageDBConfig.usageParams.windowSize"),
    )
    window_type: Literal["sliding", "tumbling", "cron"] = Field(
        default="sliding",
        description="Which kind of window the history has; budgets need one that ends. "
        "`usageDBConfig` sets it.",
        json_schema_extra=shard_setting("usageDBConfig.usageParams.windowType"),
    )
    tumbling_window_start_time: str = Field(
        default=_NEVER,
        description="When a budget period began, such as 2026-07-01T00:00:00Z, for `tumbling`; "
        "`usageDBConfig` sets it.",
        json_schema_extra=shard_setting("usageDBConfig.usageParams.tumblingWindowStartTime"),
    )
    cron_string: str = Field(
        default=_NEVER,
        description="When budget periods begin, such as @monthly, for `cron`; `usageDBConfig` sets "
        "it.",
        json_schema_extra=shard_setting("usageDBConfig.usageParams.cronString"),
    )

    @field_validator("eviction_cost", "half_life_period", "window_size", mode="before")
    @classmethod
    def _is_duration(cls, value: object) -> str:
        _said(parse_duration, value)
        return str(value)

    @field_validator("tumbling_window_start_time", mode="before")
    @classmethod
    def _is_time(cls, value: object) -> str:
        if value != _NEVER:
            try:
                _seconds_of(str(value))
            except ValueError:
                raise ValueError('no RFC 3339 time; write it like "2026-07-01T00:00:00Z"') from None
        return str(value)

    @field_validator("cron_string", mode="before")
    @classmethod
    def _is_cron(cls, value: object) -> str:
        if value != _NEVER:
            _said(parse_cron, value)
        return str(value)

    @model_validator(mode="after")
    def _has_a_period(self) -> TimeBasedFairshareArguments:
        if self.hand_over != "none" and not parse_duration(self.window_size):
            raise ValueError("handOver needs a windowSize above 0")
        begins = {"tumbling": self.tumbling_window_start_time, "cron": self.cron_string}
        if self.hand_over == "budgets":
            if begins.get(self.window_type, _NEVER) == _NEVER:
                raise ValueError(
                    "budgets need a window that ends: windowType: cron with a cronString such as"
                    " @monthly, or tumbling with a tumblingWindowStartTime"
                )
            if parse_duration(self.half_life_period):
                raise ValueError("a budget counts every hour alike: drop halfLifePeriod")
        return self

    def history_s(self, now_s: float) -> float:
        """Return for how long a full history reaches back, in seconds, old usage counting less."""
        half_life_s, window_s = parse_duration(self.half_life_period), self._window_s(now_s)
        return min(half_life_s * _LIVES, window_s) if half_life_s else window_s

    def turns_s(self, now_s: float) -> float:
        """Return over how long turns are evened out, in seconds: a week at least.

        Jobs may be longer than a short history, which then knows of the last one only.
        """
        return max(self.history_s(now_s), _LEAST_TURNS_S)

    def cost_s(self, now_s: float) -> float:
        """Return for how long what is evicted is taken to have run."""
        return min(parse_duration(self.eviction_cost), self.most_cost_s(now_s))

    def most_cost_s(self, now_s: float) -> float:
        """Return the longest such time, a part of the history: no debt may reach more."""
        return self._part(self.history_s(now_s))

    def turn_cost_s(self, now_s: float) -> float:
        """Return such a time for a turn: a short history never tells of so much debt."""
        return self._part(self.turns_s(now_s))

    def _part(self, history_s: float) -> float:
        return history_s / (_PARTS_OF_HISTORY * (1.0 + self.k_value))

    def seen(self, now_s: float, weighed_s: float) -> float:
        """Return the part of the budget period of which usage tells; NaN without budgets.

        That is what has passed of it, 0 to 1, or since the first sample, ``weighed_s`` ago.
        """
        if self.hand_over != "budgets":
            return math.nan
        return min(now_s - self._begin_s(now_s), weighed_s) / self._window_s(now_s)

    def left(self, now_s: float) -> float:
        """Return the part of the budget period that is to come, 0 to 1; NaN without budgets."""
        if self.hand_over != "budgets":
            return math.nan
        return 1.0 - (now_s - self._begin_s(now_s)) / self._window_s(now_s)

    @cached_property
    def _cron(self) -> Cron:
        return parse_cron(self.cron_string)

    def _begin_s(self, now_s: float) -> float:
        """Return when the budget period began."""
        if self.window_type == "cron":
            return self._cron.before(now_s)
        begin_s = _seconds_of(self.tumbling_window_start_time)
        return now_s - (now_s - begin_s) % parse_duration(self.window_size)

    def _window_s(self, now_s: float) -> float:
        """Return how long the window is from its begin to its end: calendar months differ."""
        if self.window_type == "cron" and self.cron_string != _NEVER:
            return self._cron.after(now_s) - self._cron.before(now_s)
        return parse_duration(self.window_size)


def _said(parse: Callable[[object], object], value: object) -> None:
    """Raise ValueError, with the fix, unless a value can be parsed."""
    try:
        parse(value)
    except ValueError as error:
        fix = getattr(error, "fix", "")
        raise ValueError(f"{error}; {fix}" if fix else str(error)) from None


def _seconds_of(text: str) -> float:
    """Return a time as seconds since 1970; without a zone it is UTC."""
    time = datetime.fromisoformat(text)
    return (time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp()
