"""How many pods may still be evicted: a shard may bound how many it evicts in any hour.

Counted is what was sent, and what this cycle has decided. Whoever is refused for this waits like
any other; what fits into the rest of the budget goes on.
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
    """Return how many pods may be evicted now; -1 for any number."""
    if policy.evictions_per_hour < 0:
        return NO_BOUND
    recent = sum(now_s - HOUR_S < at_s <= now_s for at_s in snapshot.evictions_s)
    return max(policy.evictions_per_hour - recent, 0)


def may_evict(session: Session, pods: int) -> bool:
    """Tell whether so many pods more may be evicted in this cycle."""
    policy = session.policy
    if policy.evictions_per_hour < 0 or not pods:
        return True
    left = left_of(session.snapshot, policy, session.now_s)
    return len(session.outcome.evictions) + pods <= left


def is_spent(session: Session, action: str) -> bool:
    """Tell whether an action may evict nothing; then every job that waits is told why."""
    if may_evict(session, 1):
        return False
    jobs = session.jobs
    waits = (jobs.pending > 0) & (jobs.refusal == 0)
    session.outcome.note_all_claims(action, waits * _CODE)
    return True
