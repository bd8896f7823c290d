"""Remembers claims that found no room: would they fit now if all possible victims were gone?

A large job that waits in a full cluster fails in every cycle. Sorting all victims costs more than
this check. The memory changes no decision: the search would end with the same answer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from kaisched.core.axis import ACTIVE_STATES, GPU

if TYPE_CHECKING:
    from kaisched.actions.eviction.plan import Demand
    from kaisched.actions.eviction.search import Search
    from kaisched.core.axis import RowVec
    from kaisched.framework.session.session import Session

_HINT: Final = "evicting.hopeless"
_MOST: Final = 10_000


class FailedClaims:
    """The claims that failed in this and earlier cycles, for one action."""

    def __init__(self, session: Session, search: Search) -> None:
        """Take the failed claims of earlier cycles."""
        self._session = session
        self._search = search
        generation = session.snapshot.generation
        known: tuple[int, set[tuple[object, ...]]] | None = session.hints.get(_HINT)
        if known is None or known[0] != generation:  # queues and shapes had other numbers
            known = session.hints[_HINT] = generation, set()
        self._failed = known[1]

    def note(self, demand: Demand) -> None:
        """Remember that all possible victims together do not make room for a claim."""
        if len(self._failed) >= _MOST:
            self._failed.clear()
        self._failed.add(_key(demand))

    def fails_again(self, demand: Demand, job: RowVec) -> bool:
        """Tell whether a claim that failed before fails again, even if all these jobs were gone."""
        if _key(demand) not in self._failed:
            return False
        if self._could_suffice(demand, job):
            self._failed.discard(_key(demand))
            return False
        return True

    def is_out_of_reach(self, demand: Demand, job: RowVec) -> bool:
        """Tell whether a claim does not fit even if all these jobs were gone."""
        return not self._could_suffice(demand, job)

    def _could_suffice(self, demand: Demand, job: RowVec) -> bool:
        session = self._session
        tasks, ledger = session.tasks, session.ledger
        is_one = np.zeros(len(session.jobs.name) + 1, np.bool_)  # the last: of no job
        is_one[job] = True
        runs = ACTIVE_STATES[ledger.state] & is_one[tasks.job_of_task]
        if session.stranded is not None:
            runs &= ~session.stranded
        rows = runs.nonzero()[0]
        nodes = ledger.node_of_task.take(rows)
        gpus = session.shapes.request[GPU].take(tasks.shape_of_task.take(rows))
        if not all(session.capacity.has_gpus(*each, nodes, gpus) for each in demand.shapes):
            return False
        left = session.capacity.without(ledger.holding(rows))
        return all(
            left.room(shape, self._search.future(shape).allowed).sum() >= count
            for shape, count in demand.shapes
        )


def _key(demand: Demand) -> tuple[object, ...]:
    claim = demand.claim
    nodes = None if claim.within is None else claim.within.key
    return claim.action, claim.queue, nodes, *demand.shapes
