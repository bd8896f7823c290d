"""The arguments of proportion."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from kaisched import Arguments, shard_setting


class ProportionArguments(Arguments):
    """How the fairness engine behaves; the weights themselves are the shard's and the queues'."""

    reclaimer_utilization_multiplier: float = Field(
        default=1.0,
        ge=1.0,
        le=1000.0,
        allow_inf_nan=False,
        description="Damps reclaim: a reclaimer counts as this much more saturated than it is, and "
        "a queue loses only what exceeds its share by this factor. Counted in thousandths.",
    )
    quota_scope: Literal["project", "pool"] = Field(
        default="project",
        description="What non-preemptible work must be within: the quota in its pool and the sum "
        "of its project's quotas over all pools, or the quota in its pool alone.",
        json_schema_extra=shard_setting("quotaScope"),
    )
    k_value: float = Field(
        default=1.0,
        ge=0.0,
        allow_inf_nan=False,
        description="How strongly past usage counts against a queue; read by time-based fairness.",
        json_schema_extra=shard_setting("kValue"),
    )
