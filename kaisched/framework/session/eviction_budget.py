"""How many pods may be evicted: in any hour, and in one cycle.

Of the hour's budget, evictions that were sent and those that this cycle has decided count. A job
that is refused for it waits like any other; smaller evictions that fit into the rest go on.

A cycle evicts no more than can be sent in a few seconds, so that no cycle gets long. A job whose
turn comes before is still served whole; the next cycle goes on with those behind it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from kaisched.core.refusals import Refusal

if TYPE_CHECKING:
    from kaisched.core.axis import RowVec
    from kaisched.core.snapshot import Snapshot
    from kaisched.framework.policy import Policy
    from kaisched.framework.session.session import Session

_CODE: Final = np.int16(Refusal.EVICTION_BUDGET)
_FULL: Final = np.int16(Refusal.CYCLE_EVICTIONS)
HOUR_S: Final = 3600.0
NO_BOUND: Final = -1


def left_of(snapshot: Snapshot, policy: Policy, now_s: float) -> int:
    """Return how many pods may be evicted now; -1 for no limit."""
    if policy.evictions_per_hour < 0:
        return NO_BOUND
    recent = sum(now_s - HOUR_S < at_s <= now_s for at_s in snapshot.evictions_s)
    return max(policy.evictions_per_hour - recent, 0)


def may_evict(session: Session, pods: int) -> bool:
    """Tell whether so many more pods may be evicted in this cycle."""
    policy = session.policy
    if not pods:
        return True
    if is_full(session):
        return False
    if policy.evictions_per_hour < 0:
        return True
    left = left_of(session.snapshot, policy, session.now_s)
    return len(session.outcome.evictions) + pods <= left


def is_full(session: Session) -> bool:
    """Tell whether this cycle has evicted as many pods as one may."""
    return len(session.outcome.evictions) >= session.policy.max_evictions_per_cycle


def is_spent(session: Session, action: str) -> bool:
    """Tell whether no more may be evicted; if so, note it as the refusal of every waiting job."""
    if may_evict(session, 1):
        return False
    jobs = session.jobs
    waits = (jobs.pending > 0) & (jobs.refusal == 0)
    session.outcome.note_all_claims(action, waits * (_FULL if is_full(session) else _CODE))
    return True


def stops_here(session: Session, action: str, job: RowVec) -> bool:
    """Tell whether the cycle evicts no more; if so, note that ``job`` wait for the next one."""
    if not is_full(session):
        return False
    session.outcome.note_claims(action, job, np.full(len(job), _FULL))
    return True
