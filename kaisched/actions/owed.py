"""Claims that are owed room: quotas cover them, they find none, and reclaim is yet to try them.

Where such claims wait, allocate gives nothing that quotas do not cover before reclaim has tried
them. Otherwise what comes free would go to work beyond its quota in each cycle, and as no cycle
evicts what it has started, a claim that needs a whole node might never get one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from kaisched.actions.order.candidates import pending_jobs
from kaisched.actions.order.within_quota import are_covered
from kaisched.actions.reclaim import NAME, TakingBack

if TYPE_CHECKING:
    from kaisched.actions.order.candidates import Candidates
    from kaisched.core.axis import BoolVec, RowVec
    from kaisched.framework.session.session import Session

_FOUND: Final = "owed"


def owed_claims(session: Session) -> OwedClaims:
    """Return the claims of this cycle."""
    owed: OwedClaims | None = session.found.get(_FOUND)
    if owed is None:
        owed = session.found[_FOUND] = OwedClaims(session)
    return owed


class OwedClaims:
    """Tells allocate when to stop, and lets reclaim try the claims then."""

    def __init__(self, session: Session) -> None:
        """Note nothing yet."""
        self._session = session
        self._is_on = any(action.name == NAME for action in session.policy.actions)
        self._tried: BoolVec = np.zeros(len(session.jobs.name), np.bool_)
        self._spared: BoolVec = self._tried
        self.wait = False
        """Whether any such claim waits."""

    def begin(self, candidates: Candidates) -> None:
        """Look for claims among the jobs that are no candidates: they have no room."""
        if self._is_on and len(candidates) < len(pending_jobs(self._session)):
            self.spare(candidates, np.ones(len(candidates), np.bool_))
            self.wait = TakingBack(self._session, self._spared).has_claims()

    def note(self, candidates: Candidates, at: RowVec) -> None:
        """Note candidates that found no room."""
        if self._is_on and not self.wait:
            is_new = ~self._tried[candidates.job[at]]
            self.wait = bool((is_new & are_covered(self._session, candidates, at)).any())

    def go_before(self, candidates: Candidates, at: int) -> bool:
        """Tell whether such claims wait, and come before a candidate: quotas do not cover it."""
        return self.wait and not are_covered(self._session, candidates, np.array([at]))[0]

    def spare(self, candidates: Candidates, waits: BoolVec) -> None:
        """Leave out the candidates that may still find room."""
        self._spared = self._tried.copy()
        self._spared[candidates.job[waits]] = True

    def take_back(self) -> None:
        """Let reclaim try the claims."""
        session = self._session
        action, session.action = session.action, NAME
        TakingBack(session, self._spared).run()
        session.action, self.wait = action, False
        self._tried |= ~self._spared
