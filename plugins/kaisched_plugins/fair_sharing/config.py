"""The arguments of fair-sharing."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, field_validator

from kaisched import Arguments
from kaisched_plugins.fair_sharing.targets import FINAL, INITIAL

Strategy = Literal["LessThanOrEqualToFinalShare", "LessThanInitialShare"]
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

    @field_validator("preemption_strategies")
    @classmethod
    def _known(cls, strategies: tuple[Strategy, ...]) -> tuple[Strategy, ...]:
        if strategies not in _ALLOWED:
            raise ValueError(f"write one of them, or [{FINAL}, {INITIAL}]")
        return strategies
