"""The jobs an action may try: gated, sized, and refused at once where no search could help.

All columns have one entry for each candidate. A *simple* candidate is a job of one pod set whose
tasks all have one shape: array operations handle all simple candidates together. The others carry
their task rows with them.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final

import numpy as np

from kaisched.actions.order.tries import try_limit, waiting_jobs
from kaisched.core.axis import TaskState
from kaisched.core.refusals import Refusal
from kaisched.framework.session.batches import asks_of, measure, other_batches
from kaisched.framework.session.node_sets import node_sets, shapes_of
from kaisched.framework.session.order import pending_tasks

if TYPE_CHECKING:
    from kaisched.core.axis import Amounts, BoolVec, CodeVec, IntVec, RowVec
    from kaisched.framework.session.node_sets import NodeSets
    from kaisched.framework.session.session import Session


ANY: Final = int(np.iinfo(np.int64).max)
_NO_ROOM = int(Refusal.NO_ROOM)
_PENDING = int(TaskState.PENDING)


@dataclass(slots=True)
class Candidates:
    """Columns ``(C,)`` of the jobs to try."""

    job: RowVec
    queue: RowVec
    shape: RowVec
    """-1 for a job of several shapes or pod sets."""
    size: IntVec
    """Tasks placed next, all or nothing."""
    batches: dict[int, RowVec]
    """Job row to the task rows of its next batch, for jobs that are not simple."""
    most: int = ANY
    """An upper bound of how many pods of any one shape fit."""

    def __len__(self) -> int:
        """Return C."""
        return len(self.job)

    def keep(self, mask: BoolVec) -> Candidates:
        """Return the candidates where ``mask`` is true."""
        if np.count_nonzero(mask) == len(mask):  # here and below: a fifth of the time of all()
            return self
        return Candidates(
            self.job[mask],
            self.queue[mask],
            self.shape[mask],
            self.size[mask],
            self.batches,
            self.most,
        )

    def count_queues(self) -> int:
        """Return how many queues have candidates."""
        if len(self.queue) < 2:  # noqa: PLR2004 - nothing to count
            return len(self.queue)
        return int(np.count_nonzero(np.bincount(self.queue)))

    def take_shapes_anew(self, session: Session) -> None:
        """Take the shapes of simple candidates as of now: claims may count with other pods."""
        simple = self.shape >= 0
        self.shape[simple] = session.jobs.shape_of_job[self.job[simple]]

    def asks(self, session: Session, at: RowVec) -> Amounts:
        """``(R, K)`` what the next batches of some candidates ask for."""
        return asks_of(session, self.job[at], self.shape[at], self.size[at], self.batches)

    def least_asks(self, session: Session, at: RowVec) -> Amounts:
        """``(R, K)`` the least that these could count in queues, as gates are asked."""
        columns = self.job[at], self.shape[at], self.size[at], self.batches
        return asks_of(session, *columns, is_least=True)

    def batch(self, session: Session, at: int) -> RowVec:
        """Return the task rows of one candidate's batch, of whatever pods it is."""
        tasks = self.batches.get(int(self.job[at]))
        return self.tasks(session, [at]) if tasks is None else tasks

    def tasks(self, session: Session, at: list[int]) -> RowVec:
        """Return the task rows of the batches of some candidates of equal pods, job after job."""
        jobs, ledger = self.job[at], session.ledger
        first: RowVec = session.jobs.first_task[jobs]
        alone = (ledger.job_pending[jobs] == 1) & (ledger.job_active[jobs] == 0)
        if (alone & (ledger.state[first] == _PENDING)).all():
            return first  # jobs of one pod, by far the most frequent
        sized = zip(jobs.tolist(), self.size[at].tolist(), strict=True)
        return np.concatenate([pending_tasks(session, job)[:size] for job, size in sized])


def pending_jobs(session: Session, *, claims: bool = False) -> RowVec:
    """Return the rows of jobs with pending tasks that are not refused and not put off.

    With ``claims`` return the jobs for which pods may be evicted.
    """
    rows = waiting_jobs(session)
    limit = try_limit(session)
    if limit is None:
        return rows
    off = limit.claims_off if claims else limit.off
    tried: RowVec = rows[~off[rows]]
    return tried


def gather(session: Session, action: str, job: RowVec, *, tries_full: bool = False) -> Candidates:
    """Ask the gates, size the batches; refusals are noted in the session's outcome.

    With ``tries_full`` jobs whose pods fit nowhere now are kept: others may be evicted for them.
    """
    if job.size:
        job = _note(session, job, session.ask.job_gate(session, action, job))
    if not tries_full and session.policy.queue_depth.get(action) is None:
        job = _drop_shut_out(session, job)
    shape, size, batches = measure(session, job)
    some = size > 0
    if np.count_nonzero(some) < len(some):
        job, shape, size = job[some], shape[some], size[some]
    return Candidates(job, session.jobs.queue_of_job[job], shape, size, batches)


def _drop_shut_out(session: Session, job: RowVec) -> RowVec:
    """Refuse jobs whose pods fit nowhere at all: in a full cluster, nearly all of them."""
    if not job.size:
        return job
    shape = session.jobs.shape_of_job[job]
    mixed = shape < 0
    has_mixed = np.count_nonzero(mixed) > 0
    if has_mixed:
        shape = np.where(mixed, shape.max(initial=0), shape)
    fits = session.placement.upper_bound(shape) > 0
    if has_mixed:
        fits |= mixed
    if np.count_nonzero(fits) == len(fits):
        return job
    note_no_room(session, job[~fits])
    left: RowVec = job[fits]
    return left


def _note(session: Session, job: RowVec, codes: CodeVec | None) -> RowVec:
    """Note refusals and return the jobs that are left."""
    if codes is None or not np.count_nonzero(codes):
        return job
    refused = codes != 0
    session.outcome.refusal[job[refused]] = codes[refused]
    left: RowVec = job[~refused]
    return left


def drop_roomless(session: Session, candidates: Candidates) -> Candidates:
    """Refuse candidates that do not fit on all nodes together, now or once all is released.

    No placement is lost: an action that evicts nothing frees no capacity. Jobs of several
    shapes are checked for the sum of their requests and for each shape's count. That check is
    necessary, not sufficient. If other subgroups of a job pass it, they are its next batch.
    """
    if not len(candidates):
        candidates.most = 0
        return candidates
    simple = candidates.shape >= 0
    if np.count_nonzero(simple) == len(simple):
        bound = session.placement.upper_bound(candidates.shape)
    else:
        bound = np.full(len(candidates), ANY)
        if simple.any():
            bound[simple] = session.placement.upper_bound(candidates.shape[simple])
        all_room = session.capacity.total()
        for at in np.flatnonzero(~simple).tolist():
            if not _find_fitting(session, candidates, at, all_room):
                bound[at] = -1
    enough = candidates.size <= bound
    if np.count_nonzero(enough) < len(enough):
        note_no_room(session, candidates.job[~enough])
        candidates, bound = candidates.keep(enough), bound[enough]
    candidates.most = int(bound.max(initial=0))
    return candidates


def _find_fitting(session: Session, candidates: Candidates, at: int, all_room: IntVec) -> bool:
    """Tell whether a batch of unequal pods could fit, or put another one in its place."""
    job = int(candidates.job[at])
    tasks = candidates.batches[job]
    fits = partial(_could_fit, session, all_room)
    if fits(tasks):
        return True
    other = next(filter(fits, other_batches(session, job, tasks, fits)), None)
    if other is not None:
        candidates.batches[job], candidates.size[at] = other, len(other)
    return other is not None


def _could_fit(session: Session, all_room: IntVec, tasks: RowVec) -> bool:
    shapes = session.tasks.shape_of_task[tasks]
    distinct, counts = np.unique(shapes, return_counts=True)
    ask = session.shapes.request.take(distinct, axis=1) @ counts
    if (ask > all_room).any():
        return False
    return bool((session.placement.upper_bound(distinct) >= counts).all())


def note_no_room(session: Session, job: RowVec) -> None:
    """Note that jobs fit nowhere; their records distinguish gangs from single pods."""
    session.outcome.refusal[job] = _NO_ROOM


def measure_again(session: Session, candidates: Candidates, at: int) -> bool:
    """Size a candidate's next batch anew, as of now; False when no pod is left to place."""
    _, size, batches = measure(session, candidates.job[[at]])
    candidates.batches.update(batches)
    candidates.size[at] = size[0]
    return bool(size[0])


def drop_gated(session: Session, action: str, candidates: Candidates) -> Candidates:
    """Refuse candidates that a queue on their path refuses with what it has allocated now.

    Gates do not open as a queue fills: a candidate that is refused now stays refused.
    """
    if not len(candidates) or not session.ask.has_queue_gates:
        return candidates
    held, strict = session.held, session.held_non_preemptible
    if session.has_moved:
        held, strict = session.ledger.held, session.ledger.held_non_preemptible
    paths = session.queues.tree.path_of_leaf[candidates.queue]
    asks = candidates.least_asks(session, np.arange(len(candidates)))
    code = np.zeros(len(candidates), np.int16)
    for level in range(paths.shape[1]):
        rows = ((paths[:, level] >= 0) & (code == 0)).nonzero()[0]
        queue = paths[rows, level].astype(np.int64)
        job, ask = candidates.job[rows], asks.take(rows, axis=1)
        codes = session.ask.queue_gate(
            session, action, queue, job, ask, held[:, queue], strict[:, queue]
        )
        if codes is not None:
            code[rows] = codes
    refused = code != 0
    session.outcome.refusal[candidates.job[refused]] = code[refused]
    return candidates.keep(~refused)


# Candidates that fail together: equal pods, of one queue, on the same sets of nodes.


def sets_of(session: Session, action: str, candidates: Candidates, at: int) -> NodeSets | None:
    """Return the sets of nodes of one candidate; None if it may be placed on all nodes."""
    if not session.ask.has_node_sets(session):
        return None
    ask = candidates.asks(session, np.array([at]))[:, 0]
    job = int(candidates.job[at])
    batch = candidates.batches.get(job)
    one = [(int(candidates.shape[at]), int(candidates.size[at]))]
    shapes = one if batch is None else shapes_of(session, batch)
    return node_sets(session, action, job, ask, shapes)


def alike(session: Session, action: str, candidates: Candidates, at: int, among: BoolVec) -> RowVec:
    """Return the candidates that ask for at least as many equal pods on the same sets of nodes.

    Where one candidate does not fit, the others do not. ``among`` ``(C,)`` are those compared.
    """
    if candidates.shape[at] < 0:
        return np.empty(0, np.int64)
    same = (
        among
        & (candidates.queue == candidates.queue[at])
        & (candidates.shape == candidates.shape[at])
        & (candidates.size >= candidates.size[at])
    )
    rows: RowVec = same.nonzero()[0]
    if not session.ask.has_node_sets(session):
        return rows
    own = sets_of(session, action, candidates, at)
    kept = [
        row for row in rows.tolist() if _are_like(own, sets_of(session, action, candidates, row))
    ]
    return np.array(kept, np.int64)


def _are_like(own: NodeSets | None, others: NodeSets | None) -> bool:
    return own is others if own is None or others is None else own.is_like(others)
