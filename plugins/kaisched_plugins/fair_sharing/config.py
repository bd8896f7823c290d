"""The arguments of fair-sharing."""

from __future__ import annotations

from functools import cached_property
from typing import Literal

from pydantic import Field, field_validator

from kaisched import Arguments, parse_duration, shard_setting
from kaisched_plugins.fair_sharing.targets import FINAL, INITIAL

Strategy = Literal["LessThanOrEqualToFinalShare", "LessThanInitialShare"]
_MOST_WEIGHT = 1e9
_WEEK_S = 7 * 24 * 3600.0
_ALLOWED = ((FINAL,), (INITIAL,), (FINAL, INITIAL))


class FairSharingArguments(Arguments):
    """How borrowed room is taken back; quotas, limits and weights are the queues'."""

    preemption_strategies: tuple[Strategy, ...] = Field(
        default=(FINAL, INITIAL),
        description="What entitles to work of another queue: the first, and in a second search the "
        "second. LessThanOrEqualToFinalShare, LessThanInitialShare, or both in this order.",
    )
    high_priority_from: int | None = Field(
        default=None,
        description="Jobs of this priority or a higher one overrule fair sharing: they come first, "
        "and take the least important work below it that borrows, whatever the shares are.",
    )
    is_classical: bool = Field(
        default=False,
        description="Share fairly in no tree, as if every top-level queue said "
        "`fairSharing.enabled: false`.",
    )
    is_compatible: bool = Field(
        default=False,
        description="Decide as Kueue does: evict also what would come first again, and of equal "
        "priorities the newest first, whatever its size.",
    )
    resource_weights: dict[str, float] = Field(
        default={},
        description="How much of the past usage of a queue each resource is, by name (`cpu`, "
        "`memory`, `gpu` or an extended resource); 1 for those left out. For queues with "
        "`admissionScope`.",
    )
    usage_sampling_interval: str = Field(
        default="5m",
        description="What starts in a queue below one with `admissionScope` counts at once as if "
        "it had run for so long.",
    )
    half_life_period: str = Field(
        default="0s",
        description="Half-life of the history, 0 for none; `usageDBConfig` sets it.",
        json_schema_extra=shard_setting("usageDBConfig.usageParams.halfLifePeriod"),
    )
    window_size: str = Field(
        default="1w",
        description="Length of the history; `usageDBConfig` sets it.",
        json_schema_extra=shard_setting("usageDBConfig.usageParams.windowSize"),
    )

    @field_validator("preemption_strategies")
    @classmethod
    def _known(cls, strategies: tuple[Strategy, ...]) -> tuple[Strategy, ...]:
        if strategies not in _ALLOWED:
            raise ValueError(f"write one of them, or [{FINAL}, {INITIAL}]")
        return strategies

    @field_validator("resource_weights")
    @classmethod
    def _are_weights(cls, weights: dict[str, float]) -> dict[str, float]:
        for name, weight in weights.items():
            if not 0 <= weight <= _MOST_WEIGHT:
                raise ValueError(f"{name}: write a number from 0 to {_MOST_WEIGHT:g}")
        return weights

    @field_validator("usage_sampling_interval", "half_life_period", "window_size", mode="before")
    @classmethod
    def _is_duration(cls, value: object) -> str:
        try:
            parse_duration(value)
        except ValueError as error:
            fix = getattr(error, "fix", "")
            raise ValueError(f"{error}; {fix}" if fix else str(error)) from None
        return str(value)

    @cached_property
    def half_life_s(self) -> float:
        """Return the half-life of the history in seconds, 0 for none."""
        return parse_duration(self.half_life_period)

    @cached_property
    def window_s(self) -> float:
        """Return the length of the history in seconds."""
        return parse_duration(self.window_size) or _WEEK_S

    @cached_property
    def counted_s(self) -> float:
        """Return for how many seconds what just started is taken to have run."""
        return parse_duration(self.usage_sampling_interval)

    def weight_of(self, resource: str) -> float:
        """Return the weight of a resource in the usage of a queue."""
        return self.resource_weights.get(resource, 1.0)
