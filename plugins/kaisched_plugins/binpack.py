"""Binpack: scores nodes by free amounts, the fullest first, or the emptiest."""
# ruff: noqa: ARG002 - a question's arguments are the same for all who answer it

from __future__ import annotations

from typing import Literal

import numpy as np
from pydantic import Field

from kaisched import (
    CPU,
    GPU,
    Amounts,
    Arguments,
    BoolVec,
    FloatVec,
    IntVec,
    Plugin,
    RowVec,
    Session,
    hookimpl,
    shard_setting,
)

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


_NODES = 0
"""The level of ``spreads_shares`` that is nodes."""


class Binpack(Plugin):
    """Fills nodes before opening new ones, or spreads.

    Free amounts are idle or being released: GPUs for pods with GPUs, CPU for other pods.
    """

    name = "binpack"
    default_weight = 9.0

    Arguments = BinpackArguments

    def __init__(self, arguments: BinpackArguments) -> None:
        """Promise rising scores unless a strategy spreads."""
        super().__init__(arguments)
        self.is_score_rising = arguments.gpu == arguments.cpu == "binpack"

    @hookimpl
    def session_open(self, session: Session) -> object:
        """Return an empty state for the divisors, which are computed on first use."""
        return {}

    @hookimpl
    def spreads_shares(self, session: Session, level: IntVec) -> BoolVec | None:
        """Answer that shares are spread over nodes if pods with GPUs are."""
        return level == _NODES if self.arguments.gpu == "spread" else None

    @hookimpl
    def node_score(
        self, session: Session, shape: int, rows: RowVec, extra: IntVec
    ) -> FloatVec | None:
        """Answer how little is free (binpack), or how much of the node is free (spread).

        One divisor for all nodes orders nodes by absolute free amounts, as KAI does, and still
        scores each row independently.
        """
        request = session.shapes.request[:, shape]
        resource = _packed_by(session, request)
        nodes = session.nodes
        free = session.free(resource, rows) - extra * request[resource]
        offered = nodes.allocatable[resource].take(rows)
        if (self.arguments.cpu if resource == CPU else self.arguments.gpu) == "spread":
            spread: FloatVec = np.clip(free / np.maximum(offered, 1), 0.0, 1.0)
            return spread
        largest: dict[int, int] = session.state[self.name]
        divisor = largest.get(resource)
        if divisor is None:
            divisor = largest[resource] = max(1, int(nodes.allocatable[resource].max(initial=0)))
        score: FloatVec = 1.0 - free / divisor
        np.maximum(score, 0.0, out=score)  # a quarter of the time of clip()
        np.minimum(score, 1.0, out=score)
        score *= offered > 0
        return score


def _packed_by(session: Session, request: Amounts) -> int:
    """Return the resource by which pods are packed: GPUs, instances of a MIG profile, or CPU."""
    if request[GPU] > 0:
        return GPU
    part = session.axis.gpu_part
    if part is None:
        return CPU
    gpus = request * part
    return int(gpus.argmax()) if gpus.any() else CPU
