"""Pod sets with Kueue's annotations: how many pods each domain of the last level gets.

Rules K1 to K7 of docs/explanation/topology.md.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from math import log
from typing import Final, NamedTuple

import numpy as np

from kaisched import ACTIVE_STATES, BoolVec, IntVec, NodeSet, RowVec, Session, SubGroup, TaskState
from kaisched_plugins.topology import refusals
from kaisched_plugins.topology.demands import Demand, Pins, Tree, leader_of, without_leader

# How many pods and slices of a pod set each domain holds (K2).


_NEVER: Final = 1 << 40
"""What a leader would cost where it does not fit."""


class Ask(NamedTuple):
    """What is to be placed: pods in whole slices, and a leader beside them perhaps."""

    pods: int
    level: int
    """The level that is required or preferred, or from which domains are chosen freely."""
    is_required: bool = False
    is_free: bool = False
    """No level is asked for."""
    layers: tuple[tuple[int, int], ...] = ()
    """(level, pods) of slices, outermost first; each size divides the one before."""
    has_leader: bool = False

    def unit(self, level: int) -> int:
        """Return so many pods go together in the domains of a level."""
        return next((size for at, size in self.layers if at >= level), 1)

    def slice_level(self, last: int) -> int:
        """Return the level of the outermost slices; single pods are slices at the last level."""
        return self.layers[0][0] if self.layers else last


class Counts(NamedTuple):
    """Columns ``(D,)`` by level; those with a leader are what is left once it is there, too."""

    pods: list[IntVec]
    slices: list[IntVec]
    """Whole slices at and above the level of the slices, 0 below it."""
    pods_beside: list[IntVec]
    slices_beside: list[IntVec]
    can_lead: list[BoolVec]


def counted(tree: Tree, ask: Ask, room: IntVec, beside: IntVec | None) -> Counts:
    """Count a pod set in every domain.

    ``room`` is ``(N,)`` how many of its pods fit on each node, and ``beside`` how many if its
    leader is there, too; -1 where that does not fit.
    """
    last = len(tree.levels) - 1
    sliced = ask.slice_level(last)
    found = Counts([], [], [], [], [])
    if beside is None:
        beside = np.full(len(room), -1, np.int64)
    given, cost = room, np.where(beside >= 0, room - beside, _NEVER)
    slices, slice_cost = room[:0], room[:0]
    for level in range(last, -1, -1):
        pods, cost = tree.folded(level, given, np.add), tree.folded(level, cost, np.minimum)
        can_lead = cost < _NEVER
        left = np.where(can_lead, pods - cost, -1)
        unit = ask.unit(level)
        if level > sliced:
            slices, slice_cost = pods * 0, pods * 0
        elif level == sliced:
            slices = pods // unit
            slice_cost = np.where(can_lead, slices - left // unit, _NEVER)
        else:
            slices = tree.folded(level, slices, np.add)
            slice_cost = tree.folded(level, slice_cost, np.minimum)
        slices_left = np.where(can_lead, slices - slice_cost, -1)
        found.pods.insert(0, pods)
        found.slices.insert(0, slices)
        found.pods_beside.insert(0, left)
        found.slices_beside.insert(0, slices_left)
        found.can_lead.insert(0, can_lead)
        given = pods
        if level > sliced:  # what is left of a slice of an inner layer is of no use
            given = pods - pods % unit
            cost = np.where(can_lead, given - (left - left % unit), _NEVER)
    return found


# Chooses domains for a pod set, from its level down to the last one (K3 to K5).


NONE: Final = -1


class Share(NamedTuple):
    """What one domain gets."""

    domain: int
    pods: int
    leads: bool = False


class Short(NamedTuple):
    """Why a pod set finds no place: how many slices fit in the best choice."""

    fit: int
    wanted: int
    level: int = NONE
    best: int = NONE
    """The domain of the level that has most room; -1 where all of them count."""
    is_part: bool = False
    """Only what is missing beside pods that run, in their domain."""
    layers: tuple[tuple[int, int, int], ...] = ()
    """(level, slices that fit, slices wanted) of each layer."""


class Style(NamedTuple):
    """How to choose where several choices are good (K4, K7)."""

    least_free: bool = True
    even_shares: bool = False


class Amounts(NamedTuple):
    """What domains of one level could take, in units of so many pods."""

    unit: int
    plain: IntVec
    beside: IntVec


class Filler:
    """Chooses domains for one pod set."""

    def __init__(self, tree: Tree, ask: Ask, counts: Counts, style: Style) -> None:
        """Take what is asked for and what there is."""
        self.tree = tree
        self.ask = ask
        self.counts = counts
        self._last = len(tree.levels) - 1
        self.sliced = ask.slice_level(self._last)
        self.size = ask.unit(self.sliced)
        self.wanted = -(-ask.pods // self.size)
        self._is_least_free = style.least_free and ask.is_free

    def found(self) -> list[Share] | Short:
        """Return what each domain of the last level gets, or what is missing."""
        level, ask = self.ask.level, self.ask
        while True:
            chosen = self._at(level)
            if not isinstance(chosen, Short):
                return self.down(level, chosen)
            if ask.is_required or ask.is_free or not level:
                return chosen
            level -= 1

    def _at(self, level: int) -> list[Share] | Short:
        """Choose one domain of a level, or several where that is allowed."""
        counts, leads = self.counts, self.ask.has_leader
        every = np.arange(len(counts.pods[level]))
        ordered = self.ordered(level, every, leads=leads)
        room = counts.slices_beside[level] if leads else counts.slices[level]
        single = _tightest(ordered, room, self.wanted)
        if single != NONE:
            return [Share(single, self.ask.pods, leads)]
        if self.ask.is_required or (level and not self.ask.is_free):
            best = int(ordered[0]) if ordered.size else NONE
            return self._short(level, int(counts.slices[level][best]) if ordered.size else 0, best)
        amounts = Amounts(self.size, counts.slices[level], counts.slices_beside[level])
        chosen = self._greedy(level, every, amounts, self.ask.pods, leads=leads)
        return self._short(level, chosen) if isinstance(chosen, int) else chosen

    def _short(self, level: int, fit: int, best: int = NONE) -> Short:
        layers = []
        for at, size in self.ask.layers:
            inside = self.tree.below(level if best >= 0 else -1, max(best, 0), at)
            fits = int((self.counts.pods[at][inside] // size).sum())
            layers.append((at, fits, -(-self.ask.pods // size)))
        return Short(fit, self.wanted, level, best, layers=tuple(layers))

    def ordered(self, level: int, domains: RowVec, *, leads: bool) -> RowVec:
        """Return domains in the order in which they are filled (K4)."""
        counts = self.counts
        slices = counts.slices_beside[level] if leads else counts.slices[level]
        pods = counts.pods_beside[level] if leads else counts.pods[level]
        sign = 1 if self._is_least_free else -1
        keys = [domains, pods[domains], sign * slices[domains]]
        if leads:
            keys.append(~counts.can_lead[level][domains] + 0)
        ordered: RowVec = domains[np.lexsort(keys)]
        return ordered

    def down(self, level: int, chosen: Sequence[Share]) -> list[Share]:
        """Divide what domains have got among those below them, level by level (K5)."""
        for at in range(level + 1, self._last + 1):
            if at <= self.sliced:
                chosen = self._divided(at, chosen, self.size)
            else:
                unit = self.ask.unit(at)
                chosen = [part for it in chosen for part in self._divided(at, [it], unit)]
        return sorted(chosen)

    def _divided(self, level: int, chosen: Sequence[Share], unit: int) -> list[Share]:
        """Divide what some domains have got, together, among their children."""
        inside = [self.tree.below(level - 1, it.domain, level) for it in chosen]
        counts = self.counts
        if level <= self.sliced:
            amounts = Amounts(unit, counts.slices[level], counts.slices_beside[level])
        else:
            plain, beside = counts.pods[level] // unit, counts.pods_beside[level] // unit
            amounts = Amounts(unit, plain, beside)
        pods, leads = sum(it.pods for it in chosen), any(it.leads for it in chosen)
        shares = self._greedy(level, np.concatenate(inside), amounts, pods, leads=leads)
        assert not isinstance(shares, int)  # the counts say that there is room
        return shares

    def _greedy(
        self, level: int, domains: RowVec, amounts: Amounts, pods: int, *, leads: bool
    ) -> list[Share] | int:
        """Fill domains in order, the last one by best fit; the leader comes first.

        Return how many units fit if there is too little room.
        """
        found: list[Share] = []
        wanted = -(-pods // amounts.unit)
        left = wanted
        if leads:
            leader = self._leader(level, domains, amounts, wanted)
            if leader == NONE:
                return min(int(amounts.plain[domains].sum()), wanted)
            take = min(left, int(amounts.beside[leader]))
            found.append(Share(leader, min(pods, take * amounts.unit), leads=True))
            left -= take
            domains = domains[domains != leader]
        ordered = self.ordered(level, domains, leads=False)
        for at, first in enumerate(ordered.tolist()):
            domain = first
            if left <= 0:
                break
            if not self._is_least_free and amounts.plain[domain] >= left:
                domain = _tightest(ordered[at:], amounts.plain, left)
            take = min(left, int(amounts.plain[domain]))
            if take:
                rest = pods - sum(it.pods for it in found)
                found.append(Share(domain, min(rest, take * amounts.unit)))
            left -= take
        return wanted - left if left > 0 else found

    def _leader(self, level: int, domains: RowVec, amounts: Amounts, wanted: int) -> int:
        """Return the first domain with which the leader and all others fit, -1 for none."""
        ordered = self.ordered(level, domains, leads=True)
        able = ordered[self.counts.can_lead[level][ordered]]
        if not self._is_least_free:
            single = _tightest(able, amounts.beside, wanted)
            if single != NONE:
                return single
        total = amounts.plain[domains].sum()
        fits = total - amounts.plain[able] + amounts.beside[able] >= wanted
        return int(able[np.argmax(fits)]) if fits.any() else NONE


def _tightest(domains: RowVec, room: IntVec, wanted: int) -> int:
    """Return the first domain with least room of those with enough, -1 for none."""
    enough = domains[room[domains] >= wanted]
    return int(enough[np.argmin(room[enough])]) if enough.size else NONE


# Divides a pod set evenly among the domains of a preferred level (K7).


_MOST_SUMS: Final = 100_000
"""Above so many (domain, number, room) a set of least room is not looked for."""


class Item(NamedTuple):
    """A domain that may be chosen."""

    domain: int
    room: int
    beside: int = NONE
    """Its room beside the leader; -1 where that cannot be there."""
    spread: float = 0.0
    """How unevenly the room is spread among what is inside."""


class _Best(NamedTuple):
    """The domains under one parent, and the share of each."""

    share: int
    chosen: list[Item]


def even_shares(filler: Filler) -> list[Share] | None:
    """Return equal shares for a preferred level, None where there are none.

    The share is that of the domains one level down, as far as slices may be divided.
    """
    ask, tree = filler.ask, filler.tree
    if ask.is_required or ask.is_free or not filler.wanted:
        return None
    lower = min(ask.level + 1, filler.sliced)
    parents = range(len(tree.parent[ask.level - 1])) if ask.level else (0,)
    best: _Best | None = None
    for parent in parents:
        found = _under(filler, parent, lower)
        if found is not None and (best is None or _rank(found) < _rank(best)):
            best = found
    if best is None:
        return None
    inside = best.chosen
    if lower > ask.level:
        below = [tree.below(ask.level, it.domain, lower) for it in best.chosen]
        items = _items(filler, np.concatenate(below), lower, best.share)
        inside = _fewest(items, filler.wanted, leads=ask.has_leader) or []
    shares = _divided(filler, inside, best.share)
    return None if shares is None else filler.down(lower, shares)


def _rank(best: _Best) -> tuple[int, int]:
    return -best.share, len(best.chosen)


def _under(filler: Filler, parent: int, lower: int) -> _Best | None:
    """Return the largest share that domains under a parent can have, and which get it."""
    ask, tree = filler.ask, filler.tree
    domains = tree.below(ask.level - 1, parent, lower)
    leads = ask.has_leader
    items = sorted(_items(filler, domains, lower, 1), key=lambda it: -it.room)
    left, share = filler.wanted, 0
    for count, item in enumerate(items, 1):
        left -= item.room
        if left <= 0:
            share = min(filler.wanted // count, item.room)
            break
    if share < 1:
        return None
    kept = _items(filler, domains, lower, share)
    if lower > ask.level:
        kept = _gathered(filler, kept, lower)
    chosen = _fewest(kept, filler.wanted, leads=leads)
    return None if chosen is None else _Best(share, chosen)


def _items(filler: Filler, domains: RowVec, level: int, share: int) -> list[Item]:
    """Return the domains with room for a share."""
    counts = filler.counts
    plain, beside = counts.slices[level], counts.slices_beside[level]
    return [
        Item(
            it,
            int(plain[it]),
            int(beside[it]) if beside[it] >= share else NONE,
            _spread(int(plain[it])),
        )
        for it in domains.tolist()
        if plain[it] >= share
    ]


def _spread(room: int) -> float:
    return room * log(room) if room else 0.0


def _gathered(filler: Filler, items: Sequence[Item], level: int) -> list[Item]:
    """Return the domains around some, with what those have together."""
    around: dict[int, list[Item]] = {}
    for item in items:
        around.setdefault(int(filler.tree.parent[level][item.domain]), []).append(item)
    found = []
    for domain, some in around.items():
        room = sum(it.room for it in some)
        costs = [it.room - it.beside for it in some if it.beside >= 0]
        beside = room - min(costs) if costs else NONE
        found.append(Item(domain, room, beside, sum(it.spread for it in some)))
    return found


def _fewest(items: Sequence[Item], wanted: int, *, leads: bool) -> list[Item] | None:
    """Return as few domains as hold all, of those with least room, spread most evenly."""
    ordered = sorted(items, key=lambda it: (-it.room, it.domain))
    known: dict[tuple[int, int, bool], tuple[float, tuple[Item, ...]]] = {
        (0, 0, not leads): (0.0, ())
    }
    best: tuple[int, int, float, tuple[Item, ...]] | None = None
    for item in ordered:
        options = [(item.room, False)] + ([(item.beside, True)] if item.beside >= 0 else [])
        for (count, total, has_led), (spread, chosen) in list(known.items()):
            for room, does_lead in options:
                if (does_lead and has_led) or (best is not None and count + 1 > best[0]):
                    continue
                more = (*chosen, item)
                key = count + 1, total + room, has_led or does_lead
                new = spread + item.spread
                if key[1] >= wanted:
                    rank = key[0], key[1], new
                    if key[2] and (best is None or rank < best[:3]):
                        best = *rank, more
                elif key not in known or new < known[key][0]:
                    known[key] = new, more
        if len(known) > _MOST_SUMS:
            return None
    return None if best is None else sorted(best[3])


def _divided(filler: Filler, chosen: Sequence[Item], share: int) -> list[Share] | None:
    """Give each domain its share, and what is left to those with most room."""
    leads = filler.ask.has_leader
    able = [it for it in chosen if it.beside >= 0]
    spare = sum(it.room for it in chosen) - filler.wanted
    leader = next((it for it in able if it.room - it.beside <= spare), None) if leads else None
    if not chosen or (leads and leader is None):
        return None
    left = filler.wanted - share * len(chosen)
    found = []
    for item in sorted(chosen, key=lambda it: (-it.room, it.domain)):
        room = item.beside if item is leader else item.room
        more = max(0, min(left, room - share))
        left -= more
        found.append(Share(item.domain, (share + more) * filler.size, item is leader))
    surplus = sum(it.pods for it in found) - filler.ask.pods  # the last slice may have fewer
    found[-1] = found[-1]._replace(pods=found[-1].pods - surplus)
    return found if not left else None


# Plans a pod set: who leads, what runs already, and what is left to be placed (K1, K6).


Shapes = Sequence[tuple[int, int]]
_MOST = 1 << 20
_PENDING = int(TaskState.PENDING)
_PAIR = 2


class Roles(NamedTuple):
    """The pods of a batch by what they do."""

    shape: int
    """Of the workers, which are equal."""
    workers: int
    leader: int = -1
    """The shape of the leader; -1 where there is none to be placed."""


def roles_of(session: Session, tasks: RowVec, group: SubGroup, shapes: Shapes) -> Roles | None:
    """Return who leads a batch; None if its pods are of more than two kinds.

    Of two pod sets the one with a single pod leads; in one pod set a pod that is unlike all others.
    """
    leader = leader_of(session.tasks.podset_of_task, tasks, group)
    counts = dict(shapes)
    if leader is not None and session.state_now[leader] == _PENDING:
        shape = int(session.tasks.shape_of_task[leader])
        if counts.get(shape):
            counts[shape] -= 1
            left = [(it, pods) for it, pods in counts.items() if pods]
            if len(left) == 1:
                return Roles(*left[0], shape)
            return Roles(shape, 1) if not left else None
    if len(shapes) == 1:
        return Roles(*shapes[0])
    if len(shapes) != _PAIR or min(counts.values()) > 1:
        return None
    single = next(it for it, pods in shapes if pods == 1)
    other = next(it for it, _ in shapes if it != single)
    return Roles(other, counts[other], single)


def workers_held(session: Session, tasks: RowVec, group: SubGroup) -> RowVec:
    """Return the nodes of workers that run, pod by pod."""
    some = without_leader(session.tasks.podset_of_task, tasks, group)
    node = session.node_of_task_now[some]
    held: RowVec = node[ACTIVE_STATES[session.state_now[some]] & (node >= 0)]
    return held


class Plan:
    """A plan for one batch of a pod set on the room that there is."""

    def __init__(
        self,
        session: Session,
        demand: Demand,
        roles: Roles,
        room_of: Callable[[int], IntVec],
        style: Style,
        *,
        is_empty: bool = False,
    ) -> None:
        """Count the room on each node, now or, where ``room_of`` says so, if nothing ran."""
        self._demand = demand
        self._tree = demand.tree
        self._roles = roles
        self._style = style
        self._room = np.minimum(room_of(roles.shape), _MOST)
        self._beside = None
        if roles.leader >= 0:
            leads = room_of(roles.leader)
            self._beside = _beside(session, roles, self._room, leads, is_empty=is_empty)

    def shares(self, held: RowVec) -> list[Share] | Short:
        """Return what each domain of the last level gets, given where pods run already."""
        allowed = self._allowed(held)
        found: list[Share] = []
        left = self._roles.workers
        for ask, nodes in self._completing(held, left):
            some = self._filled(ask, nodes & allowed)
            if isinstance(some, Short):
                return some._replace(is_part=True)
            found += some
            left -= ask.pods
            self._take(some)
        if left or self._roles.leader >= 0:
            rest = self._filled(self._ask(left), allowed)
            if isinstance(rest, Short):
                is_bound = held.size > 0 and self._demand.required >= 0
                return rest._replace(is_part=is_bound and not self._demand.layers)
            found += rest
        return found

    def _ask(self, pods: int) -> Ask:
        required, preferred = self._demand.required, self._demand.preferred
        layers, leads = self._demand.layers, self._roles.leader >= 0
        is_free = preferred < 0
        level = (0 if layers else len(self._tree.levels) - 1) if is_free else preferred
        return Ask(pods, level, required >= 0, is_free, layers, leads)

    def _filled(self, ask: Ask, nodes: BoolVec) -> list[Share] | Short:
        beside = None
        if ask.has_leader and self._beside is not None:
            beside = np.where(nodes, self._beside, -1)
        counts = counted(self._tree, ask, np.where(nodes, self._room, 0), beside)
        filler = Filler(self._tree, ask, counts, self._style)
        even = even_shares(filler) if self._style.even_shares else None
        return filler.found() if even is None else even

    def _allowed(self, held: RowVec) -> BoolVec:
        """``(N,)`` the nodes that pods which run leave to others of a required level (P1)."""
        required, of_node = self._demand.required, self._tree.domain_of_node
        domains = of_node[max(required, 0)][held]
        domains = domains[domains >= 0]
        if required < 0 or not domains.size:
            return np.ones(len(self._room), np.bool_)
        return np.isin(of_node[required], domains)

    def _completing(self, held: RowVec, pods: int) -> list[tuple[Ask, BoolVec]]:
        """Return what completes slices of which pods run, each with the nodes of its domain (K6).

        Those of the innermost layer that lacks pods; whole slices inside of them where they can be.
        """
        layers = self._demand.layers
        for at in range(len(layers) - 1, -1, -1):
            level, size = layers[at]
            of_node = self._tree.domain_of_node[level]
            there = np.bincount(of_node[held][of_node[held] >= 0], minlength=1)
            found: list[tuple[Ask, BoolVec]] = []
            for domain in np.flatnonzero(-there % size).tolist():
                count = min(int(-there[domain] % size), pods)
                pods -= count
                inner = tuple(it for it in layers[at + 1 :] if not count % it[1])
                ask = Ask(count, level, is_required=True, layers=inner)
                found += [(ask, of_node == domain)] * bool(count)
            if found:
                return found
        return []

    def _take(self, shares: Sequence[Share]) -> None:
        """Count the pods of shares as placed, the first nodes of a domain first."""
        room = self._room.copy()
        for share in shares:
            rows = np.flatnonzero(self._tree.domain_of_node[-1] == share.domain)
            ends = np.cumsum(room[rows])
            room[rows] = np.minimum(room[rows], np.maximum(ends - share.pods, 0))
        self._room = room


def _beside(
    session: Session, roles: Roles, room: IntVec, leads: IntVec, *, is_empty: bool
) -> IntVec:
    """``(N,)`` how many workers fit beside the leader; -1 where that does not fit."""
    request = session.shapes.request
    rows = np.arange(len(room))
    left = room
    for resource in np.flatnonzero(request[:, roles.shape]).tolist():
        free = session.nodes.allocatable[resource] if is_empty else session.free(resource, rows)
        free = free - request[resource, roles.leader]
        left = np.minimum(left, free // request[resource, roles.shape])
    return np.where(leads > 0, np.maximum(left, 0), -1)


# The sets of nodes for a batch of a pod set: each node with how many pods it gets.


class Batch(NamedTuple):
    """Pods of a pod set that are placed together."""

    roles: Roles
    pins: Pins
    held: RowVec
    """The nodes on which its workers run, pod by pod."""


def sets_within(
    session: Session, demand: Demand, batch: Batch, style: Style
) -> Sequence[NodeSet] | int:
    """Return the plans for idle room and for room being released, or a refusal.

    Where earlier cycles have promised nodes to all pods these come first.
    """
    roles, found = batch.roles, list(_promised(demand, batch))
    ways = [session.places]
    if not np.array_equal(session.places(roles.shape), session.places_once_released(roles.shape)):
        ways.append(session.places_once_released)
    for room_of in ways:
        plan = Plan(session, demand, roles, room_of, style)
        shares = plan.shares(batch.held)
        if not isinstance(shares, Short):
            found.append(_set_of(demand, roles, shares))
    if not demand.constraint.is_condition:
        found.append(everywhere(session))
    return found or refusals.NO_DOMAIN


def everywhere(session: Session) -> NodeSet:
    """Return the set of all nodes."""
    return NodeSet("all nodes", np.ones(len(session.nodes), np.bool_))


def _promised(demand: Demand, batch: Batch) -> Sequence[NodeSet]:
    """Return the promised nodes if they are those of the whole batch, in one required domain."""
    roles, nodes = batch.roles, batch.pins.promised
    if len(nodes) != roles.workers + (roles.leader >= 0):
        return ()
    of_node = demand.tree.domain_of_node
    domains = of_node[-1][nodes]
    if domains.min() < 0:
        return ()
    if demand.required >= 0:
        around = of_node[demand.required][np.concatenate((nodes, batch.pins.held))]
        if np.unique(around).size > 1:
            return ()
    shares = [Share(domain, pods) for domain, pods in sorted(Counter(domains.tolist()).items())]
    found = _set_of(demand, roles, shares)
    shapes = {roles.shape, roles.leader} - {-1}
    counts = {rank: share.pods for rank, share in enumerate(shares)}
    most = dict.fromkeys(shapes, counts)
    return (NodeSet("the promised nodes", found.nodes, order=found.order, most=most),)


def _set_of(demand: Demand, roles: Roles, shares: Sequence[Share]) -> NodeSet:
    """Return the nodes of the domains that get pods, that of the leader first."""
    ranked = sorted(shares, key=lambda it: not it.leads)
    rank = np.full(len(demand.tree.parent[-1]) + 1, -1)
    most: dict[int, Counter[int]] = {roles.shape: Counter()}
    for at, share in enumerate(ranked):
        at = int(rank[share.domain]) if rank[share.domain] >= 0 else at  # noqa: PLW2901
        rank[share.domain] = at
        most[roles.shape][at] += share.pods
        if share.leads:
            most.setdefault(roles.leader, Counter())[at] += 1
    order = rank[demand.tree.domain_of_node[-1]]
    name, near = demand.tree.around(rank[:-1] >= 0), demand.tree.domain_of_node[-1]
    return NodeSet(name, order >= 0, order=order, most=most, neighbours=near)
