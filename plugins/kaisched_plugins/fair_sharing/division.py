"""What each queue would hold if everybody had a share by weight: for people, it decides nothing."""

from __future__ import annotations

import numpy as np

from kaisched import UNLIMITED, Amounts, Entitlements, Session, fairshare
from kaisched_plugins.fair_sharing.quotas import Quotas, added
from kaisched_plugins.fair_sharing.tables import Table


def divided(session: Session, table: Table) -> Amounts:
    """Return ``(R, Q)``: the quota of each queue, and by weight what others leave of theirs.

    A queue that asks for less has less; the rest goes to its siblings, then up the tree. Resources
    that nobody bounds have no end.
    """
    queues, quotas = session.queues, _without_flavors(table.quotas)
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
    roots = quotas.parent < 0
    total = np.minimum(quotas.subtree[:, roots], most).sum(axis=1)
    share[rows] = fairshare.fair_share(queues.tree, total, entitlements, session.axis.unit[rows])
    return share


def _without_flavors(quotas: Quotas) -> Quotas:
    """Return quotas and limits of each resource, added up over its flavors."""
    count = int(quotas.resource.max(initial=-1)) + 1
    if count == len(quotas.resource):
        return quotas
    shape = count, len(quotas)
    sums: list[Amounts] = []
    for column in (quotas.nominal, quotas.borrowing_limit, quotas.lending_limit):
        total = np.zeros(shape, np.int64)
        for row, resource in enumerate(quotas.resource.tolist()):
            total[resource] = added(total[resource], column[row])
        sums.append(total)
    nominal, borrowing, lending = sums
    return Quotas(quotas.parent, nominal, borrowing, lending, quotas.weight, np.arange(count))
