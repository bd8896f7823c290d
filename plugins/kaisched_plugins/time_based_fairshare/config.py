"""The arguments of time-based-fairshare."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from kaisched import Arguments

Normalization = Literal["siblings", "cluster"]


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
