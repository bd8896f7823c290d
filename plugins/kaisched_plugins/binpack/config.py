"""The arguments of binpack, as a shard's ``placementStrategy`` says them."""

from __future__ import annotations

from typing import Literal

from kaisched import Arguments

Strategy = Literal["binpack", "spread"]


class BinpackArguments(Arguments):
    """How full a node should be before the next one is taken."""

    gpu: Strategy = "binpack"
    """For pods that ask for GPUs: decided by free GPUs."""
    cpu: Strategy = "binpack"
    """For pods that ask for none: decided by free CPU."""
