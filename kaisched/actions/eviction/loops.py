"""Eviction loops: evictions decided before, from the same state, for the same job (R33).

The rules of shares, priorities and gangs that cannot be divided each make sense, and together may
still chase each other: A takes from B what C takes from A and B from C. So for some minutes nothing
is evicted for a job in a state of the cluster in which that was done before, if there have been
evictions in other states since. To try again what the API refused is no loop.
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
"""How long an eviction is remembered: the same state may come back by chance, too."""
_FACT: Final = "turns"
"""A list of [state, beneficiary, seconds], the latest last."""
_MOST: Final = 1000
"""So many are enough: a ring is short."""
_SEEN: Final = "turns.seen"
_STATE: Final = "turns.state"


def recall_evictions(session: Session) -> None:
    """Keep in mind what was remembered, without what is older."""
    known = session.memory.facts.get(_FACT)
    if not known or _FACT in session.facts or known[-1][2] > session.now_s:
        return  # a clock that was set back tells nothing of their age
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

    What plugins say to be guaranteed is taken at any time: a ring ends with who goes beyond that.
    ``ask`` is ``(R,)``.
    """
    seen: set[int] | None = session.found.get(_SEEN)
    if seen is None:
        seen = session.found[_SEEN] = _beneficiaries(session)
    if not seen or _mark(session, job) not in seen:
        return False
    return not bool(session.ask.is_guaranteed(session, np.array([job]), ask[:, None])[0])


def _beneficiaries(session: Session) -> set[int]:
    """Return for whom was evicted in the state that the cycle has found, if not by the last one."""
    recent = session.facts.get(_FACT, ())
    if len(recent) < 2 or recent[-1][0] == _state(session):  # noqa: PLR2004 - a loop takes two
        return set()
    return {beneficiary for state, beneficiary, _ in recent if state == _state(session)}


def _mark(session: Session, job: int) -> int:
    return crc32(session.jobs.name[job].encode())


def _state(session: Session) -> int:
    """Return a number for what decides: who runs, what queues hold, ask for and are due.

    The same in every process and for every order of rows, and as of the beginning of the cycle.
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
