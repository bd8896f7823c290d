"""Quotas for non-preemptible work: within the pool, and within the project over all pools."""

from __future__ import annotations

import numpy as np

from kaisched import UNLIMITED, Amounts


def firm_quotas(deserved: Amounts, overdrawn: Amounts | None, scope: str) -> Amounts:
    """Return ``(R, Q)`` up to which queues may hold non-preemptible work (R17).

    What a project holds in other pools beyond its quotas there counts against its quota here: so
    what it holds everywhere stays within the sum of its quotas. ``pool`` as scope is without that.
    """
    if overdrawn is None or scope == POOL:
        return deserved
    return np.where(deserved < UNLIMITED, np.maximum(deserved - overdrawn, 0), deserved)


POOL = "pool"
