"""Samples of what queues held at the end of a cycle."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kaisched.core.axis import IntVec


class Sample(NamedTuple):
    """Amounts ``(Q,)`` of one resource at the end of a cycle."""

    time_s: float
    resource: str
    """GPUs where there are any, else CPU."""
    queues: Sequence[str]
    fair: IntVec
    held: IntVec
    usage: IntVec | None
    """In parts of the capacity, as :class:`kaisched.core.usage.Usage` has it."""
