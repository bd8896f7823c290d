"""Shapes of the documents about what was before: cycles, courses of queues, and frames."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from kaisched.view.schema import Document, Listed, Time
from kaisched.view.schema_amounts import Doc


class Cycle(Doc):
    """A cycle."""

    cycle: int
    time: Time | None
    duration_seconds: float
    actions: Annotated[dict[str, float], Meta(description="Seconds by action, in order.")]
    plugins: Annotated[dict[str, float], Meta(description="Seconds by plugin.")]
    pending: Annotated[int, Meta(description="Jobs that stayed pending.")]
    binds: int
    evictions: int
    nominations: int


class Cycles(Document):
    """The last 300 cycles, the latest first."""

    cycles: list[Cycle]


class Course(Doc):
    """What a queue held over time; null where it was not there, or no usage was known."""

    name: str
    parent: str | None
    fair_share: list[float | None]
    allocated: list[float | None]
    usage: Annotated[
        list[float | None], Meta(description="Decayed usage, as a part of the capacity.")
    ]


class Fairness(Listed):
    """What queues held over time beside their fair shares, since the process began."""

    resource: Annotated[str, Meta(description="`gpu` where there are any, else `cpu`.")]
    times: Annotated[
        list[Time | None],
        Meta(description="Of up to 240 samples: the longer the time, the further apart."),
    ]
    queues: list[Course]


class Frame(Doc):
    """A cycle whose view is kept."""

    cycle: int
    time: Time | None


class Frames(Document):
    """Earlier cycles that `at` may name, the earliest first; of a simulation only."""

    frames: list[Frame]
