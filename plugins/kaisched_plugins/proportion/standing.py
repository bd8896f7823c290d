"""The columns by which queues are ordered and gated; they stay the same during a cycle.

They are built once for a division and a set of queues. A question about ``K`` queues is then a few
array operations.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kaisched import (
    PODS,
    UNLIMITED,
    Amounts,
    CodeVec,
    FloatVec,
    IntVec,
    RowVec,
    Session,
    shares,
)
from kaisched_plugins.proportion import refusals

# x / 0.001 is x * 1000 exactly for whole x below 2**43 (the quotient's error is under half a unit
# in the last place): one division serves allowed and forbidden resources alike.
_FORBIDDEN_DIVISOR = 1.0 / shares.FORBIDDEN_FACTOR
_MOST_SHARES = 4


@dataclass(slots=True, eq=False)
class Standing:
    """The bounds of each queue. Rows of pod slots are set so that they never decide.

    The columns are never written after construction; freezing them would cost a tenth of it.
    """

    allocatable: Amounts
    bounds: Amounts
    """``(3R + 1, Q)`` quota; fair share; nothing; and last the priority, negative."""
    forbidden: Amounts
    """``(R, Q)`` the most that may be held without touching a forbidden resource."""
    divisors: FloatVec
    """``(R + 1, Q)`` what a held amount is divided by for the dominant share; and last the size, a
    total order that agrees with "smaller in one resource and larger in none"."""

    @classmethod
    def of(cls, session: Session) -> Standing:
        """Build the columns from the division and the queues."""
        queues, share, total = session.queues, session.fair_share, session.total
        allocatable = shares.allocatable_share(queues.deserved, queues.limit, share)
        resources = len(allocatable)
        bounds = np.zeros((3 * resources + 1, len(queues)), np.int64)
        bounds[:resources] = queues.deserved
        bounds[resources : 2 * resources] = share
        bounds[PODS:-1:resources] = UNLIMITED
        bounds[-1] = -queues.priority
        forbidden = np.where(allocatable != 0, UNLIMITED, 0)
        forbidden[PODS] = UNLIMITED
        return cls(allocatable, bounds, forbidden, _divisors(allocatable, total[:, None]))

    def entitled(self, queue: RowVec, held: Amounts, ask: Amounts) -> tuple[IntVec, ...]:
        """Return the key columns of what queues are entitled to, low first."""
        resources, count = held.shape
        amounts = np.stack((held + ask, held, held))
        bounds = self.bounds.take(queue, axis=1)
        # All bounds in one comparison: quota, fair share, nothing at all.
        above = amounts > bounds[:-1].reshape(3, resources, count)
        counts = np.add.reduce(above.view(np.int8), axis=1, dtype=np.int16)
        passes = counts > 0
        # A queue is over-utilised if it holds more than its fair share of every resource that it
        # holds. KAI compares all three resources, held or not, so a CPU-only queue never is.
        passes[1] &= counts[1] == counts[2]
        codes = passes.view(np.int8)
        return (codes[1], codes[0], bounds[-1])

    def ratios(self, queue: RowVec, held: Amounts, ask: Amounts) -> tuple[IntVec | FloatVec, ...]:
        """Return the key columns of how full the shares of queues are, low first."""
        divisors, amounts = self.divisors.take(queue, axis=1), np.stack((held + ask, held))
        is_forbidden = np.logical_or.reduce(amounts[0] > self.forbidden.take(queue, axis=1), axis=0)
        dominant = np.maximum.reduce(amounts / divisors[:-1], axis=1)
        return (is_forbidden.view(np.int8), dominant[0], dominant[1], divisors[-1])


ENTITLED_NAMES = (
    "above its fair share of all that it holds (0 no, 1 yes)",
    "above its quota with the job (0 no, 1 yes)",
    "-priority of the queue",
)
RATIO_NAMES = (
    "with the job, holds what it may not have (0 no, 1 yes)",
    "dominant share with the job",
    "dominant share",
    "size",
)
"""What the keys of :meth:`Standing.entitled` and :meth:`Standing.ratios` are, for programs."""
ENTITLED_WORDS = (
    "{whose} holds more than its fair share, and the other queue does not",
    "{whose} would be above its quota with the job, and the other queue would not",
    "{whose} has the lower priority, {own} against {other}",
)
RATIO_WORDS = (
    "{whose} would hold something that it may not have, and the other queue would not",
    "{whose} would use more of what it may have with the job: {own} of it against {other}",
    "{whose} uses more of what it may have: {own} of it against {other}",
    "{whose} may have more in all",
)
"""What puts a queue behind by each of these keys, for people."""


def _divisors(allocatable: Amounts, total: Amounts) -> FloatVec:
    bound = allocatable.copy()
    np.copyto(bound, total, where=allocatable == UNLIMITED)
    divisors = np.empty((len(allocatable) + 1, allocatable.shape[1]))
    divisors[:-1] = bound
    np.copyto(divisors[:-1], _FORBIDDEN_DIVISOR, where=bound <= 0)
    divisors[PODS] = np.inf
    unit = np.maximum(total, 1)
    sizes = np.minimum(allocatable, _MOST_SHARES * unit) / unit
    sizes[PODS] = 0.0
    np.add.reduce(sizes, axis=0, out=divisors[-1])
    return divisors


def codes_beyond(bound: Amounts, held: Amounts, ask: Amounts, code: int) -> CodeVec | None:
    """Return a code ``(K,)`` where a resource asked for passes its bound, or None for nowhere."""
    # A difference, so that nothing overflows next to UNLIMITED; at least 0, so that a resource not
    # asked for never counts, even where the queue is over its bound already.
    over = np.logical_or.reduce(ask > np.maximum(bound - held, 0), axis=0)
    return over * np.int16(code) if over.any() else None


# Quotas for non-preemptible work: within the pool, and within the project over all pools.


def firm_quotas(deserved: Amounts, overdrawn: Amounts | None, scope: str) -> Amounts:
    """Return ``(R, Q)`` up to which queues may hold non-preemptible work (R17).

    What a project holds in other pools beyond its quotas there counts against its quota here: so
    what it holds everywhere stays within the sum of its quotas. ``pool`` as scope is without that.
    """
    if overdrawn is None or scope == POOL:
        return deserved
    return np.where(deserved < UNLIMITED, np.maximum(deserved - overdrawn, 0), deserved)


POOL = "pool"


# Limits what a preemption may add to its queue beyond what its victims free: rule R17.


def growth_codes(session: Session, queue: RowVec, held: Amounts, ask: Amounts) -> CodeVec | None:
    """Return OVER_FAIR_SHARE ``(K,)`` where queues would use other queues' shares, or None.

    A queue may have its fair share or what it held when the cycle began, and what no share covers.
    ``held`` and ``ask`` are ``(R, K)``.
    """
    total = session.total[:, None]
    due = np.maximum(np.minimum(session.fair_share, total), session.held)
    unclaimed = total - due.compress(session.queues.tree.is_leaf, axis=1).sum(axis=1, keepdims=True)
    bound = due.take(queue, axis=1) + np.maximum(unclaimed, 0)
    bound[PODS] = UNLIMITED
    if session.fair_tree is not session.queues.tree:
        bound[:, ~session.queues.tree.is_leaf.take(queue)] = UNLIMITED  # nothing is due to them
    return codes_beyond(bound, held, ask, int(refusals.OVER_FAIR_SHARE))
