"""Other subgroups for the next batch of a job, where those that come first find no room.

A group that needs some of its subgroups starts with the first ones in their order, and grows by the
first that has pods to place. If there is no room for one of these, others may do.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from kaisched.core.states import TaskState

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from kaisched.core.axis import IntVec, RowVec
    from kaisched.core.tables import SubGroup
    from kaisched.framework.session.session import Session

MOST_TRIES: Final = 64
"""So many questions whether pods fit, and answers, find another batch for a job at most."""
_NONE: Final[RowVec] = np.zeros(0, np.int64)
_PENDING = int(TaskState.PENDING)
_PLACES: Final = "places_when_empty"


def other_batches(
    session: Session, job: int, tasks: RowVec, fits: Callable[[RowVec], bool]
) -> Iterator[RowVec]:
    """Yield other batches of a job whose batch ``tasks`` does not fit, until the caller has one.

    First the subgroup without room beside those before it is passed over, and then the next such
    one. Where too few are left the first subgroup of all is passed over, though it fits by itself.

    Args:
        session: the session.
        job: the job.
        tasks: its next batch.
        fits: tells whether some pods of the job have room together; it changes nothing.

    """
    if not _has_choice(session, job, tasks):
        return
    tries, seen = iter(range(MOST_TRIES)), set[bytes]()
    like = _equal_podsets(session, job)
    left_out: set[int] = set()
    first = tasks
    while first.size:
        batch, passed_over = first, left_out.copy()
        while batch.size and (key := batch.tobytes()) not in seen:
            seen.add(key)
            if batch is not tasks:
                yield batch
            podset = _without_room(_podsets(session, batch), batch, fits, tries)
            if podset is None:
                return
            passed_over |= like[podset]
            batch = _batch_without(session, job, passed_over)
        left_out |= like[int(_podsets(session, first)[0])]
        first = _batch_without(session, job, left_out)


def _equal_podsets(session: Session, job: int) -> dict[int, set[int]]:
    """Return for each pod set of a job those that need as many of the same pods.

    Where one of them finds no room, the others find none, unless subgroups may have sets of nodes
    of their own.
    """
    tasks = np.array(session.jobs.tasks[job], np.int64)
    tasks = tasks[session.state_now[tasks] == _PENDING]
    lacks = session.podsets.minimum - session.podset_active_now
    is_own = session.ask.subgroup_sets(session) is not None
    shapes: dict[int, list[int]] = {}
    for podset, shape in sorted(
        zip(
            _podsets(session, tasks).tolist(),
            session.tasks.shape_of_task[tasks].tolist(),
            strict=True,
        )
    ):
        shapes.setdefault(podset, []).append(shape)
    alike: dict[tuple[int, ...], set[int]] = {}
    for podset, some in shapes.items():
        key = (podset,) if is_own else (-1, int(lacks[podset]), *some)
        alike.setdefault(key, set()).add(podset)
    return {podset: some for some in alike.values() for podset in some}


def _without_room(
    podsets: RowVec, tasks: RowVec, fits: Callable[[RowVec], bool], tries: Iterator[int]
) -> int | None:
    """Return the first pod set that has no room beside those before it; None after all tries.

    All together have none, so it is the last one if those before it have room.
    """
    parts = list(dict.fromkeys(podsets.tolist()))
    fitting, last = 0, len(parts) - 1
    for _ in tries:
        if fitting == last:
            return int(parts[last])
        middle = (fitting + last) // 2
        if fits(tasks[np.isin(podsets, parts[: middle + 1])]):
            fitting = middle + 1
        else:
            last = middle
    return None


def possible_batch(session: Session, job: int, tasks: RowVec) -> RowVec:
    """Return the next batch ``tasks`` of a job, or another one if no nodes could ever hold it."""
    if not _has_choice(session, job, tasks) or _could_ever_fit(session, tasks):
        return tasks

    def fits(some: RowVec) -> bool:
        return _could_ever_fit(session, some)

    return next(filter(fits, other_batches(session, job, tasks, fits)), tasks)


def _has_choice(session: Session, job: int, tasks: RowVec) -> bool:
    """Tell whether pods of other subgroups might do as well."""
    root = session.jobs.structure.get(job)
    if root is None or not tasks.size or session.jobs.podset_count[job] == 1:
        return False
    podsets = _podsets(session, tasks)
    return bool((podsets == podsets[0]).all()) or _needs_some(root)


def _needs_some(group: SubGroup) -> bool:
    """Tell whether a group, or one below it, needs fewer subgroups than it has."""
    children = group.children
    return group.min_subgroup < len(children) or any(map(_needs_some, children))


def _podsets(session: Session, tasks: RowVec) -> RowVec:
    return session.tasks.podset_of_task[tasks]


def _batch_without(session: Session, job: int, podsets: set[int]) -> RowVec:
    """Return the next batch of a job if these pod sets had no pods to place."""
    with session.passing_over(podsets):
        found = session.ask.next_batch(session, job)
    if found is None or np.isin(_podsets(session, found), list(podsets)).any():
        return _NONE  # whoever answers does not look at what is pending
    return found


def _could_ever_fit(session: Session, tasks: RowVec) -> bool:
    """Tell whether nodes would have room for pods, kind by kind, if nothing else ran."""
    shapes, counts = np.unique(session.tasks.shape_of_task[tasks], return_counts=True)
    return all(
        _places(session, shape) >= count
        for shape, count in zip(shapes.tolist(), counts.tolist(), strict=True)
    )


def _places(session: Session, shape: int) -> int:
    known: dict[int, int] = session.found.setdefault(_PLACES, {})
    if shape not in known:
        with session.placement.within(None):
            rooms: IntVec = session.places_when_empty(shape)
        known[shape] = int(rooms.sum())
    return known[shape]
