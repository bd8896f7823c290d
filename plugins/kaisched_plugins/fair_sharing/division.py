"""What people see of quotas: the division by weight, and figures of each queue."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

import numpy as np

from kaisched import (
    UNLIMITED,
    Amounts,
    Entitlements,
    FloatVec,
    IntVec,
    RowVec,
    Session,
    divide_level,
    fairshare,
)
from kaisched_plugins.fair_sharing.flavors import Flavors
from kaisched_plugins.fair_sharing.quotas import Holdings, Quotas, added
from kaisched_plugins.fair_sharing.tables import Table

# The figures of queues that lend: shares, and what they are made of, for metrics and reports.


def figures(
    quotas: Quotas, holdings: Holdings, usage: FloatVec | None = None
) -> dict[str, FloatVec]:
    """Return each queue's share, its weight, and what it borrows of what can be lent to it.

    With pools also ``usage``, the past usage of their members.
    """
    share, part = np.zeros(len(quotas)), np.zeros(len(quotas))
    for queue in range(len(quotas)):
        terms = holdings.terms(queue)
        share[queue] = np.inf if terms.share.is_infinite else terms.share.near
        part[queue] = terms.borrowed / terms.lendable if terms.lendable else 0.0
    weight = np.array([float(each) for each in quotas.weight])
    told = {"share": share, "borrowed_part": part, "weight": weight}
    return told if usage is None else {**told, "past_usage": usage}


def subtree_quotas(session: Session, table: Table) -> Amounts:
    """Return ``(R, Q)`` the subtree quota of queues; members of a pool have what is written."""
    told: Amounts = session.queues.deserved.copy()
    counts = ~table.is_member
    for resource in table.resources.tolist():
        whole = np.zeros(len(table.home), np.int64)
        for at in np.flatnonzero(table.rows == resource).tolist():
            whole = added(whole, table.quotas.subtree[at])
        told[resource, counts] = whole[counts]
    return told


# What each queue would hold if everybody had a share by weight: for people, it decides nothing.


def divided(session: Session, table: Table) -> Amounts:
    """Return ``(R, Q)``: the quota of each queue, and by weight what others leave of theirs.

    A queue that asks for less has less; the rest goes to its siblings, then up the tree. Resources
    that nobody bounds have no end.
    """
    queues, quotas = session.queues, _without_flavors(table.quotas, table.flavors)
    share = np.full((len(session.axis), len(queues)), UNLIMITED, np.int64)
    if not len(queues) or not len(table.rows):
        return share
    rows, count = table.resources, len(table.resources)
    most = max(int(session.total.max()), 1)
    weights = np.array([float(weight) for weight in quotas.weight])
    entitlements = Entitlements(
        deserved=np.minimum(quotas.subtree, most),
        limit=np.minimum(quotas.cap, queues.limit[rows]),
        request=np.minimum(session.requested[rows], most),
        weights=np.repeat(weights[None], count, axis=0),
        priority=np.zeros(len(queues), np.int64),
        rank=np.arange(len(queues)),
    )
    unit = session.axis.unit[rows]
    if quotas.lends_in_part:
        own = np.minimum(session.requested_by_jobs[rows], most)
        share[rows] = _by_levels(
            quotas, queues.tree.levels, entitlements._replace(request=own), unit
        )
        return share
    roots = quotas.parent < 0
    total = np.minimum(quotas.subtree[:, roots], most).sum(axis=1)
    share[rows] = fairshare.fair_share(queues.tree, total, entitlements, unit)
    return share


def _by_levels(
    quotas: Quotas, levels: Sequence[RowVec], own: Entitlements, unit: IntVec
) -> Amounts:
    """Divide level by level where queues keep a part of their quota (F2).

    What a queue asks for within that part, it has, and only the rest is divided among siblings. A
    queue above has, besides what counts there, what those below it keep. ``own`` has the requests
    of each queue's own jobs.
    """
    local = quotas.local
    asked = own.request.copy()
    for queue in levels[:0:-1]:
        beyond = np.maximum(asked[:, queue] - local[:, queue], 0)
        _add_above(asked, quotas.parent[queue], beyond)
    kept = np.minimum(local, asked)
    counted = np.minimum(quotas.subtree, asked)  # of roots, which keep nothing to themselves
    for queue in levels[1:]:
        above, group = np.unique(quotas.parent[queue], return_inverse=True)
        lent = _beyond(own, asked, local, queue)
        got, _ = divide_level(counted[:, above], group, lent, unit)
        counted[:, queue] = kept[:, queue] + got
    below = np.zeros_like(counted)
    for queue in levels[:0:-1]:
        _add_above(below, quotas.parent[queue], kept[:, queue] + below[:, queue])
    return counted + below


def _add_above(amounts: Amounts, parent: RowVec, more: Amounts) -> None:
    for row, each in zip(amounts, more, strict=True):
        np.add.at(row, parent, each)


def _beyond(own: Entitlements, asked: Amounts, local: Amounts, queue: RowVec) -> Entitlements:
    """Return what queues are entitled to and ask for beyond what they keep to themselves."""
    keeps = local[:, queue]
    limit = own.limit[:, queue]
    return Entitlements(
        np.maximum(own.deserved[:, queue] - keeps, 0),
        np.where(limit >= UNLIMITED, UNLIMITED, np.maximum(limit - keeps, 0)),
        np.maximum(asked[:, queue] - keeps, 0),
        own.weights[:, queue],
        own.priority[queue],
        own.rank[queue],
    )


def _without_flavors(quotas: Quotas, flavors: Flavors | None) -> Quotas:
    """Return quotas and limits of each resource, added up over its flavors."""
    if flavors is None:
        return quotas
    columns = (
        quotas.nominal,
        _borrowable(quotas, flavors),
        np.minimum(quotas.lending_limit, quotas.subtree),
    )
    nominal, borrowing, lending = (_by_resource(column, quotas.resource) for column in columns)
    count = len(nominal)
    return Quotas(quotas.parent, nominal, borrowing, lending, quotas.weight, np.arange(count))


def _borrowable(quotas: Quotas, flavors: Flavors) -> Amounts:
    """Return the most that each queue could borrow of each flavor; a leaf only of those it lists.

    A queue that states no limit for a flavor could otherwise borrow any amount of their sum.
    """
    more = np.minimum(quotas.borrowing_limit, quotas.potential - quotas.subtree)
    most = np.where(quotas.potential >= UNLIMITED, quotas.borrowing_limit, more)
    first = len(quotas.resource) - len(flavors.pairs)
    for leaf, offer in flavors.offer_of.items():
        listed = {
            pair for group in offer.groups for pair in product(group.flavors, group.resources)
        }
        rows = [row for row, pair in enumerate(flavors.pairs, first) if pair not in listed]
        most[rows, leaf] = 0
    return most


def _by_resource(column: Amounts, resource: RowVec) -> Amounts:
    """Return the sums of the rows of each resource."""
    total = np.zeros((int(resource.max(initial=-1)) + 1, column.shape[1]), np.int64)
    for row, at in enumerate(resource.tolist()):
        total[at] = added(total[at], column[row])
    return total
