"""The order of queues by what they used: rule R36 of docs/explanation/fairness.md."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kaisched import PODS, Amounts, FloatVec, IntVec, RowVec, Session

KEY_NAMES = (
    "beyond its share with the job (0 no, 1 yes)",
    "used, for its weight, where it is beyond its share",
)
"""What the keys of :meth:`UsageOrder.keys` are, for people."""


@dataclass(frozen=True, slots=True, eq=False)
class UsageOrder:
    """What queues may hold whatever they used, and what they used for their weight."""

    due: Amounts
    """``(R, Q)`` the share that a queue has with and without its history: the smaller of both."""
    used: FloatVec
    """``(R, Q)`` usage over weight; infinite for a queue without weight."""

    def keys(self, queue: RowVec, held: Amounts, ask: Amounts) -> tuple[IntVec | FloatVec, ...]:
        """Return the key columns ``(K,)`` of queues, low first (R36)."""
        is_beyond = (ask > 0) & (held + ask > self.due.take(queue, axis=1))
        is_beyond[PODS] = False
        used = np.where(is_beyond, self.used.take(queue, axis=1), 0.0).max(axis=0)
        return is_beyond.any(axis=0).view(np.int8), used


def order_of(session: Session, usage: FloatVec, weight: FloatVec, plain: Amounts) -> UsageOrder:
    """Return the order of a cycle.

    Args:
        session: of the cycle.
        usage: ``(R, Q)`` what counts against each queue (R23, R24).
        weight: ``(R, Q)`` the weights by which siblings share.
        plain: ``(R, Q)`` the fair shares as if nothing had been used.

    """
    used = np.full(usage.shape, np.inf)
    np.divide(usage, weight, out=used, where=weight > 0)
    return UsageOrder(np.minimum(session.fair_share, plain), used)
