"""Segments: pods of a subgroup in parts of one size, by their index."""

from __future__ import annotations

from typing import Final, Literal

from msgspec.structs import replace

from kaisched.errors import ObjectError
from kaisched.objects.podgroup import SubGroupSpec, TopologyConstraint
from kaisched.objects.wire import StrictWire

MOST_SUBGROUPS: Final = 10_000
"""Most subgroups of a workload; KAI-Scheduler's bound of segments."""
LEADER: Final = "leader"
"""Name of the subgroup of a pod that leads others and is in none of their segments."""


class Segments(StrictWire, frozen=True, kw_only=True):
    """How the pods of a subgroup are divided."""

    size: int
    pods: int
    """How many pods there are, the one that leads them included."""
    minimum: int
    """How many of them must start together."""
    leader: Literal["", "inside", "outside"] = ""
    """Whether the first pod leads the others: in their first segment, or in none."""
    topology: TopologyConstraint | None = None
    """Of each segment."""

    @property
    def first(self) -> int:
        """The index of the first pod by which segments are counted.

        A leader is beside the first segment if without it all segments are equal.
        """
        is_beside = self.leader and (self.pods - 1) % self.size == 0
        return 1 if self.leader == "outside" or is_beside else 0

    @property
    def count(self) -> int:
        """How many segments there are."""
        least = 0 if self.leader == "outside" else 1
        return max(-(-(self.pods - self.first) // self.size), least)


def resized(segments: Segments, pods: int) -> Segments:
    """Return the segments of so many pods, all of which must start together.

    Raises:
        ObjectError: beside the leader they are no whole number of segments, and have to be; or
            they are too many segments.

    """
    found = replace(segments, pods=pods, minimum=pods)
    if segments.leader == "outside" and (pods - 1) % segments.size:
        what = f"{pods - 1} pods without their leader are no segments of {segments.size}"
        raise ObjectError(what, fix="write a size that divides them, or include the leader")
    if found.count > MOST_SUBGROUPS:
        what = f"{pods} pods are {found.count} segments of {segments.size}"
        raise ObjectError(what, fix=f"write a larger size: {MOST_SUBGROUPS} are the most")
    return found


def segment_of(segments: Segments, name: str, index: int) -> str:
    """Return the subgroup of the pod with an index; ``name`` is that of all segments."""
    if segments.leader == "outside" and index == 0:
        return LEADER
    return f"{name}/{max(index - segments.first, 0) // segments.size}"


def parts_of(segments: Segments, name: str) -> list[SubGroupSpec]:
    """Return the subgroups: one with all segments, and maybe one of a leader.

    Segments that the minimum reaches into are needed whole, and no pod of those after them.
    """
    size, first, is_outside = segments.size, segments.first, segments.leader == "outside"
    reached = segments.minimum - first
    if not is_outside:
        reached = max(reached, min(segments.minimum, 1))
    needed = -(-reached // size)
    parts = [SubGroupSpec(name=LEADER, min_member=1)] if is_outside else []
    if segments.count:
        parts.append(SubGroupSpec(name=name))
    for at in range(segments.count):
        pods = min(size, segments.pods - first - at * size)
        if at == 0 and not is_outside:
            pods += first
        least = pods if at < needed else 0
        parts.append(
            SubGroupSpec(
                name=f"{name}/{at}",
                parent=name,
                min_member=least,
                topology_constraint=segments.topology,
            )
        )
    return parts
