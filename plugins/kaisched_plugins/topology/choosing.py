"""Chooses domains: which have room, in which order they are tried, and how they are filled.

Rules C1 to C4 and P1 to P4 of docs/explanation/topology.md.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import numpy as np

from kaisched import BoolVec, IntVec, NodeSet, RowVec
from kaisched_plugins.topology.demands import Demand, Pins
from kaisched_plugins.topology.domains import Tree
from kaisched_plugins.topology.least import Racks, fewest_racks

Shapes = Sequence[tuple[int, int]]
MOST_PODS: Final = 1 << 20
"""So many pods on one node are as good as any number."""
LAST: Final = 1 << 40
"""The rank of nodes outside of all domains that are filled in order."""


class Chooser:
    """The choices for batches of these shapes on these rooms."""

    def __init__(
        self, demand: Demand, shapes: Shapes, room_of: Callable[[int], IntVec], pins: Pins
    ) -> None:
        """Count the capacity of every domain."""
        self._demand = demand
        self.tree = demand.tree
        self.preferred = demand.preferred
        self.room_of = room_of
        self.shapes = shapes
        self.pods = sum(count for _, count in shapes)
        self.is_uniform = len(shapes) == 1
        self._pins = pins
        self.capacity = capacities(demand.tree, shapes, room_of)
        """By level, ``(D,)`` how many of the pods fit."""

    def able(self, level: int) -> BoolVec:
        """``(D,)`` the domains of a level with room for all (C1, P1)."""
        able: BoolVec = self.capacity[level] >= self.pods
        if self._pins.held.size:
            able &= self.allowed(level)
        return able

    def fits(self, level: int) -> IntVec:
        """``(D,)`` how many of the pods fit, those of each kind counted as if they were alone."""
        found = np.zeros(len(self.tree.parent[level]), np.int64)
        for shape, count in self.shapes:
            room = self.tree.sums(np.minimum(self.room_of(shape), MOST_PODS))[level]
            found += np.minimum(room, count)
        return found

    def ordered(self, level: int, able: BoolVec) -> RowVec:
        """Return some domains of a level, the best first (C2, P2, P4)."""
        domains = able.nonzero()[0]
        keys: list[IntVec] = [domains]
        above = domains
        for at in range(level, -1, -1):
            capacity = self.capacity[at][above]
            if at < level:
                keys.append(above)
            keys.append(capacity)
            above = self.tree.parent[at][above]
        if self._pins.held.size:
            keys.append(-self._nearness(level, domains))
        if self._pins.promised.size:
            keys.append(~np.isin(domains, self._domains(level, self._pins.promised)) + 0)
        found: RowVec = domains[np.lexsort(keys)]
        return found

    def allowed(self, level: int) -> BoolVec:
        """``(D,)`` the domains that pods which run leave to others of a required level (P1)."""
        required, count = self._demand.required, len(self.tree.parent[level])
        held = self._domains(required, self._pins.held) if required >= 0 else self._pins.held[:0]
        if not held.size:
            return np.ones(count, np.bool_)
        above = np.arange(count)
        for at in range(level, required, -1):
            above = self.tree.parent[at][above]
        return np.isin(above, held)

    def order(self, level: int, domain: int) -> IntVec | None:
        """``(N,)`` in which order the preferred domains inside a domain are filled (C3).

        Level -1 stands for all nodes. None where there is nothing to choose.
        """
        lower = self._demand.preferred
        if lower <= level:
            return None
        ranked = self.ranked(level, domain)
        if not self._pins.held.size and (fixed := self._fewest(lower, ranked)) is not None:
            return fixed
        return self._rank_of_node(lower, ranked)

    def ranked(self, level: int, domain: int) -> RowVec:
        """Return the preferred domains inside a domain in the order in which they are filled."""
        inside = self.tree.below(level, domain, self.preferred)
        capacity = self.capacity[self.preferred]
        is_held = np.isin(inside, self._domains(self.preferred, self._pins.held))
        first = fill_order(inside[is_held], capacity, self.pods)
        left = max(0, self.pods - int(capacity[first].sum()))
        return np.concatenate((first, fill_order(inside[~is_held], capacity, left)))

    def _rank_of_node(self, level: int, ranked: RowVec) -> IntVec:
        """``(N,)`` the place of each node's domain among some domains, for all others LAST."""
        rank = np.full(len(self.tree.parent[level]) + 1, LAST)
        rank[ranked] = np.arange(len(ranked))
        of_node: IntVec = rank[self.tree.domain_of_node[level]]
        return of_node

    def _fewest(self, lower: int, ranked: RowVec) -> IntVec | None:
        """``(N,)`` another order, by domains one level down, if it takes fewer domains (C3)."""
        below = lower + 1
        if below >= len(self.tree.parent) or not self.is_uniform:
            return None
        around = self.tree.parent[below]
        racks = np.isin(around, ranked).nonzero()[0]
        hosts = self.tree.domain_of_node[below]
        if below == len(self.tree.parent) - 1 and hosts.size <= len(around):
            return None  # which hosts of a domain are taken, scores decide
        found = fewest_racks(
            Racks(racks, around[racks], self.capacity[below][racks]), ranked, self.pods
        )
        if found is None:
            return None
        rank = np.full(len(around) + 1, LAST)
        rank[racks] = len(found)
        rank[found] = np.arange(len(found))
        of_node: IntVec = rank[self.tree.domain_of_node[below]]
        return of_node

    def set_of(self, level: int, domain: int, *, peers: bool = False) -> NodeSet:
        """Return the nodes of a domain, to be filled in order."""
        tree, order = self.tree, self.order(level, domain)
        key = level, domain, peers, self.is_uniform
        if order is None and key in tree.sets:
            return tree.sets[key]
        found = NodeSet(
            tree.name(level, domain),
            tree.mask(level, domain),
            order=order,
            neighbours=tree.domain_of_node[-1],
            peers=f"{self._demand.constraint.topology}/{level}" if peers else "",
            reorders=not self.is_uniform,
        )
        if order is None:
            tree.sets[key] = found
        return found

    def set_of_few(self, domains: RowVec) -> NodeSet:
        """Return the nodes of some preferred domains, to be filled in this order."""
        tree, order = self.tree, self._rank_of_node(self.preferred, domains)
        names = ", ".join(tree.name(self.preferred, it) for it in domains.tolist())
        near = tree.domain_of_node[-1]
        reorders = not self.is_uniform
        return NodeSet(names, order < LAST, order=order, neighbours=near, reorders=reorders)

    def _domains(self, level: int, nodes: RowVec) -> RowVec:
        found = self.tree.domain_of_node[level][nodes]
        return np.unique(found[found >= 0])

    def _nearness(self, level: int, domains: RowVec) -> IntVec:
        """Return how many levels down domains hold pods of the batch's group, or an ancestor."""
        near = np.zeros(len(domains), np.int64)
        above = domains
        for at in range(level, -1, -1):
            held = np.isin(above, self._domains(at, self._pins.held))
            near = np.maximum(near, held * (at + 1))
            above = self.tree.parent[at][above]
        return near


def capacities(tree: Tree, shapes: Shapes, room_of: Callable[[int], IntVec]) -> list[IntVec]:
    """Return, by level, how many pods of a batch fit in each domain (D3).

    Of several shapes the scarcest counts, as a part of its own number.
    """
    pods = sum(count for _, count in shapes)
    found: list[IntVec] | None = None
    for shape, count in shapes:
        sums = tree.sums(np.minimum(room_of(shape), MOST_PODS))
        sums = sums if count == pods else [each * pods // count for each in sums]
        found = sums if found is None else list(map(np.minimum, found, sums))
    assert found is not None  # a batch has pods
    return found


def fill_order(domains: RowVec, capacity: IntVec, pods: int) -> RowVec:
    """Return domains in the order in which they are filled (C3): best fit last."""
    ranked = domains[np.lexsort((-domains, -capacity[domains]))]
    room = capacity[ranked]
    before = np.cumsum(room) - room
    ends = np.flatnonzero(room >= pods - before)
    if not ends.size or pods <= before[ends[0]]:
        return ranked
    at = int(ends[0])
    left = pods - before[at]
    fits = at + int(np.flatnonzero(room[at:] >= left)[-1])
    last = int(np.flatnonzero(room == room[fits])[0])
    last = max(last, at)
    return np.concatenate((ranked[:at], ranked[[last]], np.delete(ranked[at:], last - at)))
