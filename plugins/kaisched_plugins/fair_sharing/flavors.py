"""Flavors of a resource: what queues offer, and which flavor a job gets."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np

from kaisched import (
    UNLIMITED,
    Amounts,
    BoolVec,
    Constraints,
    IntVec,
    NodeSet,
    NodeStatics,
    Requirement,
    RowVec,
)
from kaisched_plugins.fair_sharing.quotas import Holdings
from kaisched_plugins.fair_sharing.work import level_at

# Which flavor work gets: the first of its queue's list that fits, else the best that could fit.
#
# Rules F27 to F29 of docs/explanation/fair-sharing.md. Quotas have a row for each pair of a flavor
# and a resource. Resources of one group get the same flavor.


class Mode(IntEnum):
    """How a flavor could be had, the worst first."""

    NO_FIT = 0
    NO_CANDIDATES = 1
    """Evictions would be allowed, but no work may be evicted."""
    PREEMPT = 2
    """After evictions in the own queue."""
    RECLAIM = 3
    """After evictions in other queues."""
    FIT = 4


class Way(NamedTuple):
    """How a flavor could be had, and how far up the tree its quota comes from."""

    mode: Mode
    level: int
    """Height of the lowest queue within which the request fits; 0 for the leaf: it borrows
    nothing."""


BEST: Final = Way(Mode.FIT, 0)
WORST: Final = Way(Mode.NO_FIT, 1 << 30)


class Hindrance(IntEnum):
    """Why a flavor does not fit, the mildest first."""

    NOTHING = 0
    WAITING = 1
    """Other work holds the quota."""
    TOO_LARGE = 2
    """The request is larger than all that its queue could ever have."""
    NO_MATCH = 3
    """The pods accept no node of the flavor, or the queue does not offer it."""


@dataclass(frozen=True, slots=True)
class Fungibility:
    """When the search goes on to the next flavor of the list, and which is the best of them."""

    stops_to_borrow: bool = True
    """``whenCanBorrow: MayStopSearch``: a flavor that fits by borrowing is taken."""
    stops_to_preempt: bool = False
    """``whenCanPreempt: MayStopSearch``: a flavor that fits after evictions is taken."""
    prefers_preemption: bool = False
    """``preference: PreemptionOverBorrowing``: the lower level counts first, then the mode."""

    @property
    def may_wait(self) -> bool:
        """Whether work may wait for evictions in a flavor while another fits."""
        return self.stops_to_preempt or self.prefers_preemption


def is_preferred(one: Way, other: Way, rules: Fungibility) -> bool:
    """Tell whether the first way is strictly better."""
    if Mode.NO_FIT in (one.mode, other.mode):
        return one.mode != Mode.NO_FIT and other.mode == Mode.NO_FIT
    if (one.mode == Mode.NO_CANDIDATES) != (other.mode == Mode.NO_CANDIDATES):
        return other.mode == Mode.NO_CANDIDATES
    if rules.prefers_preemption:
        return (one.level, -one.mode) < (other.level, -other.mode)
    return (-one.mode, one.level) < (-other.mode, other.level)


def is_taken(way: Way, rules: Fungibility) -> bool:
    """Tell whether the search ends at a flavor that could be had in this way."""
    if way.mode <= Mode.NO_CANDIDATES:
        return False
    if way.mode != Mode.FIT and not rules.stops_to_preempt:
        return False
    return way.level == 0 or rules.stops_to_borrow


class Group(NamedTuple):
    """Resources that get the same flavor, and the flavors that a queue offers for them."""

    resources: Collection[int]
    flavors: Sequence[int]
    """In the order in which they are tried."""


class Held(NamedTuple):
    """What an earlier, smaller size of the same work holds of a resource: it stays there."""

    flavor: int
    amount: int


@dataclass(frozen=True, slots=True)
class Request:
    """What pods ask for that get their flavors together."""

    amounts: Mapping[int, int]
    """By resource."""
    accepts: Collection[int] | None = None
    """The flavors whose nodes the pods accept; None for all."""
    held: Mapping[int, Held] = field(default_factory=dict)
    """By resource."""
    start: int = 0
    """The place in each list of flavors at which the search begins."""


class Assigned(NamedTuple):
    """The flavor that a resource gets."""

    flavor: int
    way: Way
    tried: int
    """The place of the last flavor that was tried; -1 for the last of the list."""


class Attempt(NamedTuple):
    """A flavor that was tried for the resources of a group."""

    group: int
    """-1 for a resource of no group."""
    flavor: int
    way: Way
    hindrance: Hindrance


class Chosen(NamedTuple):
    """The flavors of a request by resource; none if some resource got no flavor."""

    flavors: Mapping[int, Assigned]
    attempts: Sequence[Attempt]

    @property
    def mode(self) -> Mode:
        """The worst mode of all its resources; FIT if nothing is asked for."""
        if self.attempts and not self.flavors:
            return Mode.NO_FIT
        return min((each.way.mode for each in self.flavors.values()), default=Mode.FIT)

    @property
    def hindrance(self) -> Hindrance:
        """The worst hindrance of all groups; of each group's flavors the mildest counts."""
        if self.flavors:
            return Hindrance.NOTHING
        mildest: dict[int, Hindrance] = {}
        for each in self.attempts:
            if each.way.mode == Mode.NO_FIT:
                known = mildest.get(each.group, each.hindrance)
                mildest[each.group] = min(known, each.hindrance)
        return max(mildest.values(), default=Hindrance.NO_MATCH)


Oracle: TypeAlias = Callable[[int, int], Way]
"""Tells for a row and an amount how it could be had by evictions."""
Found: TypeAlias = tuple[dict[int, Assigned], list[Attempt]]


class Chooser:
    """Chooses flavors for the work of one queue."""

    def __init__(
        self,
        holdings: Holdings,
        queue: int,
        groups: Sequence[Group],
        pair: Mapping[tuple[int, int], int],
        rules: Fungibility,
        oracle: Oracle,
        *,
        may_borrow_after_evictions: bool,
    ) -> None:
        """Take what the queue offers; ``pair`` has the row of each flavor and resource."""
        self._holdings = holdings
        self._queue = queue
        self._groups = groups
        self._pair = pair
        self._rules = rules
        self._oracle = oracle
        self._may_borrow_after_evictions = may_borrow_after_evictions

    def choose(self, requests: Sequence[Request]) -> tuple[list[Chosen], dict[int, int]]:
        """Return the flavors of each request, and what they come to by row.

        Each request sees what those before it have got. The first that gets no flavor is the last.
        """
        usage: dict[int, int] = {}
        done: list[Chosen] = []
        for request in requests:
            chosen = self.choose_one(request, usage)
            done.append(chosen)
            if chosen.mode == Mode.NO_FIT:
                break
            for resource, amount in request.amounts.items():
                if resource in chosen.flavors:
                    at = self._pair[chosen.flavors[resource].flavor, resource]
                    usage[at] = usage.get(at, 0) + amount - _held(request, resource)
        return done, usage

    def choose_one(self, request: Request, usage: Mapping[int, int]) -> Chosen:
        """Return the flavors of one request; ``usage`` counts as held besides."""
        flavors: dict[int, Assigned] = {}
        attempts: list[Attempt] = []
        for resource, amount in request.amounts.items():
            if resource in flavors:
                continue
            number = self._group_of(resource)
            if number < 0:
                if not amount:
                    continue
                return Chosen({}, [*attempts, Attempt(-1, -1, WORST, Hindrance.NO_MATCH)])
            found, tried = self._find(number, request, usage)
            attempts += tried
            if not found:
                return Chosen({}, attempts)
            flavors.update(found)
        return Chosen(flavors, attempts)

    def _group_of(self, resource: int) -> int:
        groups = enumerate(self._groups)
        return next((at for at, group in groups if resource in group.resources), -1)

    def _find(self, number: int, request: Request, usage: Mapping[int, int]) -> Found:
        """Return the flavor for all resources of a group that are asked for."""
        group, last = self._groups[number], -1
        best: dict[int, tuple[int, Way]] = {}
        best_way = WORST
        attempts: list[Attempt] = []
        for last in range(request.start, len(group.flavors)):
            flavor = group.flavors[last]
            if request.accepts is not None and flavor not in request.accepts:
                attempts.append(Attempt(number, flavor, WORST, Hindrance.NO_MATCH))
                continue
            way, ways, hindrance = self._ways(group, flavor, request, usage)
            attempts.append(Attempt(number, flavor, way, hindrance))
            is_last = is_taken(way, self._rules)
            if is_last or is_preferred(way, best_way, self._rules):
                best_way = way
                best = {resource: (flavor, each) for resource, each in ways.items()}
            if is_last:
                break
        tried = -1 if last == len(group.flavors) - 1 else last
        return {at: Assigned(*each, tried) for at, each in best.items()}, attempts

    def _ways(
        self, group: Group, flavor: int, request: Request, usage: Mapping[int, int]
    ) -> tuple[Way, dict[int, Way], Hindrance]:
        """Return how a flavor could be had, all in all and by resource, and what is in the way."""
        worst, hindrance = BEST, Hindrance.NOTHING
        ways: dict[int, Way] = {}
        for resource, amount in request.amounts.items():
            if resource not in group.resources:
                continue
            held = request.held.get(resource)
            if held is not None and held.flavor != flavor:
                worst, hindrance = WORST, Hindrance.NO_MATCH
                continue
            at = self._pair[flavor, resource]
            more = amount - _held(request, resource)
            way, why = self._way(at, usage.get(at, 0) + more)
            ways[resource] = way
            hindrance = max(hindrance, why)
            if is_preferred(worst, way, self._rules):
                worst = way
        return worst, ways, hindrance

    def _way(self, at: int, amount: int) -> tuple[Way, Hindrance]:
        """Return how so much of a row could be had."""
        holdings, queue = self._holdings, self._queue
        if amount > holdings.rows.potential[queue][at]:
            return Way(Mode.NO_FIT, 0), Hindrance.TOO_LARGE
        level, is_inside = level_at(holdings, queue, at, amount)
        if amount <= max(0, holdings.available(queue, at)):
            return Way(Mode.FIT, level), Hindrance.NOTHING
        is_own = amount <= holdings.rows.nominal[queue][at]
        if is_own or is_inside or self._may_borrow_after_evictions:
            return self._oracle(at, amount), Hindrance.NOTHING
        return Way(Mode.NO_FIT, level), Hindrance.WAITING


def _held(request: Request, resource: int) -> int:
    held = request.held.get(resource)
    return held.amount if held is not None else 0


# Quotas by flavor: the rows of the table, what leaf queues offer, and which nodes are of a flavor.
#
# Rule F26 of docs/explanation/fair-sharing.md.


Labels: TypeAlias = tuple[tuple[str, str], ...]
Term: TypeAlias = tuple[tuple[Requirement, ...], tuple[Requirement, ...]]
"""Requirements on labels of a node, and on its name."""
_STOPS = "MayStopSearch"
_NODE_TYPE = "run.ai/type"


@dataclass(frozen=True)
class Offer:
    """What a leaf queue offers its jobs."""

    groups: tuple[Group, ...]
    """Resources are rows of the axis, flavors numbers of :class:`Flavors`."""
    labels: tuple[tuple[int, Labels], ...]
    """Node labels by flavor."""
    rules: Fungibility


class Pair(NamedTuple):
    """A flavor and a resource."""

    flavor: int
    resource: int


@dataclass(frozen=True, eq=False)
class FlavorSet(NodeSet):
    """The nodes of a flavor, or of the flavors of several groups."""

    flavors: Mapping[int, int] = field(default_factory=dict)
    """By resource."""


def flavors_of(nodes: NodeSet | None) -> Mapping[int, int]:
    """Return the flavors by resource that a set of nodes stands for."""
    if nodes is None:
        return {}
    own = (each for each in nodes.parts or (nodes,) if isinstance(each, FlavorSet))
    return next((each.flavors for each in own), {})


@dataclass(frozen=True, eq=False)
class Flavors:
    """The flavors of all queues."""

    names: tuple[str, ...]
    pairs: tuple[Pair, ...]
    """In the order of their rows, which follow those of resources without flavors."""
    offer_of: Mapping[int, Offer]
    """By leaf queue, in trees with flavors."""
    is_flavored: BoolVec
    """``(R, Q)`` resources whose quotas are by flavor in the tree of each queue."""

    def row_of(self, first: int) -> dict[tuple[int, int], int]:
        """Return the row of each pair; the first is ``first``."""
        return {pair: first + at for at, pair in enumerate(self.pairs)}


def flavors_in(queues: Any, names: Sequence[str], root: RowVec, is_leaf: BoolVec) -> Flavors | None:
    """Return the flavors of queues; None if no queue has any.

    ``is_leaf`` has the queues as which jobs count.
    """
    if not any(each.flavors for each in queues.sharing):
        return None
    number: dict[str, int] = {}
    resource_of = {name: row for row, name in enumerate(names)}
    pairs: dict[Pair, None] = {}
    is_flavored = np.zeros((len(names), len(root)), np.bool_)
    for row, sharing in enumerate(queues.sharing):
        for flavor in sharing.flavors:
            at = number.setdefault(flavor.name, len(number))
            for quota in flavor.quotas:
                if quota.resource in resource_of:
                    resource = resource_of[quota.resource]
                    pairs[Pair(at, resource)] = None
                    is_flavored[resource, root == root[row]] = True
    offers = {
        leaf: _offer(queues, leaf, number, resource_of)
        for leaf in np.flatnonzero(is_leaf & is_flavored.any(axis=0)).tolist()
    }
    return Flavors(tuple(number), tuple(pairs), offers, is_flavored)


def _offer(
    queues: Any, leaf: int, number: Mapping[str, int], resource_of: Mapping[str, int]
) -> Offer:
    """Return what a leaf offers: its own list, or that of the nearest queue above with one."""
    path = [queues.sharing[row] for row in queues.tree.path(leaf).tolist()]
    listed = next((each.flavors for each in path if each.flavors), ())
    flavors_of: dict[int, list[int]] = {}
    for flavor in listed:
        for quota in flavor.quotas:
            if quota.resource in resource_of:
                flavors_of.setdefault(resource_of[quota.resource], []).append(number[flavor.name])
    together: dict[tuple[int, ...], list[int]] = {}
    for resource, flavors in flavors_of.items():
        together.setdefault(tuple(flavors), []).append(resource)
    own = queues.sharing[leaf]
    return Offer(
        tuple(Group(tuple(resources), flavors) for flavors, resources in together.items()),
        tuple((number[flavor.name], _labels(path, flavor.name)) for flavor in listed),
        Fungibility(
            own.when_can_borrow == _STOPS,
            own.when_can_preempt == _STOPS,
            own.flavor_preference == "PreemptionOverBorrowing",
        ),
    )


def _labels(path: Iterable[Any], name: str) -> Labels:
    """Return the labels that the nearest queue of a path states for a flavor."""
    stated = (flavor.labels for each in path for flavor in each.flavors if flavor.name == name)
    return next((labels for labels in stated if labels), ())


def pair_columns(
    queues: Any, flavors: Flavors, names: Sequence[str]
) -> tuple[Amounts, Amounts, Amounts]:
    """Return quotas, borrowing limits and lending limits ``(pairs, Q)``."""
    shape = len(flavors.pairs), len(queues)
    nominal = np.zeros(shape, np.int64)
    borrowing, lending = np.full(shape, UNLIMITED), np.full(shape, UNLIMITED)
    row_of = {(flavors.names[f], names[r]): at for at, (f, r) in enumerate(flavors.pairs)}
    for queue, sharing in enumerate(queues.sharing):
        for flavor in sharing.flavors:
            for quota in flavor.quotas:
                at = row_of.get((flavor.name, quota.resource))
                if at is None:
                    continue
                nominal[at, queue] = quota.quota
                borrowing[at, queue] = quota.borrowing_limit
                lending[at, queue] = quota.lending_limit
    is_free = nominal >= UNLIMITED
    lending[is_free & queues.tree.is_leaf] = 0  # what nobody bounds is neither borrowed nor lent
    nominal[is_free & ~queues.tree.is_leaf] = 0
    return nominal, borrowing, lending


class NodeMap:
    """The flavor of each node, and the row of the quotas that counts what a task holds there."""

    def __init__(self, flavors: Flavors, plain: RowVec, count: int, statics: NodeStatics) -> None:
        """Look at the labels of all nodes once.

        ``plain`` are the rows of resources without flavors, ``count`` is the number of resources.
        """
        self.statics = statics
        self._flavor_of: dict[tuple[Offer, int], IntVec] = {}
        self._present: dict[tuple[Offer, int], frozenset[int]] = {}
        offers = list(dict.fromkeys(flavors.offer_of.values()))
        number = {offer: at + 1 for at, offer in enumerate(offers)}
        queues = flavors.is_flavored.shape[1]
        self._kind = np.zeros(queues, np.int64)
        """The number of each queue's offer; 0 for trees without flavors."""
        for leaf, offer in flavors.offer_of.items():
            self._kind[leaf] = number[offer]
        nodes = len(statics.name)
        self._rows = np.full((len(offers) + 1, nodes + 1, count), -1, np.int64)
        """The last node stands for none."""
        self._rows[:, :, plain] = np.arange(len(plain))
        pair = flavors.row_of(len(plain))
        for offer in offers:
            for group in offer.groups:
                of_node = self.flavor_of(offer, group)
                for resource in group.resources:
                    rows = self._rows[number[offer], :, resource]
                    rows[:] = -1
                    for flavor in group.flavors:
                        rows[:nodes][of_node == flavor] = pair[flavor, resource]

    def flavor_of(self, offer: Offer, group: Group) -> IntVec:
        """``(N,)`` the flavor of each node in the list of a group, -1 for none."""
        key = offer, offer.groups.index(group)
        found = self._flavor_of.get(key)
        if found is None:
            found = np.full(len(self.statics.name), -1, np.int64)
            most = found.copy()
            labels = dict(offer.labels)
            for flavor in group.flavors:
                has = self._has(labels[flavor]) & (len(labels[flavor]) > most)
                found[has], most[has] = flavor, len(labels[flavor])
            self._flavor_of[key] = found
        return found

    def present(self, offer: Offer, group: Group) -> frozenset[int]:
        """Return the flavors of a group that some node is of."""
        key = offer, offer.groups.index(group)
        found = self._present.get(key)
        if found is None:
            found = frozenset(np.unique(self.flavor_of(offer, group)).tolist())
            self._present[key] = found
        return found

    def _has(self, labels: Labels) -> BoolVec:
        has = np.ones(len(self.statics.name), np.bool_)
        for key, value in labels:
            column, values = self.statics.label_column(key)
            has &= column == (values.index(value) if value in values else len(values))
        return has

    def count(
        self, into: Amounts, where: RowVec, queue: RowVec, node: RowVec, charge: Amounts
    ) -> None:
        """Add what tasks ``(K,)`` of leaf queues hold on nodes to the columns ``where`` of sums.

        ``into`` has a row for each row of the quotas; ``charge`` is ``(R, K)``.
        """
        rows = self._rows[self._kind[queue], node].T
        resource, task = np.nonzero((rows >= 0) & (charge != 0))
        np.add.at(into, (rows[resource, task], where[task]), charge[resource, task])


def accepts(constraints: Constraints, labels: Labels) -> bool:
    """Tell whether pods may be on nodes of a flavor, as far as its labels say."""
    known = dict(labels)
    if any(known.get(key, value) != value for key, value in constraints.node_selector):
        return False
    if (types := constraints.node_types) and known.get(_NODE_TYPE, types[0]) not in types:
        return False
    own = () if constraints.node_terms is None else (constraints.node_terms,)
    return all(_may_meet(terms, known) for terms in (*own, *constraints.queue_terms))


def _may_meet(terms: Iterable[Term], known: Mapping[str, str]) -> bool:
    """Tell whether one of some terms holds as far as the labels that are known say."""
    named = [[it for it in on_labels if it.key in known] for on_labels, _ in terms]
    return any(all(_is_met(it, known[it.key]) for it in term) for term in named)


def _is_met(requirement: Requirement, value: str) -> bool:
    if requirement.operator == "In":
        return value in requirement.values
    if requirement.operator == "NotIn":
        return value not in requirement.values
    return requirement.operator != "DoesNotExist"
