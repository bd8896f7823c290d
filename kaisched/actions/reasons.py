"""The sentence that an eviction carries: the rule, the shares before and after, and for whom."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

import numpy as np

from kaisched.core.axis import PODS
from kaisched.core.worth import worth
from kaisched.units import UNLIMITED, format_amount

if TYPE_CHECKING:
    from kaisched.actions.plan import Plan
    from kaisched.core.axis import Amounts
    from kaisched.framework.claims import Claim
    from kaisched.framework.outcome import Reason
    from kaisched.framework.session import Session


_WORTH: Final = "reasons.worth"


def reclaim_reason(session: Session, claim: Claim, plan: Plan) -> Reason:
    """Return what makes for example ``reclaimed for team/job (queue b: gpu 0 to 1, ...) from ...``.

    The sentence is made when somebody reads it, of what the queues hold now.
    """
    queues = {int(session.jobs.queue_of_job[part.job]) for part in plan.parts}
    held = session.ledger.held.copy()
    short = _undershoot(session, plan, held) if plan.is_last_resort else ""
    if plan.moved:
        short += f"; pods that make way for it by moving: {plan.moved}"
    return partial(_reclaimed, claim, sorted(queues), held, short)


def _reclaimed(claim: Claim, queues: list[int], held: Amounts, short: str, session: Session) -> str:
    resource = main_resource(session, claim.ask)
    losers = "; ".join(_loser(session, claim, queue, resource, held) for queue in queues[:3])
    more = f"; and {len(queues) - 3} more queues" if len(queues) > 3 else ""  # noqa: PLR2004
    taker = _standing(session, claim.queue, resource, held)
    return f"reclaimed for {session.jobs.name[claim.job]} ({taker}) from {losers}{more}{short}"


def _loser(session: Session, claim: Claim, queue: int, resource: int, held: Amounts) -> str:
    """Tell of a queue that gives, and of the queue above it that explains why, if it is not enough.

    Queues of two departments are compared by what their departments hold; and in a department that
    has less than was promised, a queue gives though it holds no more than its own share.
    """
    standing = _standing(session, queue, resource, held)
    path = session.queues.tree.path(queue).tolist()
    shared = set(session.queues.tree.path(claim.queue).tolist())
    compared = next(at for at, row in enumerate([*path[1:], -1]) if row in shared or row < 0)
    counts = _counts(session, path[compared], resource)
    if compared:
        return f"{standing} (in {_standing(session, path[compared], resource, held)}{counts})"
    if len(path) == 1 or session.held[resource, queue] > session.fair_share[resource, queue]:
        return standing
    return f"{standing}{counts} (in {_standing(session, path[1], resource, held)})"


def _counts(session: Session, queue: int, resource: int) -> str:
    """Say what share and quota count for where more was promised than there is above (R34)."""
    queues, told = session.queues, (session.fair_share, session.queues.deserved)
    found: tuple[Amounts, Amounts] | None = session.found.get(_WORTH)
    if found is None:
        columns = queues.deserved, session.fair_share, queues.priority
        found = session.found[_WORTH] = worth(queues.tree, session.axis.unit, columns)
    counts = [int(amounts[resource, queue]) for amounts in reversed(found)]
    if counts == [int(amounts[resource, queue]) for amounts in told]:
        return ""
    share, quota = (_shown(session.axis.names[resource], amount) for amount in counts)
    return f", which count as {share} and {quota}"


def _undershoot(session: Session, plan: Plan, held: Amounts) -> str:
    """Name a queue that is left with less than its quota, and what of it went whole."""
    queues, tree = session.queues, session.queues.tree
    paths = [tree.path(int(session.jobs.queue_of_job[part.job])).tolist() for part in plan.parts]
    for row in dict.fromkeys(row for path in paths for row in path):
        parts = [part for part, path in zip(plan.parts, paths, strict=True) if row in path]
        shapes = session.tasks.shape_of_task[[task for part in parts for task in part.tasks]]
        is_lost = session.shapes.request[:, shapes].any(axis=1)
        quota = queues.deserved[:, row]
        if not (is_lost & (held[:, row] < quota) & (quota < UNLIMITED)).any():
            continue
        whole = max(len(part.tasks) for part in parts)
        why = f", as a gang of {whole} goes whole" if whole > 1 else ""
        return f"; queue {queues.name[row]} is left below its quota{why}"
    return ""


def preempt_reason(session: Session, claim: Claim, plan: Plan) -> str:
    """Return for example ``preempted by team/job: priority 100 over 50 in queue a``."""
    jobs = session.jobs
    over = max((int(jobs.priority[part.job]) for part in plan.parts), default=0)
    queue = session.queues.name[claim.queue]
    return (
        f"preempted by {jobs.name[claim.job]}:"
        f" priority {int(jobs.priority[claim.job])} over {over} in queue {queue}"
    )


def consolidate_reason(session: Session, claim: Claim, pods: int) -> str:
    """Return for example ``moved, one of 3 pods, so that team/job fits``."""
    number = "the only pod" if pods == 1 else f"one of {pods} pods"
    return f"moved, {number}, so that {session.jobs.name[claim.job]} fits; its new node is planned"


def main_resource(session: Session, ask: Amounts) -> int:
    """Return the resource of which ``ask`` ``(R,)`` takes the largest part of the cluster."""
    asked = [row for row in np.flatnonzero(ask).tolist() if row != PODS]
    total = session.snapshot.total
    return max(asked, key=lambda row: int(ask[row]) / max(1, int(total[row])), default=PODS)


def _standing(session: Session, queue: int, resource: int, held_after: Amounts) -> str:
    name = session.axis.names[resource]
    before, after = (
        format_amount(name, int(held[resource, queue])) for held in (session.held, held_after)
    )
    told = session.fair_share, session.queues.deserved
    share, quota = (_shown(name, int(amounts[resource, queue])) for amounts in told)
    return (
        f"queue {session.queues.name[queue]}: {name} {before} to {after},"
        f" fair share {share}, quota {quota}"
    )


def _shown(resource: str, amount: int) -> str:
    return "unlimited" if amount >= UNLIMITED else format_amount(resource, amount)
