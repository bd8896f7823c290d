"""Computes the refusal codes of many pending jobs with arrays, as their records would have them.

A record also has numbers and a sentence, which cost a hundred times as much. For counting, and for
finding changed reasons, the code is enough. ``explain`` finds the code of one job, and a law test
compares the two.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

import numpy as np

from kaisched.core.refusals import FIRST_OF_PLUGINS, Refusal, text_of
from kaisched.framework.report.node_refusals import never_fits
from kaisched.framework.session.batches import asked_of, asks_of, batch_of, measure
from kaisched.framework.session.node_sets import node_sets

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kaisched.core.axis import Amounts, BoolVec, CodeVec, IntVec, RowVec
    from kaisched.framework.session.node_sets import NodeSet, NodeSets
    from kaisched.framework.session.session import Session

_ROOM: Final = (int(Refusal.NO_ROOM), int(Refusal.GANG_NO_ROOM))
_ALLOCATE: Final = "allocate"
MOST_SHAPES: Final = 64
"""At most so many shapes of one job are examined: thousands in every cycle would make all cycles
longer."""


def codes_of(session: Session, job: RowVec, abandoned: str = "") -> CodeVec:
    """``(K,)`` the code of the dominant reason why each of these jobs is pending."""
    if abandoned or not job.size:
        return np.full(len(job), int(Refusal.PLUGIN_FAILED), np.int16)
    refused = session.jobs.refusal[job]
    code: CodeVec = np.where(refused != 0, refused, session.outcome.refusal[job])
    if runs_allocate(session):
        at = np.flatnonzero(code == 0)
        if at.size:
            code[at] = _untold(session, job[at])
    own = np.flatnonzero((code >= FIRST_OF_PLUGINS) & (refused == 0))
    if own.size:
        # Later decisions may have opened a queue: then the jobs wait for room.
        now = _untold(session, job[own])
        code[own] = np.where(now != 0, now, code[own])
    at = np.flatnonzero(np.isin(code, _ROOM))
    if at.size:
        code[at] = _room_codes(session, job[at], code[at])
    own = own[np.isin(code[own], _ROOM)]
    if session.outcome.held:
        at = np.setdiff1d(np.flatnonzero(np.isin(code, _ROOM)), own)
        code[at[are_kept_out(session, job[at])]] = int(Refusal.ROOM_HELD)
    if own.size:
        code[own[_have_room(session, job[own])]] = opened_code(session)
    code[code == 0] = int(Refusal.NOT_TRIED)
    return code


def has_room(session: Session, job: int) -> bool:
    """Tell whether the next batch of a job with equal pods fits on what is idle now."""
    return bool(_have_room(session, np.array([job]))[0])


def opened_code(session: Session) -> int:
    """Return why a queue was full that no longer is: of evictions, or of held room that it counted.

    Of both, where there were both.
    """
    outcome = session.outcome
    return int(
        Refusal.ROOM_HELD if outcome.held and not outcome.evictions else Refusal.OPENED_SINCE
    )


def are_kept_out(session: Session, job: RowVec) -> BoolVec:
    """``(K,)`` whether jobs of equal pods have room that was held for others in this cycle.

    False where more than free room may keep the pods of a job apart.
    """
    held = session.outcome.held
    found = np.isin(job, held, invert=True) if held else np.zeros(len(job), np.bool_)
    if not found.any():
        return found
    has_parts = session.ask.subgroup_sets(session) is not None
    shape, size, _ = measure(session, job)
    for at in found.nonzero()[0].tolist():
        row, limits = int(job[at]), session.shapes.constraints[shape[at]]
        is_bound = size[at] > 1 and bool(limits.has_pod_terms or limits.claims or limits.devices)
        found[at] = not is_bound and not (has_parts and row in session.jobs.structure)
    found[found] = _have_room(session, job[found])
    return found


def _have_room(session: Session, job: RowVec) -> BoolVec:
    """``(K,)`` :func:`has_room` of several jobs."""
    shape, size, _ = measure(session, job)
    found = np.zeros(len(job), np.bool_)
    bound = _sets_of_jobs(session, job)
    for at, sets in bound.items():
        if shape[at] >= 0:
            found[at] = any(_has_room_within(session, it, shape[at], size[at]) for it in sets)
    free = np.isin(np.arange(len(job)), list(bound), invert=True)
    for each in np.unique(shape[free & (shape >= 0)]).tolist():
        of_shape = free & (shape == each)
        is_free = session.shapes.constraints[each].wait is None
        total = session.placement.vacancy(each).total
        found[of_shape] = is_free & (size[of_shape] > 0) & (size[of_shape] <= total)
    return found


def _has_room_within(session: Session, nodes: NodeSet, shape: int, size: int) -> bool:
    is_free = session.shapes.constraints[shape].wait is None
    with session.placement.within(nodes):
        return is_free and 0 < size <= session.placement.vacancy(shape).total


def _sets_of_jobs(session: Session, job: RowVec) -> dict[int, NodeSets]:
    """Return the sets of nodes of the jobs that have any, by their places in ``job``."""
    if session.ask.node_sets(session) is None:
        return {}
    found = {
        at: node_sets(session, _ALLOCATE, row, asked_of(session, row), batch_of(session, row)[0])
        for at, row in enumerate(job.tolist())
    }
    return {at: sets for at, sets in found.items() if sets is not None}


def counted(codes: CodeVec) -> dict[str, int]:
    """Return how often each reason occurs among codes, by the name that users see."""
    found: Counter[str] = Counter()
    distinct, counts = np.unique(codes, return_counts=True)
    for code, count in zip(distinct.tolist(), counts.tolist(), strict=True):
        found[text_of(code).name] += count
    return dict(sorted(found.items()))


def runs_allocate(session: Session) -> bool:
    """Tell whether allocate is an action of this cycle and did not fail."""
    tried = {action.name for action in session.policy.actions} - session.left_out
    return _ALLOCATE in tried


def _untold(session: Session, job: RowVec) -> CodeVec:
    """Return why allocate did not try jobs: a gate refuses them, or their pods fit nowhere."""
    code = np.zeros(len(job), np.int16)
    gated = session.ask.job_gate(session, _ALLOCATE, job)
    if gated is not None:
        code[:] = gated
    at = np.flatnonzero(code == 0)
    if at.size:
        _, size, _ = measure(session, job[at])
        code[at[size > 0]] = int(Refusal.NO_ROOM)
    return code


def _room_codes(session: Session, job: RowVec, code: CodeVec) -> CodeVec:
    """Return why jobs found no room: because of a queue, claims, or the nodes."""
    shape, size, batches = measure(session, job)
    shut = _queue_codes(session, job, shape, size, batches)
    open_ = np.flatnonzero(shut == 0)
    found = code.copy()
    bound = _sets_of_jobs(session, job[open_])
    for here, sets in bound.items():
        at = int(open_[here])
        tasks = batches.get(int(job[at]))
        counts = (
            [(int(shape[at]), int(size[at]))]
            if tasks is None
            else list(Counter(session.tasks.shape_of_task[tasks].tolist()).items())
        )
        found[at] = _of_sets(session, sets, counts, int(code[at]))
    open_ = np.delete(open_, list(bound))
    uniform = open_[shape[open_] >= 0]
    for each in np.unique(shape[uniform]).tolist():
        rows = uniform[shape[uniform] == each]
        found[rows] = _of_shape(session, each, size[rows], code[rows])
    for at in open_[shape[open_] < 0].tolist():
        tasks = session.tasks.shape_of_task[batches[int(job[at])]].tolist()
        found[at] = _of_shapes(session, Counter(tasks).items(), int(code[at]))
    single = (found == int(Refusal.NO_ROOM)) & (size > 1)
    found[single] = int(Refusal.GANG_NO_ROOM)
    found[shut != 0] = shut[shut != 0]
    return found


def _queue_codes(
    session: Session, job: RowVec, shape: RowVec, size: IntVec, batches: dict[int, RowVec]
) -> CodeVec:
    """Return the refusal of the lowest queue on each job's path that refuses its batch."""
    columns = job, shape, size, batches
    code = _gate_codes(session, job, asks_of(session, *columns, is_least=True))
    if session.shapes.by_card is None:
        return code
    # On the largest cards a queue would take them, on others not: so they found no room on those.
    most = _gate_codes(session, job, asks_of(session, *columns))
    return np.where(code != 0, code, most)


def _gate_codes(session: Session, job: RowVec, asks: Amounts) -> CodeVec:
    source = session.ledger if session.has_moved else session
    paths = session.queues.tree.path_of_leaf[session.jobs.queue_of_job[job]]
    code = np.zeros(len(job), np.int16)
    for level in range(paths.shape[1]):
        rows = np.flatnonzero((paths[:, level] >= 0) & (code == 0))
        if not rows.size:
            break
        queue = paths[rows, level].astype(np.int64)
        codes = session.ask.queue_gate(
            session,
            _ALLOCATE,
            queue,
            job[rows],
            asks[:, rows],
            source.held[:, queue],
            source.held_non_preemptible[:, queue],
        )
        if codes is not None:
            code[rows] = codes
    return code


def _of_shape(session: Session, shape: int, size: IntVec, code: CodeVec) -> CodeVec:
    wait = session.shapes.constraints[shape].wait
    if wait is not None:
        return np.full(len(code), int(wait[0]), np.int16)
    lacks = session.placement.vacancy(shape).total < size
    never = never_fits(session, shape) if lacks.any() else None
    return code if never is None else np.where(lacks, np.int16(never), code)


def _of_sets(session: Session, sets: NodeSets, counts: list[tuple[int, int]], code: int) -> int:
    """Return the code of a batch that may be placed on sets of nodes: the mildest of theirs."""
    if not sets:
        return sets.code
    found = [int(Refusal.NO_NODE_ALLOWED)]
    for nodes in sets:
        with session.placement.within(nodes):
            found.append(_of_shapes(session, counts, code))
    return max(found)


def _of_shapes(session: Session, counts: Iterable[tuple[int, int]], code: int) -> int:
    """Return the code of a batch of several shapes: the first shape that lacks room decides."""
    counts = list(counts)
    for shape, _ in counts:
        if (wait := session.shapes.constraints[shape].wait) is not None:
            return int(wait[0])
    for shape, count in counts[:MOST_SHAPES]:
        if session.placement.vacancy(shape).total < count:
            never = never_fits(session, shape)
            return code if never is None else int(never)
    return code
