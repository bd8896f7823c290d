"""Quotas by flavor: the rows of the table, what leaf queues offer, and which nodes are of a flavor.

Rule F26 of docs/explanation/fair-sharing.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias

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
from kaisched_plugins.fair_sharing.flavors import Fungibility, Group

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
        self._flavors = flavors
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
