"""Preemption delay: how long a job waits before other jobs may be evicted for it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from kaisched.core.refusals import Refusal

if TYPE_CHECKING:
    from kaisched.core.axis import CodeVec, RowVec
    from kaisched.framework.session.session import Session

_DELAYED: Final = np.int16(Refusal.EVICTION_DELAY)


def held_back(session: Session, job: RowVec) -> CodeVec | None:
    """Return EVICTION_DELAY ``(K,)`` for jobs that may not cause evictions yet; None if all may.

    The delay runs from the job's creation, or from its last eviction.
    """
    jobs = session.jobs
    delay_s = jobs.preemption_delay_s[job]
    if not (delay_s > 0).any():
        return None
    since_s = np.fmax(jobs.created_s[job], jobs.last_evicted_s[job])  # never evicted is NaN
    is_held = (delay_s > 0) & (session.now_s < since_s + delay_s)
    return is_held * _DELAYED if is_held.any() else None
