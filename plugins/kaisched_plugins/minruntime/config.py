"""The arguments of minruntime."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, field_validator

from kaisched import Arguments, parse_duration, shard_setting

Method = Literal["lca", "queue"]


class MinRuntimeArguments(Arguments):
    """Defaults for queues without a minimum; a shard's ``minRuntime`` sets the first two."""

    default_reclaim_min_runtime: str = Field(
        default="0s",
        description="How long a job is safe from reclaim where no queue says so.",
        json_schema_extra=shard_setting("minRuntime.reclaimMinRuntime"),
    )
    default_preempt_min_runtime: str = Field(
        default="0s",
        description="How long a job is safe from preempt where no queue says so.",
        json_schema_extra=shard_setting("minRuntime.preemptMinRuntime"),
    )
    reclaim_resolve_method: Method = Field(
        default="lca",
        description="Whose value counts for reclaim: the branch that is taken from, or the leaf.",
    )

    @field_validator("default_reclaim_min_runtime", "default_preempt_min_runtime", mode="before")
    @classmethod
    def _is_duration(cls, value: object) -> str:
        try:
            parse_duration(value)
        except ValueError as error:
            fix = getattr(error, "fix", "")
            raise ValueError(f"{error}; {fix}" if fix else str(error)) from None
        return str(value)
