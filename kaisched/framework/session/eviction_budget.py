"""The eviction budget: a shard may limit how many pods it evicts in any hour.

Evictions that were sent, and those that this cycle has decided, count. A job that is refused for
the budget waits like any other; smaller evictions that fit into the rest of the budget go on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from kaisched.core.refusals import Refusal

if TYPE_CHECKING:
    from kaisched.core.snapshot import Snapshot
    from kaisched.framework.policy import Policy
    from kaisched.framework.session.session import Session

_CODE: Final = np.int16(Refusal.EVICTION_BUDGET)
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
    if policy.evictions_per_hour < 0 or not pods:
        return True
    left = left_of(session.snapshot, policy, session.now_s)
    return len(session.outcome.evictions) + pods <= left


def is_spent(session: Session, action: str) -> bool:
    """Tell whether the budget is used up; if so, note it as the refusal of every waiting job."""
    if may_evict(session, 1):
        return False
    jobs = session.jobs
    waits = (jobs.pending > 0) & (jobs.refusal == 0)
    session.outcome.note_all_claims(action, waits * _CODE)
    return True
