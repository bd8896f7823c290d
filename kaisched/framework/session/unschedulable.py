"""Finds the pending pods that could not start if nothing else ran: they entitle to nothing (R2).

No node that takes new pods is large enough and allowed by labels, affinity and taints; or too few
such pods of their gang exist; or their job is refused as it is. Who waits for a claim or a volume
is not among them, nor who has to be near other pods or away from them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

import numpy as np

from kaisched.core.refusals import Refusal
from kaisched.core.states import TaskState
from kaisched.core.tables import OPEN
from kaisched.framework.invariants.sums import charges_of
from kaisched.framework.session.places import places_in_all
from kaisched.framework.session.placing_session import PlacingSession

if TYPE_CHECKING:
    from collections.abc import Collection
    from contextlib import AbstractContextManager

    from kaisched.core.axis import Amounts, BoolVec, CodeVec, IntVec, RowVec
    from kaisched.framework.session.placement import Placement

_PENDING: Final = int(TaskState.PENDING)
_INCOMPLETE: Final = np.int16(Refusal.GANG_INCOMPLETE)
_NO_ROOM: Final = np.int16(Refusal.GANG_NO_ROOM)


class DemandingSession(PlacingSession, Protocol):
    """Session as far as the demand in it is judged."""

    @property
    def placement(self) -> Placement:
        """Where pods may go, as of now."""
        ...

    def passing_over(self, podsets: Collection[int]) -> AbstractContextManager[None]:
        """Let no pods of some pod sets be pending while the context lasts."""
        ...


class Unschedulable(NamedTuple):
    """Pending pods that no state of other work lets start."""

    tasks: RowVec
    code: CodeVec
    """Why: what their job is refused for; 0 where no node could take the pod."""
    amounts: Amounts
    """``(R, Q)`` what they ask for, by leaf queue."""


def find_unschedulable(session: DemandingSession) -> Unschedulable | None:
    """Return these pods; None without any."""
    tasks = _counted(session)
    if not tasks.size:
        return None
    job = session.tasks.job_of_task[tasks]
    places = _places_of(session, tasks)
    code = session.jobs.refusal[job]
    fits = (places > 0)[session.tasks.shape_of_task[tasks]] & (code == 0)
    lacks = _lacking(session, tasks[fits], places)
    if lacks.any():
        podset, trees = session.tasks.podset_of_task[tasks], list(session.jobs.structure)
        stopped = _stopped(session, lacks)[job]
        stopped = np.where(lacks[podset] & np.isin(job, trees) & (stopped == 0), _NO_ROOM, stopped)
        code = np.where(fits, stopped, code)
        fits &= stopped == 0
    if fits.all():
        return None
    tasks, code = tasks[~fits], code[~fits]
    queue = session.jobs.queue_of_job[session.tasks.job_of_task[tasks]]
    return Unschedulable(tasks, code, charges_of(session.snapshot, tasks, queue))


def _counted(session: DemandingSession) -> RowVec:
    """Return the pending tasks that count in queues."""
    tasks: RowVec = (session.tasks.state == _PENDING).nonzero()[0]
    # The last cells stand for tasks without a job, and jobs without a queue.
    is_open = np.append(session.queues.stop_of_queue == OPEN, False)
    counts = np.append(is_open[session.jobs.queue_of_job], False)
    counted: RowVec = tasks[counts[session.tasks.job_of_task[tasks]]]
    return counted


def _places_of(session: DemandingSession, tasks: RowVec) -> IntVec:
    """``(S,)`` pods of each shape of some tasks that would fit if nothing ran; 0 for others."""
    places = np.zeros(len(session.shapes.constraints), np.int64)
    for each in np.bincount(session.tasks.shape_of_task[tasks]).nonzero()[0].tolist():
        places[each] = places_in_all(session, session, each)
    return places


def _lacking(session: DemandingSession, fitting: RowVec, places: IntVec) -> BoolVec:
    """``(P,)`` the pod sets whose minimum could not run with the pods that there are and fit."""
    podsets, tasks = session.podsets, session.tasks
    # One key for each pair of pod set and shape.
    keys = tasks.podset_of_task[fitting] * len(places) + tasks.shape_of_task[fitting]
    pairs, pods = np.unique(keys, return_counts=True)
    podset, shape = np.divmod(pairs, len(places))
    there = np.zeros(len(podsets.minimum), np.int64)
    np.add.at(there, podset, np.minimum(pods, places[shape]))
    found: BoolVec = there < podsets.minimum - podsets.active
    return found


def _stopped(session: DemandingSession, lacks: BoolVec) -> CodeVec:
    """``(J,)`` why jobs could not start without the pods of some pod sets; 0 for the others."""
    code, podsets = np.zeros(len(session.jobs.name), np.int16), session.podsets
    jobs = np.unique(podsets.job_of_podset[lacks])
    with session.passing_over(lacks.nonzero()[0].tolist()):
        gated = session.ask.job_gate(session, "allocate", jobs)
    if gated is not None:
        jobs = jobs[gated == _INCOMPLETE]
        code[jobs] = _NO_ROOM
        is_short = lacks & (podsets.active + podsets.pending < podsets.minimum)
        code[np.intersect1d(podsets.job_of_podset[is_short], jobs)] = _INCOMPLETE
    return code
