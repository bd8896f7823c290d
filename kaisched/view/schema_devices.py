"""Documents of the live view about GPUs that are shared or divided."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from kaisched.view.schema_amounts import Doc


class InstanceHolder(Doc):
    """A job that has MIG instances of one profile."""

    pod_group: Annotated[str | None, Meta(description="Null for jobs that the reader may not see.")]
    queue: str | None
    instances: int
    ending: Annotated[bool, Meta(description="Whether its pods are being deleted.")]


class Instances(Doc):
    """MIG instances of one profile on a node."""

    resource: Annotated[str, Meta(description="Such as `nvidia.com/mig-1g.5gb`.")]
    part: Annotated[float, Meta(description="What each counts as, in GPUs.")]
    total: int
    free: int
    holders: list[InstanceHolder]


class Sharer(Doc):
    """A pod that has a part of a GPU."""

    pod_group: Annotated[str | None, Meta(description="Null for jobs that the reader may not see.")]
    queue: str | None
    part: Annotated[float, Meta(description="Of the GPU, 0 to 1.")]


class Card(Doc):
    """A GPU that pods share."""

    slot: Annotated[int, Meta(description="A name for it on its node, not the index of hardware.")]
    free: Annotated[float, Meta(description="The part of it that is left.")]
    holders: list[Sharer]
