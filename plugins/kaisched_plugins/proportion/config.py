"""The arguments of proportion."""

from __future__ import annotations

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
    k_value: float = Field(
        default=1.0,
        ge=0.0,
        allow_inf_nan=False,
        description="How strongly past usage counts against a queue; read by time-based fairness.",
        json_schema_extra=shard_setting("kValue"),
    )
