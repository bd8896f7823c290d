"""The division of the cluster among the queues, remembered while its inputs are the same."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from kaisched import Amounts, BoolVec, Claims, FloatVec, RowVec, Session, fairshare

Fold = Callable[[RowVec, RowVec, RowVec, BoolVec, FloatVec], FloatVec]

_PLAN = "proportion.plan"
_DIVISION = "proportion.division"


@dataclass(frozen=True, slots=True, eq=False)
class _Plan:
    queues: object
    rank: Amounts
    plan: fairshare.TreePlan


@dataclass(frozen=True, slots=True, eq=False)
class _Division:
    queues: object
    mode: str
    total: bytes
    requested: bytes
    """Of the leaves: a pod that was waiting and now runs changes nothing."""
    share: Amounts


def divided(session: Session) -> Amounts:
    """Return the fair share ``(R, Q)``, the very same array while nothing it rests on has changed.

    With a weight fold it is divided anew each cycle: what the fold rests on is its plugin's secret.
    """
    fold = session.fold
    if fold is not None:
        return _divide(session, fold)
    snapshot = session.snapshot
    total = snapshot.total.tobytes()
    requested = (snapshot.allocated + snapshot.pending).tobytes()
    mode = session.policy.over_quota_weights
    known: _Division | None = session.hints.get(_DIVISION)
    if (
        known is not None
        and known.queues is session.queues
        and known.mode == mode
        and known.total == total
        and known.requested == requested
    ):
        return known.share
    share = _divide(session, None)
    session.hints[_DIVISION] = _Division(session.queues, mode, total, requested, share)
    return share


def _divide(session: Session, fold: Fold | None) -> Amounts:
    queues = session.queues
    known: _Plan | None = session.hints.get(_PLAN)
    if known is None or known.queues is not queues:
        # Queues stand in preorder, siblings by age: the row is the rank (rule R11).
        rank = np.arange(len(queues), dtype=np.int64)
        known = _Plan(
            queues,
            rank,
            fairshare.plan_levels(queues.tree, queues.priority, rank, len(queues.deserved)),
        )
        session.hints[_PLAN] = known
    claims = Claims(
        deserved=queues.deserved,
        limit=queues.limit,
        request=session.requested,
        weights=queues.weight,
        priority=queues.priority,
        rank=known.rank,
    )
    return fairshare.fair_share(
        queues.tree,
        session.snapshot.total,
        claims,
        session.axis.unit,
        fold,
        weight_mode="quota" if session.policy.over_quota_weights == "quota" else "equal",
        plan=known.plan,
    )
