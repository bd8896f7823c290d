"""The figures of queues that lend: shares, and what they are made of, for metrics and reports."""

from __future__ import annotations

import numpy as np

from kaisched import FloatVec
from kaisched_plugins.fair_sharing.holdings import Holdings
from kaisched_plugins.fair_sharing.quotas import Quotas


def figures(quotas: Quotas, holdings: Holdings) -> dict[str, FloatVec]:
    """Return each queue's share, its weight, and what it borrows of what can be lent to it."""
    share, part = np.zeros(len(quotas)), np.zeros(len(quotas))
    for queue in range(len(quotas)):
        terms = holdings.terms(queue)
        share[queue] = np.inf if terms.share.is_infinite else terms.share.near
        part[queue] = terms.borrowed / terms.lendable if terms.lendable else 0.0
    weight = np.array([float(each) for each in quotas.weight])
    return {"share": share, "borrowed_part": part, "weight": weight}
