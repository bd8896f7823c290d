"""Topology constraints of workloads, as the tables have them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kaisched.core.tables import SubGroup, TopologyConstraint
from kaisched.objects import labels

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kaisched.objects import podgroup
    from kaisched.objects.wire import ObjectMeta


def constraint_of(wish: podgroup.TopologyConstraint | None) -> TopologyConstraint | None:
    """Return a constraint as the tables have it; None for one that asks for nothing."""
    if wish is None or not (wish.required_topology_level or wish.preferred_topology_level):
        return None
    return TopologyConstraint(
        wish.topology, wish.required_topology_level, wish.preferred_topology_level
    )


def constraint_in(metas: Iterable[ObjectMeta]) -> TopologyConstraint | None:
    """Return the constraint of the first of some owners, or their pod, whose annotations say it."""
    found = (constraint_of(labels.topology_constraint_of(meta)) for meta in metas)
    return next((it for it in found if it is not None), None)


def bound(
    tree: SubGroup | None, podset: str, constraint: TopologyConstraint | None
) -> SubGroup | None:
    """Return a job's tree with the constraint of the whole job at its root.

    ``podset`` names the only pod set of a job without a tree.
    """
    if constraint is None:
        return tree
    if tree is None:
        return SubGroup(podset, 0, 0, topology=constraint)
    return SubGroup(tree.name, tree.podset, tree.min_subgroup, tree.children, constraint)
