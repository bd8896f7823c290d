"""What each queue would hold if everybody had a share by weight: for people, it decides nothing."""

from __future__ import annotations

import numpy as np

from kaisched import UNLIMITED, Amounts, Entitlements, Session, fairshare
from kaisched_plugins.fair_sharing.tables import Table


def divided(session: Session, table: Table) -> Amounts:
    """Return ``(R, Q)``: the quota of each queue, and by weight what others leave of theirs.

    A queue that asks for less has less; the rest goes to its siblings, then up the tree. Resources
    that nobody bounds have no end.
    """
    queues, quotas = session.queues, table.quotas
    share = np.full((len(session.axis), len(queues)), UNLIMITED, np.int64)
    if not len(queues) or not len(table.rows):
        return share
    most = max(int(session.total.max()), 1)
    weights = np.array([float(weight) for weight in quotas.weight])
    entitlements = Entitlements(
        deserved=np.minimum(quotas.subtree, most),
        limit=np.minimum(quotas.cap, queues.limit[table.rows]),
        request=np.minimum(session.requested[table.rows], most),
        weights=np.repeat(weights[None], len(table.rows), axis=0),
        priority=np.zeros(len(queues), np.int64),
        rank=np.arange(len(queues)),
    )
    roots = quotas.parent < 0
    total = np.minimum(quotas.subtree[:, roots], most).sum(axis=1)
    unit = session.axis.unit[table.rows]
    share[table.rows] = fairshare.fair_share(queues.tree, total, entitlements, unit)
    return share
