"""The reason of an eviction: the policy's sentence, or which queue takes from which."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from kaisched.framework.report.records import EvictionReason

if TYPE_CHECKING:
    from collections.abc import Callable

    from kaisched.actions.eviction.plan import Plan
    from kaisched.framework.session.outcome import Reason
    from kaisched.framework.session.session import Session
    from kaisched.framework.session.units import Claim, Unit

_NAMED = 3
"""At most so many queues are named."""


def eviction_reason(session: Session, claim: Claim, plan: Plan) -> Reason:
    """Return a function that makes the reason of a plan's evictions, once it is read."""
    if plan.pass_number != claim.pass_number:
        claim = replace(claim, pass_number=plan.pass_number)
    own = session.ask.eviction_reason(session, claim, plan.units)
    plain = _preempted if claim.action == "preempt" else _taken
    return partial(_reason, own or partial(plain, claim, tuple(plan.units)), plan.moved)


def _reason(
    made: Callable[[Session], EvictionReason], moved: int, session: Session
) -> EvictionReason:
    reason = made(session)
    if not moved:
        return reason
    sentence = f"{reason.sentence}; pods that make way for it by moving: {moved}"
    return reason._replace(sentence=sentence)


def _preempted(claim: Claim, units: tuple[Unit, ...], session: Session) -> EvictionReason:
    """Return for example ``preempted by team/job: priority 100 over 50 in queue a``."""
    jobs = session.jobs
    over = max((int(jobs.priority[unit.job]) for unit in units), default=0)
    queue = session.queues.name[claim.queue]
    return EvictionReason(
        f"preempted by {jobs.name[claim.job]}:"
        f" priority {int(jobs.priority[claim.job])} over {over} in queue {queue}"
    )


def _taken(claim: Claim, units: tuple[Unit, ...], session: Session) -> EvictionReason:
    """Return for example ``reclaim for team/job of queue a, from queue b``."""
    jobs, names = session.jobs, session.queues.name
    losers = sorted({names[int(jobs.queue_of_job[unit.job])] for unit in units})
    more = f" and {len(losers) - _NAMED} more" if len(losers) > _NAMED else ""
    return EvictionReason(
        f"{claim.action} for {jobs.name[claim.job]} of queue {names[claim.queue]},"
        f" from queue {', '.join(losers[:_NAMED])}{more}"
    )


def consolidate_reason(session: Session, claim: Claim, pods: int) -> str:
    """Return for example ``moved, one of 3 pods, so that team/job fits``."""
    number = "the only pod" if pods == 1 else f"one of {pods} pods"
    return f"moved, {number}, so that {session.jobs.name[claim.job]} fits; its new node is planned"
