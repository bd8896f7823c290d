"""The figures of queues that lend: shares, and what they are made of, for metrics and reports."""

from __future__ import annotations

import numpy as np

from kaisched import Amounts, FloatVec, Session
from kaisched_plugins.fair_sharing.holdings import Holdings
from kaisched_plugins.fair_sharing.quotas import Quotas, added
from kaisched_plugins.fair_sharing.tables import Table


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
