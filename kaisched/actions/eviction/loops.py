"""Detects eviction loops: evictions from a state, and for a job, that an earlier cycle had (R33).

The rules of shares, priorities and indivisible gangs each make sense, but together they can form a
ring: A takes from B, B from C, and C from A. So nothing is evicted for a job in a state of the
cluster in which an earlier cycle evicted for it, if other states had evictions in between. This
holds for some minutes. Retrying an eviction that the API refused is not a loop.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING, Final
from zlib import crc32

import numpy as np

if TYPE_CHECKING:
    from kaisched.core.axis import Amounts
    from kaisched.framework.session.session import Session

PACE_S: Final = 600.0
"""How long an eviction is remembered: the same state may also come back by chance."""
_FACT: Final = "turns"
"""A list of [state, beneficiary, seconds], the latest last."""
_MOST: Final = 1000
"""At most so many evictions are remembered: a ring is short."""
_SEEN: Final = "turns.seen"
_STATE: Final = "turns.state"


def recall_evictions(session: Session) -> None:
    """Keep the remembered evictions that are recent enough."""
    known = session.memory.facts.get(_FACT)
    if not known or _FACT in session.facts or known[-1][2] > session.now_s:
        return  # the clock was set back, so that their age is unknown
    first = bisect_right(known, session.now_s - PACE_S, key=lambda entry: entry[2])
    recent = known[max(first, len(known) - _MOST) :]
    if recent:
        session.facts[_FACT] = recent


def note_eviction(session: Session, job: int) -> None:
    """Remember that this cycle evicts for a job."""
    entry = [_state(session), _mark(session, job), session.now_s]
    session.facts.setdefault(_FACT, []).append(entry)


def is_loop(session: Session, job: int, ask: Amounts) -> bool:
    """Tell whether the cluster is as it was when an earlier cycle, not the last, evicted for a job.

    A job may always take what plugins guarantee to it: a ring needs a job that takes more. ``ask``
    is ``(R,)``.
    """
    seen: set[int] | None = session.found.get(_SEEN)
    if seen is None:
        seen = session.found[_SEEN] = _beneficiaries(session)
    if not seen or _mark(session, job) not in seen:
        return False
    return not bool(session.ask.is_guaranteed(session, np.array([job]), ask[:, None])[0])


def _beneficiaries(session: Session) -> set[int]:
    """Return the jobs for which cycles before the last one evicted in the present state."""
    recent = session.facts.get(_FACT, ())
    if len(recent) < 2 or recent[-1][0] == _state(session):  # noqa: PLR2004 - a loop takes two
        return set()
    return {beneficiary for state, beneficiary, _ in recent if state == _state(session)}


def _mark(session: Session, job: int) -> int:
    return crc32(session.jobs.name[job].encode())


def _state(session: Session) -> int:
    """Return a hash of what decides: running jobs, and what queues hold, request and deserve.

    The hash is the same in every process. It is of the beginning of the cycle.
    """
    state: int | None = session.found.get(_STATE)
    if state is None:
        jobs, queues = session.jobs, session.queues
        runs = (jobs.active > 0).nonzero()[0]
        who = sum(
            count * _mark(session, row)
            for row, count in zip(runs.tolist(), jobs.active[runs].tolist(), strict=True)
        )
        of_queues = [session.requested, session.fair_share, queues.deserved, queues.limit]
        if session.usage is not None:
            of_queues.append(session.usage.parts)
        what = crc32(np.concatenate(of_queues).tobytes())
        state = session.found[_STATE] = crc32(f"{who} {queues.name}".encode(), what)
    return state
