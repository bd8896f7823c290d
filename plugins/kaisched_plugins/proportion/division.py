"""Divides the cluster among the queues."""

from __future__ import annotations

import numpy as np

from kaisched import (
    UNLIMITED,
    Amounts,
    Entitlements,
    Session,
    fairshare,
    roll_up,
)


def divided(session: Session) -> Amounts:
    """Return the fair share ``(R, Q)``."""
    queues = session.queues
    entitlements = Entitlements(
        deserved=queues.deserved,
        limit=queues.limit,
        request=roll_up(np.minimum(session.requested_by_jobs, _ceiling(session)), queues.tree),
        weights=queues.weight,
        priority=queues.priority,
        # Queues are in preorder, siblings by age: the row is the rank (rule R11).
        rank=np.arange(len(queues), dtype=np.int64),
    )
    share = fairshare.fair_share(
        session.fair_tree,
        session.total,
        entitlements,
        session.axis.unit,
        session.weight_transform,
        start=session.head_start,
        weight_mode="quota" if session.over_quota_weights == "quota" else "equal",
    )
    _sum_up(session, share)
    return share


def _sum_up(session: Session, share: Amounts) -> None:
    """Give inner queues the sum of the shares below them, where only leaf queues divide."""
    tree = session.queues.tree
    if session.fair_tree is tree:
        return
    of_leaves = np.where(tree.is_leaf, np.minimum(share, UNLIMITED // max(len(tree), 1)), 0)
    sums = np.minimum(roll_up(of_leaves, tree), UNLIMITED)
    share[:, ~tree.is_leaf] = sums[:, ~tree.is_leaf]


def _ceiling(session: Session) -> Amounts:
    """Return ``(R, 1)`` just above what any queue could get: sums of such cannot overflow."""
    deserved = session.queues.deserved
    most = np.where(deserved < UNLIMITED, deserved, 0).max(axis=1, initial=0)
    ceiling: Amounts = (np.maximum(session.total, most) + session.axis.unit)[:, None]
    return ceiling
