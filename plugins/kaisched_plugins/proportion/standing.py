"""The columns by which queues are ordered and gated: what of a queue stays the same in a cycle.

Built once for a division and a set of queues, and kept among the session's hints for as long as
both are the same objects. A question about ``K`` queues is then a handful of array operations.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kaisched import (
    PODS,
    UNLIMITED,
    Amounts,
    BoolVec,
    CodeVec,
    FloatVec,
    IntVec,
    Refusal,
    RowVec,
    Session,
    shares,
)

_OVER_LIMIT = np.int16(Refusal.OVER_LIMIT)
_OVER_QUOTA = np.int16(Refusal.NON_PREEMPTIBLE_OVER_QUOTA)

# x / 0.001 is x * 1000 exactly for whole x below 2**43 (the quotient's error is under half a unit
# in the last place): one division serves allowed and forbidden resources alike.
_FORBIDDEN_DIVISOR = 1.0 / shares.FORBIDDEN_FACTOR
_MOST_SHARES = 4


@dataclass(frozen=True, slots=True, eq=False)
class Standing:
    """Per queue: what it may hold. Rows of pod slots are set so that they never decide."""

    queues: object
    fair_share: Amounts
    total: Amounts
    bounds: Amounts
    """``(2R, Q)`` quota, then the most that may be held without touching a forbidden resource."""
    share_bound: Amounts
    """``(R, Q)`` fair share."""
    divisor: FloatVec
    """``(R, Q)`` what a held amount is divided by for the dominant share."""
    minus_priority: IntVec
    size: FloatVec
    """``(Q,)`` a total order that agrees with "smaller in one resource and larger in none"."""

    @classmethod
    def of(cls, session: Session) -> Standing:
        """Build the columns from the division and the queues."""
        queues, share, total = session.queues, session.fair_share, session.snapshot.total
        allocatable = shares.allocatable_share(queues.deserved, queues.limit, share)
        bound = np.where(allocatable == UNLIMITED, total[:, None], allocatable)
        divisor = np.where(bound > 0, bound.astype(np.float64), _FORBIDDEN_DIVISOR)
        divisor[PODS] = np.inf
        resources = len(allocatable)
        bounds = np.empty((2 * resources, len(queues)), np.int64)
        bounds[:resources] = queues.deserved
        bounds[resources:] = np.where(allocatable == 0, 0, UNLIMITED)
        share_bound = share.copy()
        for pods in (bounds[PODS], bounds[resources + PODS], share_bound[PODS]):
            pods[:] = UNLIMITED
        unit = np.maximum(total, 1)[:, None]
        sizes = np.minimum(allocatable, _MOST_SHARES * unit) / unit
        sizes[PODS] = 0.0
        return cls(
            queues=queues,
            fair_share=share,
            total=total,
            bounds=bounds,
            share_bound=share_bound,
            divisor=divisor,
            minus_priority=-queues.priority,
            size=np.add.reduce(sizes, axis=0),
        )

    def is_of(self, session: Session) -> bool:
        """Tell whether the columns still hold."""
        return (
            self.queues is session.queues
            and self.fair_share is session.fair_share
            and (self.total is session.snapshot.total or _same(self.total, session.snapshot.total))
        )

    def order(self, queue: RowVec, held: Amounts, ask: Amounts) -> tuple[IntVec | FloatVec, ...]:
        """Return the key columns of the queues, low first."""
        resources, count = held.shape
        then = held + ask
        # Both bounds in one comparison: over the quota, and into a forbidden resource.
        passes = np.logical_or.reduce(
            then > self.bounds.take(queue, axis=1).reshape(2, resources, count), axis=1
        )
        amounts = np.empty((2, resources, count))
        amounts[0] = then
        amounts[1] = held
        dominant = np.maximum.reduce(amounts / self.divisor.take(queue, axis=1), axis=1)
        above = held > self.share_bound.take(queue, axis=1)
        over = is_over_utilised(held, above) if above.any() else np.zeros(count, np.int64)
        return (
            over,
            passes[0].view(np.int8),
            self.minus_priority.take(queue),
            passes[1].view(np.int8),
            dominant[0],
            dominant[1],
            self.size.take(queue),
        )


def is_over_utilised(held: Amounts, above: BoolVec) -> IntVec:
    """Tell, ``(K,)``, with 1, who holds more than its fair share of every resource that it holds.

    ``above`` ``(R, K)`` marks amounts over the fair share. KAI asks for all three resources, held
    or not, so that a queue of CPU-only jobs can never be over-utilised there.
    """
    within = (held > 0) & ~above
    within[PODS] = False
    over: IntVec = np.asarray(above.any(axis=0) & ~within.any(axis=0)).astype(np.int64)
    return over


def limit_codes(bound: Amounts, held: Amounts, ask: Amounts) -> CodeVec | None:
    """Return OVER_LIMIT ``(K,)`` where a resource asked for passes its bound, or None."""
    over = _over(bound, held, ask)
    return None if over is None else over * _OVER_LIMIT


def quota_codes(
    bound: Amounts, held: Amounts, ask: Amounts, is_preemptible: BoolVec
) -> CodeVec | None:
    """Return NON_PREEMPTIBLE_OVER_QUOTA ``(K,)`` where such a job passes the quota, or None."""
    over = _over(bound, held, ask)
    return None if over is None else (over & ~is_preemptible) * _OVER_QUOTA


def _over(bound: Amounts, held: Amounts, ask: Amounts) -> BoolVec | None:
    # A difference, so that nothing overflows next to UNLIMITED; at least 0, so that a resource not
    # asked for never counts, even where the queue is over its bound already.
    over = np.logical_or.reduce(ask > np.maximum(bound - held, 0), axis=0)
    return over if over.any() else None


def _same(one: Amounts, other: Amounts) -> bool:
    return one.shape == other.shape and bool((one == other).all())
