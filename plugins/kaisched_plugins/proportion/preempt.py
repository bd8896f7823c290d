"""Limits what a preemption may add to its queue beyond what its victims free: rule R17."""

from __future__ import annotations

import numpy as np

from kaisched import PODS, UNLIMITED, Amounts, CodeVec, RowVec, Session
from kaisched_plugins.proportion import refusals
from kaisched_plugins.proportion.standing import is_beyond

_OVER_FAIR_SHARE = np.int16(refusals.OVER_FAIR_SHARE)


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
    over = is_beyond(bound, held, ask)
    return None if over is None else over * _OVER_FAIR_SHARE
