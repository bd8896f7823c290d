"""The arguments of binpack, which a shard's ``placementStrategy`` sets."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from kaisched import Arguments, shard_setting

Strategy = Literal["binpack", "spread"]


class BinpackArguments(Arguments):
    """How full a node should be before the next one is taken."""

    gpu: Strategy = Field(
        default="binpack",
        description="For pods with GPUs: by free GPUs.",
        json_schema_extra=shard_setting("placementStrategy.gpu"),
    )
    cpu: Strategy = Field(
        default="binpack",
        description="For pods without: by free CPU.",
        json_schema_extra=shard_setting("placementStrategy.cpu"),
    )
