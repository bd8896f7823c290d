"""The division of the cluster among the queues, remembered while its inputs are the same."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from kaisched import (
    UNLIMITED,
    Amounts,
    BoolVec,
    Claims,
    FloatVec,
    IntVec,
    RowVec,
    Session,
    fairshare,
    roll_up,
)

Fold = Callable[[RowVec, RowVec, RowVec, BoolVec, FloatVec], FloatVec]

_PLAN = "proportion.plan"
_DIVISION = "proportion.division"


@dataclass(frozen=True, slots=True, eq=False)
class _Plan:
    queues: object
    rank: Amounts
    plan: fairshare.TreePlan
    most: IntVec
    """``(R,)`` the largest quota that is not unlimited."""


@dataclass(frozen=True, slots=True, eq=False)
class _Division:
    queues: object
    mode: str
    total: bytes
    requested: bytes
    """Of the leaves, cut: a pod that was waiting and now runs changes nothing."""
    share: Amounts


def divided(session: Session) -> Amounts:
    """Return the fair share ``(R, Q)``, the very same array while nothing it rests on has changed.

    Requests are cut to just above what anyone could be given, which no share can tell from the
    whole: the backlog of a busy queue may then grow and shrink without a new division. With a
    weight fold it is divided anew each cycle: what the fold rests on is its plugin's secret.
    """
    plan = _plan(session)
    snapshot = session.snapshot
    ceiling = np.maximum(snapshot.total, plan.most) + session.axis.unit
    requests = np.minimum(snapshot.allocated + snapshot.pending, ceiling[:, None])
    fold = session.fold
    if fold is not None:
        return _divide(session, plan, requests, fold)
    total, requested = snapshot.total.tobytes(), requests.tobytes()
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
    share = _divide(session, plan, requests, None)
    session.hints[_DIVISION] = _Division(session.queues, mode, total, requested, share)
    return share


def _plan(session: Session) -> _Plan:
    """Return what depends on the queues alone, kept while they are the same."""
    queues = session.queues
    known: _Plan | None = session.hints.get(_PLAN)
    if known is None or known.queues is not queues:
        # Queues stand in preorder, siblings by age: the row is the rank (rule R11).
        rank = np.arange(len(queues), dtype=np.int64)
        finite = np.where(queues.deserved < UNLIMITED, queues.deserved, 0)
        known = _Plan(
            queues,
            rank,
            fairshare.plan_levels(queues.tree, queues.priority, rank, len(queues.deserved)),
            finite.max(axis=1, initial=0),
        )
        session.hints[_PLAN] = known
    return known


def _divide(session: Session, plan: _Plan, requests: Amounts, fold: Fold | None) -> Amounts:
    queues = session.queues
    claims = Claims(
        deserved=queues.deserved,
        limit=queues.limit,
        request=roll_up(requests, queues.tree),
        weights=queues.weight,
        priority=queues.priority,
        rank=plan.rank,
    )
    return fairshare.fair_share(
        queues.tree,
        session.snapshot.total,
        claims,
        session.axis.unit,
        fold,
        weight_mode="quota" if session.policy.over_quota_weights == "quota" else "equal",
        plan=plan.plan,
    )
