"""The arguments of time-based-fairshare."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, field_validator

from kaisched import Arguments, parse_duration

Normalization = Literal["siblings", "cluster"]
HandOver = Literal["none", "spells"]

_LIVES = 1.4426950408889634
"""1 / ln 2: all that a history of half-lives weighs is so many of them."""


class TimeBasedFairshareArguments(Arguments):
    """How past usage is measured, and how strongly it counts."""

    k_value: float = Field(
        default=1.0,
        ge=0.0,
        le=1e6,
        allow_inf_nan=False,
        description="How strongly past usage counts against a queue; 0 looks at the present only. "
        "A shard's `kValue` sets it.",
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
    hand_over: HandOver = Field(
        default="none",
        description="Whether queues with jobs that cannot be divided have the surplus by spells.",
    )
    half_life_period: str = Field(
        default="0s",
        description="Half-life of the history, 0 for none; from `usageDBConfig` unless said here. "
        "Only spells need it.",
    )
    window_size: str = Field(
        default="1w",
        description="Length of the history; from `usageDBConfig` unless said here. Only spells "
        "need it.",
    )

    @field_validator("half_life_period", "window_size", mode="before")
    @classmethod
    def _is_duration(cls, value: object) -> str:
        try:
            parse_duration(value)
        except ValueError as error:
            fix = getattr(error, "fix", "")
            raise ValueError(f"{error}; {fix}" if fix else str(error)) from None
        return str(value)

    @property
    def history_s(self) -> float:
        """Return for how long the history reaches back, in seconds, old usage counting less."""
        half_life_s, window_s = map(parse_duration, (self.half_life_period, self.window_size))
        return min(half_life_s * _LIVES, window_s) if half_life_s else window_s
