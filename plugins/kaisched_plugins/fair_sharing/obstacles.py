"""What is in the way of a flavor: of several reasons why a job gets none, the one to tell."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import IntEnum
from typing import Final, TypeAlias

from kaisched_plugins.fair_sharing import refusals
from kaisched_plugins.fair_sharing.flavors import Hindrance


class Obstacle(IntEnum):
    """What is in the way of a flavor, the mildest first."""

    WAITING = 0
    """Other work holds the quota."""
    TOO_LARGE = 1
    """The request is larger than all that the queue could ever have."""
    NO_NODES = 2
    """No node has the labels of the flavor."""
    NO_MATCH = 3
    """The pods do not select its nodes, or the queue offers no flavor at all."""


Obstacles: TypeAlias = Mapping[int, Obstacle]
"""By flavor, in the order of the queue's list."""

_CODES: Final = {
    Obstacle.WAITING: refusals.NO_ROOM,
    Obstacle.TOO_LARGE: refusals.TOO_LARGE,
    Obstacle.NO_NODES: refusals.NO_NODES,
    Obstacle.NO_MATCH: refusals.NO_FLAVOR,
}


def obstacle_of(hindrance: Hindrance | None, *, is_present: bool) -> Obstacle:
    """Return what is in the way of a flavor that the pods select."""
    if not is_present:
        return Obstacle.NO_NODES
    return Obstacle.TOO_LARGE if hindrance == Hindrance.TOO_LARGE else Obstacle.WAITING


def code_of(groups: Sequence[Obstacles]) -> int:
    """Return the refusal: of a group's flavors the mildest obstacle counts, of groups the worst.

    Without any obstacle there are flavors of all groups, but no node is of all of them.
    """
    worst = max((min(each.values(), default=Obstacle.NO_MATCH) for each in groups), default=None)
    return int(refusals.NO_NODES if worst is None else _CODES[worst])
