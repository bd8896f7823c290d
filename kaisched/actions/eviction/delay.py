"""Preemption delay: how long a job waits before other jobs may be evicted for it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from kaisched.core.refusals import Refusal
from kaisched.core.tables import DELAY

if TYPE_CHECKING:
    from kaisched.core.axis import CodeVec, RowVec
    from kaisched.core.snapshot import Mark
    from kaisched.framework.session.session import Session

_HINT: Final = "delay.rare"
_DELAYED: Final = np.int16(Refusal.EVICTION_DELAY)


def held_back(session: Session, job: RowVec) -> CodeVec | None:
    """Return EVICTION_DELAY ``(K,)`` for jobs that may not cause evictions yet; None if all may.

    The delay runs from the job's creation, or from its last eviction.
    """
    jobs = session.jobs
    if not has_delays(session):
        return None
    delay_s = jobs.preemption_delay_s[job]
    since_s = np.fmax(jobs.created_s[job], jobs.last_evicted_s[job])  # never evicted is NaN
    is_held = (delay_s > 0) & (session.now_s < since_s + delay_s)
    return is_held * _DELAYED if is_held.any() else None


def has_delays(session: Session) -> bool:
    """Tell whether any job has a delay; read only rows that are new since the last call."""
    snapshot, rare = session.snapshot, session.jobs.rare
    known: tuple[Mark, bool] | None = session.hints.get(_HINT)
    seen = snapshot.unchanged_since(known[0] if known else None)
    has_delays = bool(known and seen and known[1])
    if seen < len(rare):
        has_delays = has_delays or bool(np.count_nonzero(rare[seen:, DELAY] > 0))
        session.hints[_HINT] = snapshot.mark("jobs.rare"), has_delays
    return has_delays
