"""Chooses domains: which have room, in which order they are tried, and how they are filled.

Rules C1 to C4 and P1 to P4 of docs/explanation/topology.md.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate, combinations, islice, pairwise
from typing import Final, NamedTuple

import numpy as np

from kaisched import Amounts, BoolVec, IntVec, LazyNodeSets, NodeSet, RowVec, Session
from kaisched_plugins.topology.demands import Demand, Pins, Tree

# Places equal pods on the fewest domains of two levels: blocks first, and of these racks (C3).


_NEVER: Final = -(1 << 60)
_MOST_CELLS: Final = 4_000_000
"""With more (rack, blocks, racks) than this, the greedy answer is kept."""


class Racks(NamedTuple):
    """The racks inside some blocks, with the pods that fit."""

    rack: RowVec
    block: RowVec
    """Of each rack."""
    room: IntVec


def fewest_racks(racks: Racks, filled: RowVec, pods: int) -> RowVec | None:
    """Return racks in which all pods fit, in the order in which they are filled.

    Blocks one after the other, in the order ``filled``, unless that needs more of either than
    there must be. None if there is too little room.
    """
    greedy = _greedy(racks, filled, pods)
    blocks, used = len(np.unique(racks.block[np.isin(racks.rack, greedy)])), len(greedy)
    least_blocks = _fewest([int(racks.room[racks.block == it].sum()) for it in filled], pods)
    least_racks = _fewest(racks.room.tolist(), pods)
    if not least_blocks:
        return None
    is_least = blocks <= least_blocks and used <= least_racks
    if is_least or len(racks.rack) * least_blocks * used > _MOST_CELLS:
        return greedy
    return _optimum(racks, np.unique(racks.block), least_blocks, used, pods)


def _fewest(free: list[int], pods: int) -> int:
    """Return how many domains are needed, those with most free first; 0 if all are too few."""
    for count, room in enumerate(sorted(free, reverse=True), 1):
        pods -= room
        if pods <= 0:
            return count
    return 0


def _greedy(racks: Racks, filled: RowVec, pods: int) -> RowVec:
    """Return the racks that are used if blocks are filled in order, the largest racks first."""
    chosen: list[RowVec] = []
    for block in filled.tolist():
        at = np.flatnonzero(racks.block == block)
        at = at[np.lexsort((-racks.rack[at], -racks.room[at]))]
        before = np.cumsum(racks.room[at]) - racks.room[at]
        chosen.append(racks.rack[at[(before < pods) & (racks.room[at] > 0)]])
        pods -= int(racks.room[at].sum())
        if pods <= 0:
            break
    return np.concatenate(chosen)


def _optimum(
    racks: Racks, blocks: RowVec, most_blocks: int, most_racks: int, pods: int
) -> RowVec | None:
    """Return the fewest racks of so many blocks.

    Block by block, the most pods that fit for each number of blocks and racks.
    """
    best = np.full((most_blocks + 1, most_racks + 1), _NEVER)
    best[0, 0] = 0
    steps: list[IntVec] = []
    inside: list[RowVec] = []
    for block in blocks.tolist():
        at = np.flatnonzero(racks.block == block)
        at = at[np.lexsort((-racks.rack[at], -racks.room[at]))]
        inside.append(racks.rack[at])
        sums = np.cumsum(racks.room[at])
        better, taken = best.copy(), np.zeros_like(best)
        for count in range(1, min(len(at), most_racks) + 1):
            offered = np.full_like(best, _NEVER)
            offered[1:, count:] = best[:-1, : most_racks + 1 - count] + sums[count - 1]
            wins = offered > better
            better, taken = np.where(wins, offered, better), np.where(wins, count, taken)
        best = better
        steps.append(taken)
    enough = np.argwhere(best >= pods)
    if not enough.size:
        return None
    blocks_left, racks_left = enough[np.lexsort((enough[:, 1], enough[:, 0]))][0].tolist()
    chosen: list[RowVec] = []
    for taken, some in zip(reversed(steps), reversed(inside), strict=True):
        count = int(taken[blocks_left, racks_left])
        if count:
            chosen.append(some[:count])
            blocks_left, racks_left = blocks_left - 1, racks_left - count
    room = dict(zip(racks.rack.tolist(), racks.room.tolist(), strict=True))
    chosen.sort(key=lambda some: -sum(room[it] for it in some.tolist()))
    return np.concatenate(chosen)


Shapes = Sequence[tuple[int, int]]
MOST_PODS: Final = 1 << 20
"""So many pods on one node are as good as any number."""
LAST: Final = 1 << 40
"""The rank of nodes outside of all domains that are filled in order."""


class Chooser:
    """The choices for batches of these shapes by the free capacity of each node."""

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


# The domains that a gang of unequal pods, or of subgroups, is tried on together (C3, S6).
#
# Which domains hold such a gang is known only when it is placed. So those that may hold it, by the
# sums of what they have, are tried: few ones before more.


_LOOKED_AT: Final = 128
"""How many choices of so many domains are looked at."""
_EACH: Final = 8
"""How many of them are tried in one domain around them."""
_TRIED: Final = 16
"""How many are tried for one batch in all."""
_PLACED: Final = 2048
"""How many pods all these tries together place in vain, each in one order of the pods."""


class Sums(NamedTuple):
    """What the domains of the preferred level have of all that a batch needs."""

    have: Amounts
    """``(K, D)`` pods of each shape that fit, and the amounts of each resource."""
    need: IntVec
    """``(K,)``."""
    kind: RowVec
    """``(D,)`` domains with equal nodes have one number: the choice between them is none."""


def sums_of(session: Session, chooser: Chooser, shapes: Shapes) -> Sums:
    """Return what the domains have for a batch on the room of its chooser."""
    rows = np.arange(len(session.nodes))
    counts = np.array([count for _, count in shapes])
    total = session.shapes.request[:, [shape for shape, _ in shapes]] @ counts
    asked = np.flatnonzero(total)
    places = np.stack([np.minimum(chooser.room_of(shape), MOST_PODS) for shape, _ in shapes])
    free = np.stack([session.free(resource, rows) for resource in asked.tolist()])
    each = np.concatenate((places, free * places.any(axis=0)))
    tree, level = chooser.tree, chooser.preferred
    have = np.stack([tree.sums(column)[level] for column in each])
    kind = _kinds(each, tree.domain_of_node[level], have.shape[1])
    return Sums(have, np.concatenate((counts, total[asked])), kind)


def _kinds(each: Amounts, domain_of_node: RowVec, domains: int) -> RowVec:
    """``(D,)`` number domains by the columns of their nodes."""
    keyed = np.concatenate((each, domain_of_node[None]))
    ranked = keyed[:, np.lexsort(keyed)]
    starts = np.searchsorted(ranked[-1], np.arange(domains + 1))
    nodes = [ranked[:-1, start:end].tobytes() for start, end in pairwise(starts)]
    number = {some: at for at, some in enumerate(dict.fromkeys(nodes))}
    return np.array([number[some] for some in nodes])


def most_tried(pods: int) -> int:
    """Return how many choices are tried for a batch of so many pods."""
    return min(_TRIED, _PLACED // pods)


def few_domains(sums: Sums, ranked: RowVec) -> Iterator[RowVec]:
    """Yield choices of two domains, of three and so on that may hold a batch.

    ``ranked`` has those that there are in the order in which they are filled; this order decides
    between choices of as many.
    """
    ranked = ranked[sums.have[:, ranked].any(axis=0)]
    largest = np.cumsum(-np.sort(-sums.have[:, ranked]), axis=1)
    enough = (largest >= sums.need[:, None]).all(axis=0)
    for count in (np.flatnonzero(enough) + 1).tolist():
        if not 1 < count < len(ranked):
            continue
        some = np.array(list(islice(combinations(ranked.tolist(), count), _LOOKED_AT)))
        may_hold = (sums.have[:, some].sum(axis=2) >= sums.need[:, None]).all(axis=0)
        unlike: dict[bytes, RowVec] = {}
        for domains in some[may_hold]:
            unlike.setdefault(np.sort(sums.kind[domains]).tobytes(), domains)
        yield from list(unlike.values())[:_EACH]


# The sets of nodes that are tried for a batch, one after the other (C1 to C4).


LABELLED, ALL = -1, -2
"""In place of a level: all nodes with all labels, and all nodes."""
ONE: Final = np.ones(1, np.bool_)
"""In place of the domains of a level: one set."""


class Stage(NamedTuple):
    """Domains of one level that are tried one after the other, ordered when the first one is."""

    by: Chooser
    """Whose capacities say which domains, and in which order."""
    level: int
    """-1 for all labelled nodes together, -2 for all nodes."""
    able: BoolVec
    filler: Chooser
    """Whose capacities say how a domain is filled."""
    sums: Sums | None = None
    """What a few of the preferred domains must have to be tried before all of them inside one of
    these; None where the order in which they are filled gives the fewest."""

    def ordered(self) -> RowVec:
        """Return the domains, the best first."""
        return self.by.ordered(self.level, self.able) if self.level >= 0 else np.zeros(1, np.int64)

    def steps(self, most: int) -> Iterator[tuple[int, RowVec | None]]:
        """Yield each domain after the choices of few preferred ones inside of it, at most so many.

        None stands for all of them.
        """
        assert self.sums is not None
        for domain in self.ordered().tolist():
            if most > 0:
                ranked = self.filler.ranked(self.level, domain)
                for some in islice(few_domains(self.sums, ranked), most):
                    most -= 1
                    yield domain, some
                most -= 1  # it takes time to look for choices, too
            yield domain, None


class Choices(LazyNodeSets):
    """The domains of some levels in the order in which they are tried."""

    def __init__(self, stages: Sequence[Stage], nodes: int, *, are_peers: bool = False) -> None:
        self._stages = stages
        self._nodes = nodes
        self._are_peers = are_peers
        self._ordered: dict[int, RowVec] = {}
        self._few: dict[int, list[tuple[int, RowVec | None]]] = {}
        left = most_tried(stages[0].by.pods) if stages else 0
        sizes: list[int] = []
        for number, stage in enumerate(stages):
            if stage.sums is None:
                sizes.append(int(np.count_nonzero(stage.able)))
                continue
            self._few[number] = steps = list(stage.steps(left))
            left = max(0, left - len(steps))
            sizes.append(len(steps))
        self._ends = list(accumulate(sizes))
        super().__init__(self._ends[-1] if self._ends else 0)

    def make(self, at: int) -> NodeSet:
        """Make the set of nodes at a position."""
        number = bisect_right(self._ends, at)
        stage, place = self._stages[number], at - self._ends[number]  # counted from the end
        domain = 0
        if number in self._few:
            domain, some = self._few[number][place]
            if some is not None:
                return stage.filler.set_of_few(some)
        elif stage.level >= 0:
            if number not in self._ordered:
                self._ordered[number] = stage.ordered()
            domain = int(self._ordered[number][place])
        if stage.level >= 0:
            return stage.filler.set_of(stage.level, domain, peers=self._are_peers)
        return self._whole(stage)

    def _whole(self, stage: Stage) -> NodeSet:
        """Return all labelled nodes, or all nodes."""
        filler = stage.filler
        members, order = filler.tree.is_member, filler.order(-1, 0)
        reorders = not filler.is_uniform
        if stage.level == LABELLED:
            return NodeSet("all labelled nodes", members, order=order, reorders=reorders)
        order = np.where(members, 0, LAST) if order is None else order
        every = np.ones(self._nodes, np.bool_)
        return NodeSet("all nodes", every, order=order, reorders=reorders)
