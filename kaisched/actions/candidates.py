"""The jobs an action may try: gated, sized, and refused at once where no search could help.

All columns have one entry a candidate. A *simple* candidate is a job of one pod set whose tasks all
have one shape: everything about it is worked out for all of them together. The others carry their
task rows with them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from kaisched.actions.job_order import leaf_lists
from kaisched.core.refusals import Refusal
from kaisched.framework.task_order import pending_tasks

if TYPE_CHECKING:
    from kaisched.core.axis import Amounts, BoolVec, CodeVec, IntVec, RowVec
    from kaisched.framework.session import Session

_NO_ROOM = int(Refusal.NO_ROOM)


@dataclass(slots=True)
class Candidates:
    """Columns ``(C,)`` of the jobs to try."""

    job: RowVec
    queue: RowVec
    shape: RowVec
    """-1 for a job of several shapes or pod sets."""
    size: IntVec
    """Tasks placed next, all or nothing."""
    ask: Amounts
    """``(R, C)`` what that batch asks for."""
    batches: dict[int, RowVec]
    """Job row to the task rows of its next batch, for jobs that are not simple."""

    def __len__(self) -> int:
        """Return C."""
        return len(self.job)

    def keep(self, mask: BoolVec) -> Candidates:
        """Return the candidates where ``mask`` is true."""
        if mask.all():
            return self
        return Candidates(
            self.job[mask],
            self.queue[mask],
            self.shape[mask],
            self.size[mask],
            self.ask[:, mask],
            self.batches,
        )


def pending_jobs(session: Session) -> RowVec:
    """Return the rows of jobs with pending tasks that are not refused as such."""
    jobs = session.jobs
    pending = session.ledger.job_pending if session.has_moved else jobs.pending
    return np.flatnonzero((pending > 0) & (jobs.refusal == 0))


def gather(session: Session, action: str, job: RowVec) -> Candidates:
    """Ask the gates, size the batches; refusals are noted in the session's outcome."""
    if job.size:
        job = _note(session, job, session.ask.job_gate(session, action, job))
    if session.policy.queue_depth.get(action) is None:
        job = _drop_shut_out(session, job)
    shape, size, batches = measure(session, job)
    some = size > 0
    if not some.all():
        job, shape, size = job[some], shape[some], size[some]
    return Candidates(
        job,
        session.jobs.queue_of_job[job],
        shape,
        size,
        _ask(session, job, shape, size, batches),
        batches,
    )


def _drop_shut_out(session: Session, job: RowVec) -> RowVec:
    """Refuse jobs whose pods fit nowhere at all: in a full cluster, nearly all of them."""
    shape = session.jobs.shape_of_job[job]
    uniform = shape >= 0
    if not uniform.all():
        shape = np.where(uniform, shape, shape.max(initial=0))
    if not job.size or shape[0] < 0:
        return job
    fits = (session.placement.upper_bound(shape) > 0) | ~uniform
    if fits.all():
        return job
    note_no_room(session, job[~fits])
    left: RowVec = job[fits]
    return left


def measure(session: Session, job: RowVec) -> tuple[RowVec, IntVec, dict[int, RowVec]]:
    """Return the shape, the size of the next batch and, where not simple, its task rows."""
    jobs = session.jobs
    simple = jobs.podset_count[job] == 1
    shape = jobs.shape_of_job[job]
    size = np.zeros(len(job), np.int64)
    batches: dict[int, RowVec] = {}
    flat = simple & (shape >= 0)
    if flat.all():
        if job.size:
            size = session.ask.batch_size(session, job)
        return shape, size, batches
    if simple.any():
        size[simple] = session.ask.batch_size(session, job[simple])
    shape = np.where(flat, shape, -1)
    for at in np.flatnonzero(~flat).tolist():
        row = int(job[at])
        if simple[at]:
            batches[row] = pending_tasks(session, row)[: size[at]]
        else:
            batch = session.ask.next_batch(session, row)
            batches[row] = pending_tasks(session, row)[:1] if batch is None else batch
        size[at] = len(batches[row])
    return shape, size, batches


def _ask(
    session: Session, job: RowVec, shape: RowVec, size: IntVec, batches: dict[int, RowVec]
) -> Amounts:
    request = session.shapes.request
    ask = request.take(shape, axis=1) * size
    for at in np.flatnonzero(shape < 0).tolist():
        tasks = batches[int(job[at])]
        ask[:, at] = request[:, session.tasks.shape_of_task[tasks]].sum(axis=1)
    return ask


def _note(session: Session, job: RowVec, codes: CodeVec | None) -> RowVec:
    """Note refusals and return the jobs that are left."""
    if codes is None or not codes.any():
        return job
    refused = codes != 0
    session.outcome.refusal[job[refused]] = codes[refused]
    left: RowVec = job[~refused]
    return left


def drop_roomless(session: Session, candidates: Candidates) -> Candidates:
    """Refuse candidates that the room of all nodes together, now or once released, cannot hold.

    Nothing is lost: an action that only takes room never makes more of it. Jobs of several shapes
    are checked for each shape's count, which is necessary, not sufficient.
    """
    if not len(candidates):
        return candidates
    simple = candidates.shape >= 0
    if simple.all():
        bound = session.placement.upper_bound(candidates.shape)
    else:
        bound = np.full(len(candidates), np.iinfo(np.int64).max)
        if simple.any():
            bound[simple] = session.placement.upper_bound(candidates.shape[simple])
        for at in np.flatnonzero(~simple).tolist():
            tasks = candidates.batches[int(candidates.job[at])]
            if not _could_fit(session, session.tasks.shape_of_task[tasks]):
                bound[at] = -1
    enough = candidates.size <= bound
    if enough.all():
        return candidates
    note_no_room(session, candidates.job[~enough])
    return candidates.keep(enough)


def _could_fit(session: Session, shapes: RowVec) -> bool:
    distinct, counts = np.unique(shapes, return_counts=True)
    return bool((session.placement.upper_bound(distinct) >= counts).all())


def note_no_room(session: Session, job: RowVec) -> None:
    """Note that jobs found no room; a record tells gangs from single pods."""
    session.outcome.refusal[job] = _NO_ROOM


def measure_again(session: Session, candidates: Candidates, job: int) -> tuple[int, Amounts]:
    """Return the size of a job's next batch and what it asks for ``(R,)``, as of now."""
    row = np.array([job])
    shape, size, batches = measure(session, row)
    candidates.batches.update(batches)
    return int(size[0]), _ask(session, row, shape, size, batches)[:, 0]


def drop_gated(session: Session, action: str, candidates: Candidates) -> Candidates:
    """Refuse candidates that some queue on their path would not take even now.

    Gates do not open as a queue fills, so what is refused now stays refused while room is taken.
    """
    if not len(candidates):
        return candidates
    held, held_np = session.held, session.held_non_preemptible
    if session.has_moved:
        held, held_np = session.ledger.held, session.ledger.held_non_preemptible
    depth = session.queues.tree.path_of_leaf.shape[1]
    for level in range(depth):
        queue = session.queues.tree.path_of_leaf[candidates.queue, level]
        rows = np.flatnonzero(queue >= 0)
        if not rows.size:
            break
        queue = queue[rows].astype(np.int64)
        codes = session.ask.queue_gate(
            session,
            action,
            queue,
            candidates.job[rows],
            candidates.ask[:, rows],
            held[:, queue],
            held_np[:, queue],
        )
        if codes is None or not codes.any():
            continue
        session.outcome.refusal[candidates.job[rows[codes != 0]]] = codes[codes != 0]
        mask = np.ones(len(candidates), np.bool_)
        mask[rows[codes != 0]] = False
        candidates = candidates.keep(mask)
    return candidates


def keep_best(session: Session, candidates: Candidates, depth: int) -> Candidates:
    """Keep the best ``depth`` jobs of every leaf queue, in job order."""
    mask = np.zeros(len(candidates), np.bool_)
    for jobs in leaf_lists(session, candidates):
        jobs.settle(depth)
        mask[jobs.rows[:depth]] = True
    if not mask.all():
        session.outcome.refusal[candidates.job[~mask]] = int(Refusal.QUEUE_DEPTH)
    return candidates.keep(mask)
