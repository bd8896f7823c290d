"""The waiting jobs that may claim what other jobs hold: plugins are asked class by class.

In a cluster that is full for weeks every cycle has thousands of waiting jobs and three actions that
might evict for them. Plugins may promise to answer alike for jobs of one queue, request, priority
and preemptibility. Then one job of each class of the backlog is asked about for all of them, and a
refusal is noted for all of them at once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from kaisched.actions.eviction.delay import has_delays
from kaisched.actions.order.backlog import backlog_of, is_worth_keeping
from kaisched.actions.order.candidates import Candidates

if TYPE_CHECKING:
    from kaisched.actions.order.backlog import Backlog, Classes
    from kaisched.core.axis import Amounts, BoolVec, CodeVec, IntVec, RowVec
    from kaisched.framework.session.session import Session

_FOUND: Final = "claimants"


class Claimants:
    """The classes that have waiting jobs at one moment, columns ``(K,)``."""

    def __init__(self, session: Session, backlog: Backlog, moved: list[int]) -> None:
        """Leave out the jobs that this cycle has ``moved``: they wait no more."""
        self._session = session
        self._backlog = backlog
        self._moved = moved
        self._all: Classes = backlog.classes(session)
        waits = backlog.waits
        is_tried = backlog.tried(session, claims=True)
        if moved:
            waits = waits.copy()
            for row in moved:
                index = int(backlog.class_of_row[row])
                if index >= 0:
                    waits[index] -= 1
        self.at: RowVec = is_tried[waits[is_tried] > 0]
        """Their numbers among the classes of the backlog."""
        self.rests_on = session.moves

    def __len__(self) -> int:
        """Return K."""
        return len(self.at)

    @property
    def priority(self) -> IntVec:
        """The priority of each class."""
        return self._all.priority.take(self.at)

    @property
    def queue(self) -> RowVec:
        """The leaf queue of each class."""
        return self._all.queue.take(self.at)

    def fitting(self, free: RowVec) -> BoolVec:
        """Tell which classes are preemptible and ask for at most ``free``, ``(R,)``."""
        able: BoolVec = np.logical_and.reduce(
            self._least().take(self.at, axis=1) <= free[:, None], axis=0
        )
        able &= self._all.is_preemptible.take(self.at)
        return able

    def _least(self) -> Amounts:
        """``(R, C)`` the least that one job of each class could count, on the largest cards."""
        session, classes = self._session, self._all
        if session.shapes.by_card is None:
            return classes.ask
        return session.least_charge.take(classes.shape, axis=1) * classes.size

    def allowed(self, action: str, able: BoolVec | None) -> BoolVec:
        """Ask the claim gate about the classes ``able`` (None: all); note its refusals."""
        session, backlog = self._session, self._backlog
        at = self.at if able is None else self.at[able]
        lists = backlog.lists
        job = np.array([lists[index][0][-1] for index in at.tolist()], np.int64)
        codes = session.ask.claim_gate(session, action, job, self._all.ask.take(at, axis=1))
        if codes is None or not np.count_nonzero(codes):
            return np.ones(len(at), np.bool_) if able is None else able
        self._note(action, at, codes)
        passes: BoolVec = codes == 0
        if able is None:
            return passes
        allowed = able.copy()
        allowed[able] = passes
        return allowed

    def _note(self, action: str, at: RowVec, codes: CodeVec) -> None:
        of_class = np.zeros(len(self._backlog.lists) + 1, np.int16)  # the last: of no class
        of_class[at] = codes
        of_job = of_class.take(self._backlog.class_of_row)
        of_job[self._moved] = 0
        self._session.outcome.note_all_claims(action, of_job)

    def candidates(self, mask: BoolVec) -> Candidates:
        """Return the waiting jobs of the classes where ``mask`` is true."""
        backlog, session = self._backlog, self._session
        job = backlog.rows_of(session, self.at[mask], self._moved)
        jobs = session.jobs
        return Candidates(
            job,
            jobs.queue_of_job.take(job),
            jobs.shape_of_job.take(job),
            jobs.pending.take(job),
            {},
            is_sorted=True,
        )


def claimants(session: Session, action: str) -> Claimants | None:
    """Return the classes of waiting jobs as of now, or None where each job has to be asked about.

    One answer for a class is valid for all its jobs; otherwise the rules of the backlog hold.
    """
    ask = session.ask
    if not (ask.is_job_bound and ask.is_class_bound) or session.policy.queue_depth.get(action):
        return None
    known: Claimants | None = session.found.get(_FOUND)
    if known is not None and known.rests_on == session.moves:
        return known
    if not is_worth_keeping(session) or has_delays(session):
        return None
    backlog = backlog_of(session, action)
    if backlog.odd:
        return None
    backlog.note_gated(session)
    moved = backlog.moved(session)
    if moved is None:
        return None
    found = session.found[_FOUND] = Claimants(session, backlog, moved)
    return found
