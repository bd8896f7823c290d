"""Quotas that are not all there: more below a queue than it has, or less than firm work holds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np

from kaisched.core.axis import Amounts
from kaisched.core.tables import QueueTable
from kaisched.units import UNLIMITED, format_amount

CHILDREN: Final = "ChildrenAboveQuota"
FIRM: Final = "BelowNonPreemptible"
_GPU: Final = "gpu"


class OverSubscription(NamedTuple):
    """Why the quota of a queue is not enough."""

    reason: str
    """CHILDREN or FIRM; the first where both hold."""
    message: str


def children_quota(queues: QueueTable, deserved: Amounts) -> Amounts:
    """Return ``(R, Q)`` the sum of the limited quotas directly below each queue."""
    parent = queues.tree.parent_of_queue
    inner = parent >= 0
    below = np.zeros_like(deserved)
    counted = np.where(deserved < UNLIMITED, deserved, 0)
    for at in range(len(deserved)):
        np.add.at(below[at], parent[inner], counted[at, inner])
    return below


def over_subscribed(
    queues: QueueTable, deserved: Amounts, firm: Amounts, resources: Sequence[str]
) -> dict[int, OverSubscription]:
    """Return the queues that promise more than their quota, by row.

    Args:
        queues: their tree.
        deserved: ``(R, Q)`` quotas.
        firm: ``(R, Q)`` what the non-preemptible jobs of each queue and of all below hold.
        resources: names of the rows.

    An unlimited quota below a limited one promises too much of GPUs. Of other resources it is also
    what a queue has that says nothing about them, so there it counts as nothing.

    """
    parent = queues.tree.parent_of_queue
    inner = parent >= 0
    below = children_quota(queues, deserved)
    for at, name in enumerate(resources):
        if name == _GPU:
            boundless = parent[inner & (deserved[at] >= UNLIMITED)]
            below[at, boundless] = UNLIMITED
    is_limited = deserved < UNLIMITED
    has_more, is_short = is_limited & (below > deserved), is_limited & (firm > deserved)
    found = {}
    for row in np.flatnonzero((has_more | is_short).any(axis=0)).tolist():
        told = [
            f"the quotas of the queues below add up to {_told(name, int(below[at, row]))},"
            f" more than its own of {format_amount(name, int(deserved[at, row]))}"
            for at, name in enumerate(resources)
            if has_more[at, row]
        ]
        reason = CHILDREN if told else FIRM
        told += [
            f"work that must not be evicted holds {_told(name, int(firm[at, row]))}, more than the"
            f" quota of {format_amount(name, int(deserved[at, row]))}"
            for at, name in enumerate(resources)
            if is_short[at, row]
        ]
        found[row] = OverSubscription(reason, "; ".join(told))
    return found


def _told(name: str, amount: int) -> str:
    whole = "an unlimited amount of" if amount >= UNLIMITED else format_amount(name, amount)
    return f"{whole} {name}"
