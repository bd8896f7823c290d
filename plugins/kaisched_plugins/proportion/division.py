"""Divides the cluster among the queues, and keeps the division while its inputs are the same."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from kaisched import (
    UNLIMITED,
    Amounts,
    BoolVec,
    Entitlements,
    FloatVec,
    IntVec,
    RowVec,
    Session,
    fairshare,
    roll_up,
)

Fold = Callable[[RowVec, RowVec, RowVec, BoolVec, FloatVec], FloatVec]
HeadStart = Callable[..., IntVec | None]
Asked = tuple[Fold | None, HeadStart | None]

_PLAN = "proportion.plan"
_WHOLE_PLAN = "proportion.plan.whole"
_DIVISION = "proportion.division"


@dataclass(frozen=True, slots=True, eq=False)
class _Plan:
    queues: object
    rank: Amounts
    plan: fairshare.TreePlan
    most: IntVec
    """``(R,)`` the largest quota that is not unlimited."""


@dataclass(slots=True, eq=False)
class _Division:
    queues: object
    mode: str
    total: bytes
    ceiling: Amounts
    """``(R, 1)`` just above what any queue could get."""
    enough: Amounts
    """``(R, Q)`` one unit above the share."""
    told: Amounts
    """``(R, Q)`` the requests, at most ``enough``."""
    share: Amounts


def divided(session: Session) -> Amounts:
    """Return the fair share ``(R, Q)``, the same array object while its inputs are the same.

    A request of more than one unit above the share does not change the share: the queue is
    unsatisfied in each round either way. So the backlog of a busy queue, which changes all the
    time, may grow and shrink without a new division.

    With a weight fold, or with possible head starts, every cycle divides anew: the inputs of these
    answers are known only to their plugins.
    """
    queues = session.queues
    asked, mode = (session.fold, session.head_start), session.over_quota_weights
    is_own = asked == (None, None)
    known: _Division | None = session.hints.get(_DIVISION)
    total = session.total.tobytes()
    if known is not None and not (
        known.queues is queues and known.total == total and known.mode == mode and is_own
    ):
        known = None
    ceiling = _ceiling(session) if known is None else known.ceiling
    requests = roll_up(np.minimum(session.requested_by_jobs, ceiling), queues.tree)
    if known is not None and np.array_equal(np.minimum(requests, known.enough), known.told):
        return known.share
    share = _divide(session, requests, asked)
    _sum_up(session, share)
    if not is_own:
        return share
    enough = share + session.axis.unit[:, None]
    told = np.minimum(requests, enough)
    session.hints[_DIVISION] = _Division(queues, mode, total, ceiling, enough, told, share)
    return share


def _plan(session: Session, *, is_whole: bool = False) -> _Plan:
    """Return the values that depend only on the queues, kept while these are the same."""
    queues, key = session.queues, _WHOLE_PLAN if is_whole else _PLAN
    known: _Plan | None = session.hints.get(key)
    if known is None or known.queues is not queues:
        # Queues are in preorder, siblings by age: the row is the rank (rule R11).
        rank = np.arange(len(queues), dtype=np.int64)
        finite = np.where(queues.deserved < UNLIMITED, queues.deserved, 0)
        known = _Plan(
            queues,
            rank,
            fairshare.plan_levels(
                session.fair_tree, queues.priority, rank, len(queues.deserved), is_whole=is_whole
            ),
            finite.max(axis=1, initial=0),
        )
        session.hints[key] = known
    return known


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
    most = np.maximum(session.total, _plan(session).most)
    ceiling: Amounts = (most + session.axis.unit)[:, None]
    return ceiling


def _divide(
    session: Session,
    requests: Amounts,
    asked: Asked,
) -> Amounts:
    fold, start = asked
    queues, plan = session.queues, _plan(session, is_whole=start is not None)
    entitlements = Entitlements(
        deserved=queues.deserved,
        limit=queues.limit,
        request=requests,
        weights=queues.weight,
        priority=queues.priority,
        rank=plan.rank,
    )
    return fairshare.fair_share(
        session.fair_tree,
        session.total,
        entitlements,
        session.axis.unit,
        fold,
        start=start,
        weight_mode="quota" if session.over_quota_weights == "quota" else "equal",
        plan=plan.plan,
    )
