"""What history owes to whom, and may evict for: rule R35 of docs/explanation/fairness.md."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kaisched import (
    PARTS,
    PODS,
    Amounts,
    Claims,
    CodeVec,
    FloatVec,
    RowVec,
    Session,
    fairshare,
)
from kaisched_plugins.time_based_fairshare import refusals

_NOT_WORTH_IT = np.int16(refusals.NOT_WORTH_IT)


@dataclass(slots=True, eq=False)
class Debts:
    """What the division without history gives, and what history is worth on top of it."""

    plain: Amounts
    """``(R, Q)`` fair shares as if nothing had been used."""
    amount: FloatVec
    """``(R, Q)`` what a queue has used less than its weight's part, in units times seconds."""
    cost_s: float
    """For how long what is evicted is taken to have run."""

    def codes(self, session: Session, job: RowVec, ask: Amounts) -> CodeVec | None:
        """Return NOT_WORTH_IT ``(K,)`` for claims that destroy more than history owes."""
        held = session.ledger.held if session.has_moved else session.held
        queue = session.jobs.queue_of_job.take(job)
        beyond = held.take(queue, axis=1) + ask > self.plain.take(queue, axis=1)
        beyond &= ask > 0
        beyond[PODS] = False
        if not beyond.any():
            return None
        beyond &= self.amount.take(queue, axis=1) < ask * self.cost_s
        over = np.logical_or.reduce(beyond, axis=0)
        return over * _NOT_WORTH_IT if over.any() else None


def debts_of(session: Session, counted: FloatVec, history_s: float, cost_s: float) -> Debts:
    """Return the debts of a cycle, of usage ``(R, Q)`` beyond quotas in parts per billion."""
    queues, tree = session.queues, session.queues.tree
    claims = Claims(
        deserved=queues.deserved,
        limit=queues.limit,
        request=session.requested,
        weights=queues.weight,
        priority=queues.priority,
        rank=np.arange(len(queues)),
    )
    plain = fairshare.fair_share(
        tree,
        session.snapshot.total,
        claims,
        np.ones_like(session.axis.unit),  # a unit that goes to the largest remainder is nobody's
        weight_mode="quota" if session.policy.over_quota_weights == "quota" else "equal",
    )
    wants = session.requested > plain
    owed = _owed(session, counted * wants, np.maximum(queues.weight, 0.0) * wants)
    owed *= session.snapshot.total[:, None] * (history_s / PARTS)
    return Debts(plain, owed, cost_s)


def _owed(session: Session, used: FloatVec, weight: FloatVec) -> FloatVec:
    """Return parts ``(R, Q)``: the weight's part of what contestants used, less what a queue used.

    The most that a queue or one above it is owed.
    """
    queues, tree = session.queues, session.queues.tree
    owed = np.zeros_like(used)
    for level in tree.levels:
        parent = tree.parent_of_queue[level]
        _, group = np.unique(
            np.stack((parent, queues.priority[level])), axis=1, return_inverse=True
        )
        count = int(group.max()) + 1
        for row in range(len(used)):
            mine, weights = used[row, level], weight[row, level]
            together = np.bincount(group, mine, count)
            sums = np.maximum(np.bincount(group, weights, count), 1e-9)
            owed[row, level] = weights / sums[group] * together[group] - mine
        if parent[0] >= 0:
            owed[:, level] = np.maximum(owed[:, level], owed[:, parent])
    return owed
