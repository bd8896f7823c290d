"""The units that could make room for one class of claims, in the order in which they would go.

A class is an action's claims of one queue, shape, size and priority. The order is asked once, and
read as far as a search looks; what has gone since is passed over.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

import numpy as np

from kaisched.actions.victims import amounts_of, victim_order
from kaisched.core.states import ACTIVE_STATES
from kaisched.framework.claims import Units
from kaisched.framework.rooms import room_of

if TYPE_CHECKING:
    from kaisched.actions.units import Part
    from kaisched.core.axis import Amounts, BoolVec, RowVec
    from kaisched.framework.session import Session


class VictimLine:
    """Units one after the other; those that were taken are forgotten."""

    def __init__(self, session: Session, job: RowVec) -> None:
        """Line up the running jobs of ``job``."""
        self._session = session
        self.job = job
        """Every job in the line, in no particular order."""
        self.queues = frozenset(session.jobs.queue_of_job[job].tolist())
        """Their leaf queues."""
        self._order = victim_order(session, job)
        self._most: dict[int, int] = {}
        self._parts: list[Part] = []

    def units(self, start: int, count: int) -> list[Part]:
        """Return up to ``count`` units from ``start`` on."""
        end = start + count
        missing = end - len(self._parts)
        if missing > 0:
            self._parts.extend(islice(self._order, missing))
        return self._parts[start:end]

    def most(self, shape: int, allowed: BoolVec | None) -> int:
        """Return how many pods of a shape would fit if every unit in the line were gone.

        An upper bound for the whole action, since room only shrinks: what is evicted is given away.
        """
        known = self._most.get(shape)
        if known is None:
            session, ledger = self._session, self._session.ledger
            free = ledger.idle + ledger.releasing + self._freeable()
            request = session.shapes.request[:, shape]
            known = self._most[shape] = int(room_of(free, request, allowed).sum())
        return known

    def _freeable(self) -> Amounts:
        """``(R, N)`` what the jobs in the line hold on each node."""
        session, ledger, tasks = self._session, self._session.ledger, self._session.tasks
        is_in_line = np.zeros(len(session.jobs.name), np.bool_)
        is_in_line[self.job] = True
        rows = np.flatnonzero(ACTIVE_STATES[ledger.state] & (tasks.job_of_task >= 0))
        rows = rows[is_in_line[tasks.job_of_task[rows]]]
        request = session.shapes.request.take(tasks.shape_of_task[rows], axis=1)
        nodes, count = ledger.node_of_task[rows], len(session.nodes)
        return np.stack(
            [np.bincount(nodes, weights=row, minlength=count).astype(np.int64) for row in request]
        )

    def forget_gone(self) -> None:
        """Drop the units at the head of the line that no longer run where they did."""
        state, before = self._session.ledger.state, self._session.tasks.state
        parts = self._parts
        gone = 0
        while gone < len(parts) and not runs_on(parts[gone].tasks, state, before):
            gone += 1
        if gone:
            del parts[:gone]


def runs_on(
    tasks: tuple[int, ...],
    state: np.ndarray[tuple[int], np.dtype[np.int8]],
    before: np.ndarray[tuple[int], np.dtype[np.int8]],
) -> bool:
    """Tell whether tasks still run as they did when the cycle began."""
    return all(state[task] == before[task] and ACTIVE_STATES[state[task]] for task in tasks)


def as_units(session: Session, parts: list[Part]) -> Units:
    """Return parts as columns."""
    job = np.array([part.job for part in parts], np.int64)
    return Units(
        job,
        session.jobs.queue_of_job[job],
        amounts_of(session, parts),
        np.array([part.is_core for part in parts], np.bool_),
        tuple(part.tasks for part in parts),
    )
