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
    places = _places_of(session, session.tasks.shape_of_task[tasks])
    code = session.jobs.refusal[job]
    fits = (places > 0) & (code == 0)
    lacks = _lacking(session, tasks, places, fits)
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
    job = session.tasks.job_of_task[tasks]
    tasks, job = tasks[job >= 0], job[job >= 0]
    queue = session.jobs.queue_of_job[job]
    is_open = np.append(session.queues.stop_of_queue == OPEN, False)  # queue -1 too
    counted: RowVec = tasks[is_open[queue]]
    return counted


def _places_of(session: DemandingSession, shape: RowVec) -> IntVec:
    """``(K,)`` pods of each shape that would fit if nothing ran."""
    places = np.zeros(len(session.shapes.constraints), np.int64)
    for each in np.bincount(shape).nonzero()[0].tolist():
        places[each] = places_in_all(session, session, each)
    found: IntVec = places[shape]
    return found


def _lacking(session: DemandingSession, tasks: RowVec, places: IntVec, fits: BoolVec) -> BoolVec:
    """``(P,)`` the pod sets whose minimum could not run with the pods that there are."""
    podsets, podset = session.podsets, session.tasks.podset_of_task[tasks]
    count = len(podsets.minimum)
    missing = podsets.minimum - podsets.active
    there = np.bincount(podset[fits], minlength=count)
    is_tight = np.zeros(count, np.bool_)
    is_tight[podset[fits & (places < missing[podset])]] = True
    if is_tight.any():
        there[is_tight] = 0
        some = fits & is_tight[podset]
        pairs = np.stack((podset[some], session.tasks.shape_of_task[tasks[some]]))
        (owner, _), first, pods = np.unique(pairs, axis=1, return_index=True, return_counts=True)
        np.add.at(there, owner, np.minimum(pods, places[some][first]))
    found: BoolVec = there < missing
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
