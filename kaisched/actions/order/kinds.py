"""Kinds of waiting jobs: jobs of one queue, shape, size and priority, and the steps of each kind.

A job of several shapes or pod sets is a kind of its own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

import numpy as np

if TYPE_CHECKING:
    from kaisched.core.axis import BoolVec, IntVec, RowVec
    from kaisched.core.constraints import Constraints, NodeTerm
    from kaisched.core.tables import JobTable
    from kaisched.framework.session.session import Session

Key: TypeAlias = tuple[int, float, str]
"""The place of a kind in its queue: (-priority, creation, name) of its first job."""

_STEPS: Final = "kinds.steps"
_GROUPED: Final = "kinds.grouped"
_REQUIREMENTS: Final = 8
_VALUES: Final = 64
_PODS: Final = 64
"""So many requirements on nodes, values in them, or pods that differ cost about a step."""
_SALT: Final = tuple(
    np.uint64(odd)
    for odd in (0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9, 0xD6E8FEB86659FD93)
)


class Kind(NamedTuple):
    """Jobs that plugins and nodes answer alike, with what it costs to ask about them."""

    key: Key
    steps: int
    jobs: RowVec
    mark: int
    """A number that all jobs of the kind share, and no others."""


class _Grouped(NamedTuple):
    """The kinds of some jobs, kept between cycles."""

    asked: tuple[Any, ...]
    kinds: dict[int, list[Kind]]


class _Steps(NamedTuple):
    """The steps of each shape, kept between cycles."""

    shapes: object
    """The table that the steps were counted from."""
    generation: int
    steps: IntVec
    """``(S,)``"""
    last: object
    """The constraints of the last shape: while these are the same, so are the earlier shapes'."""
    most: int


def steps_of_jobs(session: Session, job: RowVec) -> IntVec:
    """``(K,)`` the steps of jobs."""
    jobs = session.jobs
    shape = jobs.shape_of_job[job]
    simple = is_simple(jobs, job)
    steps: IntVec = _known_steps(session).steps[np.where(simple, shape, 0)]
    if not simple.all():
        own = 1 + jobs.podset_count[job] // 2 + jobs.pending[job] // _PODS
        steps = np.where(simple, steps, own)
    return steps


def most_steps(session: Session, job: RowVec) -> int:
    """Return a quick upper bound of the steps of each of some jobs."""
    jobs = session.jobs
    if not job.size:
        return 0
    pods: int = max(jobs.pending.take(job).tolist())
    sets: int = 1  # of every job, where none has a structure
    if jobs.structure:
        sets = max(jobs.podset_count.take(job).tolist())
    return max(_known_steps(session).most, 1 + sets // 2 + pods // _PODS)


def is_simple(jobs: JobTable, job: RowVec) -> BoolVec:
    """``(K,)`` whether all pods of a job are alike and in one pod set."""
    simple: BoolVec = (jobs.podset_count[job] == 1) & (jobs.shape_of_job[job] >= 0)
    return simple


def _known_steps(session: Session) -> _Steps:
    """Return the steps of all shapes; only new shapes are counted."""
    shapes, generation = session.shapes, session.snapshot.generation
    known: _Steps | None = session.hints.get(_STEPS)
    if known is not None and known.shapes is shapes and known.generation == generation:
        return known
    constraints = shapes.constraints
    count = len(constraints)
    steps: IntVec = np.zeros(0, np.int64)
    if known is not None and known.generation == generation and len(known.steps) <= count:
        steps = known.steps
    seen = len(steps)
    if known is not None and seen and constraints[seen - 1] is not known.last:
        seen = 0
    fresh = [steps_of(constraints[shape]) for shape in range(seen, count)]
    steps = np.concatenate((steps[:seen], np.array(fresh, np.int64)))
    last = constraints[count - 1] if count else None
    known = _Steps(shapes, generation, steps, last, int(steps.max(initial=1)))
    session.hints[_STEPS] = known
    return known


def steps_of(asked: Constraints) -> int:
    """Return the steps of a shape: count its requirements on nodes and on other pods."""
    requirements = len(asked.node_selector) + len(asked.tolerations)
    values = 0
    for terms in (asked.node_terms or (), *asked.volume_terms, *asked.queue_terms):
        more, listed = _size(terms)
        requirements += more
        values += listed
    near = len(asked.pod_affinity) + len(asked.pod_anti_affinity) + len(asked.host_ports)
    return 1 + requirements // _REQUIREMENTS + values // _VALUES + near // 2


def _size(terms: tuple[NodeTerm, ...]) -> tuple[int, int]:
    """Return (requirements, values) of terms."""
    wanted = [one for labels, fields in terms for one in (*labels, *fields)]
    return len(wanted), sum(len(one.values) for one in wanted)


def first_of_kinds(session: Session, job: RowVec, most: int) -> IntVec | None:
    """Return the place in ``job`` of one job of each kind; None for ``most`` kinds or fewer.

    Counting the kinds is quicker than finding their places, and bounding their number is quicker
    still.
    """
    jobs = session.jobs
    columns = (jobs.shape_of_job, jobs.pending, jobs.priority, jobs.queue_of_job)
    distinct = 1
    for column in columns:
        distinct *= _distinct(column[job])
    if distinct <= most and is_simple(jobs, job).all():
        return None
    mark = _marks(session, job)
    if len(np.unique(mark)) <= most:
        return None
    first: IntVec = np.unique(mark, return_index=True)[1]
    return first


def _distinct(column: IntVec) -> int:
    """Return an upper bound of how many different numbers there are: exact for small numbers."""
    low, high = int(column.min()), int(column.max())
    if low == high:
        return 1
    if not 0 <= low <= high <= len(column):
        return len(column)
    return int(np.count_nonzero(np.bincount(column)))


def _marks(session: Session, job: RowVec) -> Any:
    """``(K,)`` a number for each job that is the same within a kind and differs between kinds."""
    jobs = session.jobs
    simple = is_simple(jobs, job)
    columns = (
        jobs.queue_of_job[job],
        np.where(simple, jobs.shape_of_job[job], -1 - job),
        jobs.pending[job],
        jobs.priority[job],
    )
    mark = np.zeros(len(job), np.uint64)
    for salt, column in zip(_SALT, columns, strict=True):
        mark = (mark ^ column.astype(np.int64).view(np.uint64)) * salt
        mark ^= mark >> np.uint64(29)
    return mark


def kinds_of(session: Session, job: RowVec, steps: IntVec) -> dict[int, list[Kind]]:
    """Return the kinds of some waiting jobs by leaf queue, in order.

    Groups are kept between cycles: a flood of hostile objects mostly does not change.
    """
    mark = _marks(session, job)
    generation = session.snapshot.generation
    asked = (generation, job.tobytes(), mark.tobytes(), steps.tobytes())
    known: _Grouped | None = session.hints.get(_GROUPED)
    if known is not None and known.asked == asked:
        return known.kinds
    old = known.kinds if known is not None and known.asked[0] == generation else {}
    kinds = _group(session, job, mark, steps, old)
    session.hints[_GROUPED] = _Grouped(asked, kinds)
    return kinds


def _group(
    session: Session, job: RowVec, mark: Any, steps: IntVec, old: dict[int, list[Kind]]
) -> dict[int, list[Kind]]:
    """Group jobs anew; kinds of one job are reused in their order, which sorts quickly."""
    jobs = session.jobs
    order = np.lexsort((jobs.created_s[job], mark))
    sorted_mark = mark[order]
    starts = np.flatnonzero(np.append(True, sorted_mark[1:] != sorted_mark[:-1]))
    ends = np.append(starts[1:], len(order))
    first = order[starts]
    columns = (starts, ends, sorted_mark[starts], steps[first], jobs.queue_of_job[job[first]])
    known = {kind.mark: kind for kinds in old.values() for kind in kinds}
    places = {mark: place for place, mark in enumerate(known)}
    found: dict[int, list[Kind]] = {}
    for start, end, name, cost, queue in zip(*(each.tolist() for each in columns), strict=True):
        kind = known.get(name)
        members = job[order[start:end]]
        if kind is None or len(members) > 1 or kind.steps != cost or kind.jobs[0] != members[0]:
            kind = Kind(_key(session, members), cost, members, name)
        found.setdefault(queue, []).append(kind)
    for kinds in found.values():
        kinds.sort(key=lambda kind: places.get(kind.mark, len(places)))
        kinds.sort(key=_key_of)
    return found


def _key(session: Session, job: RowVec) -> Key:
    """Return the key of a kind's first job; ``job`` is sorted by creation."""
    jobs = session.jobs
    created = jobs.created_s[job]
    first_s = float(created[0])
    tied = job[:1]
    if len(job) > 1:
        tied = job[: int(np.searchsorted(created, first_s, side="right"))]
    name = min(jobs.name[row] for row in tied.tolist())
    return (-int(jobs.priority[job[0]]), first_s, name)


def _key_of(kind: Kind) -> Key:
    return kind.key
