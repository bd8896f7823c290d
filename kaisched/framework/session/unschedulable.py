"""Finds the pending pods that could not start in an empty cluster: they request nothing (R2).

No node that takes new pods is large enough and allowed by labels, affinity and taints; or too few
such pods of their gang exist; or what their job needs is more than the queues on its path may ever
hold, or than all nodes have; or their job is refused as it is. Who waits for a claim or a volume
is not among them, nor who has to be near other pods or away from them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from kaisched.core.axis import TaskState
from kaisched.core.refusals import Refusal
from kaisched.core.sums import charges_of
from kaisched.core.tables import OPEN
from kaisched.framework.session.placement import pods_if_empty
from kaisched.units import UNLIMITED

if TYPE_CHECKING:
    from kaisched.core.axis import Amounts, BoolVec, CodeVec, IntVec, RowVec
    from kaisched.core.tables import SubGroup
    from kaisched.framework.session.session import Session

_PENDING: Final = int(TaskState.PENDING)
_INCOMPLETE: Final = np.int16(Refusal.GANG_INCOMPLETE)
_NO_ROOM: Final = np.int16(Refusal.GANG_NO_ROOM)
BEYOND_BOUNDS: Final = np.int16(-1)
"""Stands for the code of the queue gates, which may not be asked before shares are divided."""


class Unschedulable(NamedTuple):
    """Pending pods that no state of other work lets start."""

    tasks: RowVec
    code: CodeVec
    """Why: what their job is refused for; 0 where no node could take the pod, BEYOND_BOUNDS where
    the queue gates refuse it."""
    amounts: Amounts
    """``(R, Q)`` what they ask for, by leaf queue."""


def find_unschedulable(session: Session) -> Unschedulable | None:
    """Return these pods; None without any."""
    tasks = _counted(session)
    if not tasks.size:
        return None
    job, shape = session.tasks.job_of_task[tasks], session.tasks.shape_of_task[tasks]
    podset = session.tasks.podset_of_task[tasks]
    capacity, code = _capacity_if_empty(session, tasks), session.jobs.refusal[job]
    fits = (capacity > 0)[shape] & (code == 0)
    beyond, is_part = (
        np.zeros(len(session.podsets.minimum), np.bool_),
        session.jobs.pending[job] > 1,
    )
    if (bound := _bounds(session, job)) is not None:
        charge = session.least_charge.take(shape, axis=1)
        is_large = fits & (charge > bound).any(axis=0)
        code, fits = np.where(is_large, BEYOND_BOUNDS, code), fits & ~is_large
        some = fits & is_part
        beyond = _exceeds(session, tasks[some], charge[:, some], bound[:, some])
        beyond[podset[is_large]] = True
    lacks = _lacking(session, tasks[fits], capacity)
    lacks |= beyond & (session.podsets.active < session.podsets.minimum)
    is_up = session.nodes.statics.is_ready & ~session.nodes.statics.has_pressure
    room = (session.nodes.allocatable * is_up).sum(axis=1)[:, None]
    some = fits & is_part
    request = session.shapes.request.take(shape[some], axis=1)
    lacks |= _exceeds(session, tasks[some], request, room)
    if lacks.any():
        why = _stopped(session, lacks)
        owner = session.podsets.job_of_podset[beyond & lacks]
        why[owner[why[owner] == _NO_ROOM]] = BEYOND_BOUNDS
        stopped, trees = why[job], list(session.jobs.structure)
        stopped = np.where(lacks[podset] & np.isin(job, trees) & (stopped == 0), _NO_ROOM, stopped)
        code = np.where(fits, stopped, code)
        fits &= stopped == 0
    if fits.all():
        return None
    tasks, code = tasks[~fits], code[~fits]
    queue = session.jobs.queue_of_job[session.tasks.job_of_task[tasks]]
    return Unschedulable(tasks, code, charges_of(session.snapshot, tasks, queue))


def _counted(session: Session) -> RowVec:
    """Return the pending tasks that count in queues."""
    tasks: RowVec = (session.tasks.state == _PENDING).nonzero()[0]
    # The last cells stand for tasks without a job, and jobs without a queue.
    is_open = np.append(session.queues.stop_of_queue == OPEN, False)
    counts = np.append(is_open[session.jobs.queue_of_job], False)
    counted: RowVec = tasks[counts[session.tasks.job_of_task[tasks]]]
    return counted


def _capacity_if_empty(session: Session, tasks: RowVec) -> IntVec:
    """``(S,)`` pods of each shape of some tasks that would fit if nothing ran; 0 for others."""
    capacity = np.zeros(len(session.shapes.constraints), np.int64)
    for each in np.bincount(session.tasks.shape_of_task[tasks]).nonzero()[0].tolist():
        capacity[each] = pods_if_empty(session, each)
    return capacity


def _lacking(session: Session, fitting: RowVec, capacity: IntVec) -> BoolVec:
    """``(P,)`` the pod sets whose minimum could not run with the pods that there are and fit."""
    podsets, tasks = session.podsets, session.tasks
    # One key for each pair of pod set and shape.
    keys = tasks.podset_of_task[fitting] * len(capacity) + tasks.shape_of_task[fitting]
    pairs, pods = np.unique(keys, return_counts=True)
    podset, shape = np.divmod(pairs, len(capacity))
    there = np.zeros(len(podsets.minimum), np.int64)
    np.add.at(there, podset, np.minimum(pods, capacity[shape]))
    found: BoolVec = there < podsets.minimum - podsets.active
    return found


def _bounds(session: Session, job: RowVec) -> Amounts | None:
    """``(R, K)`` the most that the queues on the paths of jobs may hold for each; None for any."""
    queues, queue = session.queues, session.jobs.queue_of_job[job]
    is_strict = ~session.jobs.is_preemptible[job] & session.ask.bounds_non_preemptible
    if (queues.limit == UNLIMITED).all() and not is_strict.any():
        return None
    bound = _least_on_path(session, queues.limit)[:, queue]
    if is_strict.any():
        quota = _least_on_path(session, queues.deserved)[:, queue]
        bound = np.where(is_strict, np.minimum(bound, quota), bound)
    return bound


def _least_on_path(session: Session, amounts: Amounts) -> Amounts:
    """``(R, Q)`` the least of ``amounts`` ``(R, Q)`` from each queue up to its root."""
    padded = np.append(amounts, np.full((len(amounts), 1), UNLIMITED), axis=1)
    least: Amounts = padded[:, session.queues.tree.path_of_leaf].min(axis=2)
    return least


def _exceeds(session: Session, tasks: RowVec, amount: Amounts, bound: Amounts) -> BoolVec:
    """``(P,)`` the pod sets that need more than ``bound`` ``(R, K)``, alone or with their job."""
    podsets, job = session.podsets, session.tasks.job_of_task[tasks]
    found = np.zeros(len(podsets.minimum), np.bool_)
    sums = [np.bincount(job, some, len(session.jobs.name))[job] for some in amount]
    some: RowVec = np.flatnonzero(np.logical_or.reduce(np.stack(sums) > bound, axis=0))
    if not some.size:
        return found
    missing = np.maximum(podsets.minimum - podsets.active, 0)
    podset, job, amount = session.tasks.podset_of_task[tasks[some]], job[some], amount[:, some]
    bound = np.broadcast_to(bound, (len(amount), len(tasks)))[:, some]
    core = np.zeros((len(amount), len(found)), np.int64)
    for row, each in enumerate(amount):  # the smallest of the pods that are still needed
        order = np.lexsort((each, podset))
        owner = podset[order]
        is_needed = np.arange(len(owner)) - np.searchsorted(owner, owner) < missing[owner]
        np.add.at(core[row], owner[is_needed], each[order][is_needed])
    found[podset[(core[:, podset] > bound).any(axis=0)]] = True
    for row, at in zip(*np.unique(job, return_index=True), strict=True):
        tree = session.jobs.structure.get(int(row))
        if tree is not None and (_least_of(tree, core) > bound[:, at]).any():
            found[podset[job == row]] = True
    return found


def _least_of(group: SubGroup, core: Amounts) -> Amounts:
    """``(R,)`` the least that a subgroup needs, if each pod set needs its part of ``(R, P)``."""
    if group.podset >= 0:
        return core[:, group.podset]
    parts = np.stack([_least_of(it, core) for it in group.children])
    least: Amounts = np.sort(parts, axis=0)[: group.min_subgroup].sum(axis=0)
    return least


def _stopped(session: Session, lacks: BoolVec) -> CodeVec:
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
