"""What may move off a node, and what clearing a node takes."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from kaisched.framework.session.units import Unit


class Item(NamedTuple):
    """Pods that may move off a node: an elastic pod, or pods that need each other."""

    place: int
    """The item's place in the order of victims; the lowest goes first."""
    unit: Unit
    """All pods that move together, on this node and on others."""
    amounts: list[int]
    """What the item frees on the node, by resource."""
    moved: list[int]
    """What all pods of the unit hold, by resource."""


class Clearing(NamedTuple):
    """The items that would leave a node, and their cost."""

    cost: tuple[int, int]
    """Pods that move, off this node and others, and how much they hold of the main resource."""
    place: int
    """The highest place in the order of victims among the pods that move."""
    node: int
    items: tuple[Item, ...]
    pods: int = 1
    """For how many more pods it makes room."""


def fewest_items(items: list[Item], missing: list[tuple[int, int]]) -> list[Item] | None:
    """Return the items that have to leave, the largest first; None if all are too few."""
    most = max((at for at, lack in missing if lack > 0), default=0)
    chosen: list[Item] = []

    def is_enough(some: list[Item]) -> bool:
        return all(sum(item.amounts[at] for item in some) >= lack for at, lack in missing)

    for item in sorted(items, key=lambda item: (len(item.unit.tasks), -item.amounts[most], item)):
        if is_enough(chosen):
            break
        chosen.append(item)
    if not is_enough(chosen):
        return None
    for item in chosen.copy():
        rest = [each for each in chosen if each is not item]
        if is_enough(rest):
            chosen = rest
    return chosen
