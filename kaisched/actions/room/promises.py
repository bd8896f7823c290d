"""Keeps promises: room that a cycle has promised to a pod is held for that pod.

A promise is a pod's nominated node. The next snapshot shows it, so that a restart forgets none.
Before an action gives room away, every job with promised pods gets its places again: bound when the
room is free, promised once more while the room is still being released. Other jobs take only what
is left. So nothing delays the job, least of all the work that was evicted for it. A promise that
can no longer be kept (the room is gone, the node or a queue on the job's path is closed) is void,
and the job waits for its turn like any other. Its pods may go on to name the node: until the job is
promised room anew, that counts for nothing, also when room is made there for somebody else.

Sometimes only a part of the room is free or being released: evictions stopped half-way, because the
process that sent them died or the server was slow. For one cycle no other job may take that part
while free room is given away, and the job may claim the rest of the room.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from kaisched.actions.order.candidates import gather
from kaisched.actions.order.gates import first_shut
from kaisched.actions.room.placing import are_within, leans_on_promises, place_together
from kaisched.core.axis import TaskState
from kaisched.core.devices import charges
from kaisched.core.refusals import PASSING, Refusal
from kaisched.framework.invariants.sums import is_job_met
from kaisched.framework.session.node_sets import node_sets, shapes_of
from kaisched.framework.session.order import pending_tasks
from kaisched.framework.session.outcome import PROMISES

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kaisched.core.axis import RowVec
    from kaisched.framework.session.session import Session
    from kaisched.framework.session.statement import Statement

_PENDING: Final = int(TaskState.PENDING)
_WAITING: Final = int(Refusal.WAITING_FOR_RELEASE)
_ACTION: Final = "allocate"


def keep_promises(session: Session) -> list[tuple[int, RowVec]]:
    """Give jobs the room that they were promised; do nothing the second time in a cycle.

    Return (job, pods) of the promises to whole batches that cannot be kept.
    """
    broken: list[tuple[int, RowVec]] = []
    if session.has_kept_promises:
        return broken
    session.has_kept_promises = True
    tasks, jobs, names = session.tasks, session.jobs, session.jobs.name
    promised = ((tasks.nominated_node >= 0) & (tasks.state == _PENDING)).nonzero()[0]
    found = set(tasks.job_of_task.take(promised).tolist()) - {-1}
    before: Mapping[str, float] = session.memory.facts.get(PROMISES) or {}
    session.outcome.void = {row: before[names[row]] for row in found if names[row] in before}
    found -= session.outcome.void.keys()
    if not found:
        return broken
    job = np.array(sorted(found), np.int64)
    job = job[jobs.refusal[job] == 0]
    candidates = gather(session, _ACTION, job, tries_full=True)
    order = sorted(
        range(len(candidates)),
        key=lambda at: (
            -int(jobs.priority[candidates.job[at]]),
            float(jobs.created_s[candidates.job[at]]),
            names[int(candidates.job[at])],
        ),
    )
    wanted = []
    for at in order:
        row = int(candidates.job[at])
        batch = candidates.batches.get(row)
        if batch is None or jobs.podset_count[row] == 1:
            batch = _promised_first(session, row)[: int(candidates.size[at])]
        wanted.append((row, batch))
    broken = _keep_all(session, wanted)
    while broken and len(broken) < len(wanted):
        # A job may depend on pods of a job behind it (pod affinity), which has its place only now.
        wanted, broken = broken, _keep_all(session, broken)
    return broken


def _keep_all(session: Session, wanted: list[tuple[int, RowVec]]) -> list[tuple[int, RowVec]]:
    """Give jobs the room they were promised; return the jobs whose promise cannot be kept."""
    broken = []
    for row, batch in wanted:
        session.trying = (row,)
        if not _keep(session, row, batch):
            broken.append((row, batch))
        if session.jobs.pending[row] > 1:
            _keep_elastic(session, row)
    return broken


def hold_broken(session: Session, broken: list[tuple[int, RowVec]]) -> dict[int, Statement]:
    """Hold the free part of broken promises for one cycle, by job; the caller rolls it back.

    Until then the held pods count as placed, so the job itself must not be tried: the rest of a
    gang would look like a whole batch.
    """
    if not broken:
        return {}
    held: dict[int, Statement] = {}
    for job, batch in broken:
        session.outcome.void[job] = session.now_s
        session.trying = (job,)
        if not _is_shut(session, job, batch):
            statement = session.statement()
            nodes = session.tasks.nominated_node[batch]
            for task, node in zip(batch.tolist(), nodes.tolist(), strict=True):
                if _put(session, statement, task, node):
                    held[job] = statement
    session.outcome.held = tuple(held)
    return held


def _promised_first(session: Session, job: int) -> RowVec:
    """Return a job's pending pods, pods with a promise first."""
    tasks = pending_tasks(session, job)
    is_promised = session.tasks.nominated_node[tasks] >= 0
    return np.concatenate((tasks[is_promised], tasks[~is_promised]))


def _keep_elastic(session: Session, job: int) -> None:
    """Keep the promises to a job's elastic pods, pod by pod, once the job has its minimum.

    The job's next batch may be another one. A pod that was moved for the first batch waits like any
    other.
    """
    ledger, podsets = session.ledger, session.podsets
    tasks = pending_tasks(session, job)
    tasks = tasks[session.tasks.nominated_node[tasks] >= 0]
    if not tasks.size or not is_job_met(session.snapshot, job, ledger.podset_active):
        return
    podset = session.tasks.podset_of_task[tasks]
    for task in tasks[ledger.podset_active[podset] >= podsets.minimum[podset]].tolist():
        _keep(session, job, np.array([task]))


def _is_shut(session: Session, job: int, batch: RowVec) -> bool:
    """Tell whether a queue on the job's path refuses a batch, or no set has all its nodes."""
    nodes = session.tasks.nominated_node[batch]
    ask = charges(session, batch, nodes).sum(axis=1)
    if first_shut(session, _ACTION, job, ask):
        return True
    sets = node_sets(session, _ACTION, job, ask, shapes_of(session, batch))
    if sets is not None and not any(each.nodes[nodes].all() for each in sets):
        return True
    return not are_within(session, job, batch, nodes)


def _keep(session: Session, job: int, batch: RowVec) -> bool:
    """Place a batch on its promised nodes; False when that is no longer possible."""
    nodes = session.tasks.nominated_node[batch]
    if not batch.size or (nodes < 0).any():
        return True  # a part of the batch was never promised
    if _is_shut(session, job, batch):
        return False
    statement = session.statement()
    left = list(zip(batch.tolist(), nodes.tolist(), strict=True))
    while left:
        # Pods that are spread, or seek each other, may have to wait for others of the batch.
        barred = [(task, node) for task, node in left if not _put(session, statement, task, node)]
        if len(barred) == len(left):
            statement.rollback()
            if not place_together(session, statement, batch, nodes):
                return False
            break
        left = barred
    if statement.has_allocated() and leans_on_promises(session, job):
        statement.pipeline_all()
    if statement.has_pipelined:
        session.outcome.refusal[job] = _WAITING
    statement.commit(_ACTION)
    return True


def _put(session: Session, statement: Statement, task: int, node: int) -> bool:
    """Place one pod on its node, now or once the node has room; False when neither is possible."""
    shape = int(session.tasks.shape_of_task[task])
    plan, room, _, _ = session.placement.free_capacity(shape)
    code = 0 if plan.codes is None else int(plan.codes[node])
    if code and code not in PASSING:
        return False
    if room[node] > 0:
        statement.allocate(task, node)
        return True
    if not session.capacity.fits(shape, node):
        return False
    if (cap := plan.cap_once_released) is not None and cap[node] <= 0:
        return False
    statement.pipeline(task, node)
    return True
