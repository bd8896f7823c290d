"""Topology constraints of workloads, as the tables have them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from kaisched.core.tables import SubGroup, TopologyConstraint
from kaisched.objects import labels
from kaisched.objects.workloads import pod_set_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from kaisched.objects import wire
    from kaisched.objects.wire import ObjectMeta
    from kaisched.objects.workloads import PodSetTopology


def constraint_of(wish: wire.TopologyConstraint | None) -> TopologyConstraint | None:
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


def pod_set_in(metas: Iterable[ObjectMeta]) -> TopologyConstraint | None:
    """Return what Kueue's annotations of the first of some owners, or their pod, ask for.

    Raises:
        ObjectError: they make no sense.

    """
    wishes = (pod_set_of(meta.annotations) for meta in metas if meta.annotations)
    wish = next((it for it in wishes if it is not None), None)
    return None if wish is None else of_pod_set(wish)


def of_pod_set(wish: PodSetTopology) -> TopologyConstraint:
    """Return what a pod set asks for as the tables have it."""
    slices = tuple(wish.slices)
    return TopologyConstraint("", wish.required, wish.preferred, slices, is_pod_set=True)


def with_patience(tree: SubGroup | None, metas: Iterable[ObjectMeta]) -> SubGroup | None:
    """Return a job's tree with its patience for the level that the whole job prefers.

    Raises:
        ObjectError: the first of the objects that says how long makes no sense.

    """
    said = (labels.topology_patience_of(meta) for meta in metas if meta.annotations)
    patience_s = next((it for it in said if it is not None), 0.0)
    wish = None if tree is None else tree.topology
    if not patience_s or tree is None or wish is None or not wish.preferred:
        return tree
    return replace(tree, topology=wish._replace(patience_s=patience_s))


def with_pod_sets(
    tree: SubGroup | None, podset: str, wishes: Mapping[str, PodSetTopology]
) -> SubGroup | None:
    """Return a job's tree with what its top-level subgroups ask for by Kueue's annotations.

    Subgroups of one group of pod sets are put into a subgroup of their own. ``podset`` names the
    only pod set of a job without a tree.
    """
    if not wishes:
        return tree
    if tree is None:
        return bound(None, podset, of_pod_set(next(iter(wishes.values()))))
    children: dict[str, list[SubGroup]] = {}
    for child in tree.children:
        wish = wishes.get(child.name)
        is_grouped = wish is not None and wish.group
        if wish is not None and not is_grouped:
            child = replace(child, topology=of_pod_set(wish))  # noqa: PLW2901
        key = f"{wish.group} (group)" if wish is not None and is_grouped else child.name
        children.setdefault(key, []).append(child)
    parts = [_together(name, some, wishes) for name, some in children.items()]
    needed = min(tree.min_subgroup, len(parts))
    return replace(tree, children=tuple(parts), min_subgroup=needed)


def _together(name: str, some: list[SubGroup], wishes: Mapping[str, PodSetTopology]) -> SubGroup:
    """Return one subgroup of some of one group; the pod set with most layers speaks for it."""
    wish = max((wishes[it.name] for it in some if it.name in wishes), key=_said, default=None)
    if wish is None or not wish.group:
        return some[0]
    if len(some) == 1:
        return replace(some[0], topology=of_pod_set(wish))
    return SubGroup(name, -1, len(some), tuple(some), of_pod_set(wish))


def _said(wish: PodSetTopology) -> int:
    return len(wish.slices)


def around(tree: SubGroup | None, podset: str, node_label: str) -> SubGroup | None:
    """Return a job's tree with all its pods on nodes with one value of a label.

    What the root asks for already counts inside of it. ``podset`` names the only pod set of a job
    without a tree; an empty label changes nothing.
    """
    if not node_label:
        return tree
    if tree is not None and tree.topology is not None:
        tree = SubGroup("", -1, 1, (tree,))
    return bound(tree, podset, TopologyConstraint("", node_label, is_label=True))


def bound(
    tree: SubGroup | None, podset: str, constraint: TopologyConstraint | None
) -> SubGroup | None:
    """Return a job's tree with the constraint of the whole job at its root.

    That of its only subgroup counts inside of it, but not what Kueue's annotations say. ``podset``
    names the only pod set of a job without a tree.
    """
    if constraint is None:
        return tree
    if tree is None:
        return SubGroup(podset, 0, 0, topology=constraint)
    if tree.topology is not None and not tree.topology.is_pod_set:
        return SubGroup("", -1, 1, (tree,), constraint)
    return SubGroup(tree.name, tree.podset, tree.min_subgroup, tree.children, constraint)
