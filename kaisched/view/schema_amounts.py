"""Shapes of amounts in the live view's documents: by resource, and of projects over node pools."""

from __future__ import annotations

from typing import Annotated, TypeAlias

from msgspec import Meta, Struct

Amounts: TypeAlias = Annotated[
    dict[str, float | None],
    Meta(
        description="By resource: `gpu` in GPUs, `cpu` in cores, `memory` in bytes, others in"
        " pieces; null is unlimited."
    ),
]


class Doc(Struct, rename="camel", forbid_unknown_fields=True, kw_only=True):
    """A JSON object with exactly these fields."""


class Totals(Doc):
    """Amounts of one queue, or of several."""

    fair_share: Amounts
    allocated: Amounts
    requested: Amounts
    deserved: Amounts


class PoolPart(Totals):
    """What a project has in one node pool."""

    node_pool: Annotated[str, Meta(description="`default` for nodes without the label.")]
    shard: str
    queue: Annotated[str, Meta(description="Its queue there.")]


class Project(Totals):
    """Sums over the node pools whose shards this process leads, of the last cycle of each."""

    name: str
    pools: list[PoolPart]
