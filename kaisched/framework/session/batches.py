"""The next batch of one job, or of many at once: pods, shapes, numbers and requests, as of now.

A group that needs some of its subgroups starts with the first ones in their order, and grows by the
first that has pods to place. If there is no room for one of these, others may do.
"""

from __future__ import annotations

from collections import Counter
from functools import partial
from typing import TYPE_CHECKING, Final

import numpy as np

from kaisched.core.axis import PODS, TaskState
from kaisched.framework.session.order import pending_tasks
from kaisched.framework.session.placement import pods_if_empty

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from kaisched.core.axis import Amounts, IntVec, RowVec
    from kaisched.framework.session.session import Session

MOST_TRIES: Final = 64
"""So many questions whether pods fit, and answers, find another batch for a job at most."""
_NONE: Final[RowVec] = np.zeros(0, np.int64)
_PENDING = int(TaskState.PENDING)
_LONE: Final = "batches.lone_parts"


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
    tries, seen = iter(range(MOST_TRIES)), set[tuple[int, ...]]()
    kind = _kinds(session, job)
    left_out: set[int] = set()
    first = tasks
    while first.size and next(tries, None) is not None:
        batch, passed_over = first, left_out.copy()
        while batch.size:
            podsets = _podsets(session, batch)
            parts = list(dict.fromkeys(podsets.tolist()))
            kinds = tuple(kind[podset] for podset in parts)
            if kinds in seen:
                break
            seen.add(kinds)
            if batch is not tasks:
                yield batch
            fit = partial(_fit_first, fits, batch, podsets, parts)
            at = _without_room(len(parts), fit, tries)
            if at is None:
                return
            passed_over |= {it for it in kind if kind[it] == kinds[at]}.difference(parts[:at])
            batch = _batch_without(session, job, passed_over)
        left_out.add(int(_podsets(session, first)[0]))
        first = _batch_without(session, job, left_out)


def _kinds(session: Session, job: int) -> dict[int, int]:
    """Return a number for each pod set of a job, the same if they need as many of the same pods.

    Where one of them finds no room, the others find none, unless subgroups may have sets of nodes
    of their own: then all numbers differ.
    """
    tasks = np.array(session.jobs.tasks[job], np.int64)
    tasks = tasks[session.state_now[tasks] == _PENDING]
    podsets, shapes = _podsets(session, tasks), session.tasks.shape_of_task[tasks]
    order = np.lexsort((shapes, podsets))
    rows, starts = np.unique(podsets[order], return_index=True)
    is_own = session.ask.has_subgroup_sets(session)
    lacks = session.podsets.minimum[rows] - session.podset_active_now[rows]
    numbers: dict[tuple[int, bytes], int] = {}
    found = {}
    split = np.split(shapes[order], starts[1:])
    for podset, lacking, some in zip(rows.tolist(), lacks.tolist(), split, strict=True):
        key = (podset, b"") if is_own else (lacking, some.tobytes())
        found[podset] = numbers.setdefault(key, len(numbers))
    return found


def _fit_first(
    fits: Callable[[RowVec], bool], tasks: RowVec, podsets: RowVec, parts: list[int], number: int
) -> bool:
    return fits(tasks[np.isin(podsets, parts[:number])])


def _without_room(parts: int, fit: Callable[[int], bool], tries: Iterator[int]) -> int | None:
    """Return the place of the first part without room beside those before it; None after all tries.

    ``fit`` tells whether the first so many parts have room together. All of them have none.
    """
    fitting, last = 0, parts - 1
    for _ in tries:
        if fitting == last:
            return last
        middle = (fitting + last) // 2
        if fit(middle + 1):
            fitting = middle + 1
        else:
            last = middle
    return None


def possible_batch(session: Session, job: int, tasks: RowVec) -> RowVec:
    """Return the next batch ``tasks`` of a job, or another one if no nodes could ever hold it.

    Only of a job that needs some of its subgroups: of others no batch is worth the question.
    """
    root = session.jobs.structure.get(job)
    if root is None or not root.needs_some or not tasks.size or _could_ever_fit(session, tasks):
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
    return bool((podsets == podsets[0]).all()) or root.needs_some


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
        pods_if_empty(session, shape) >= count
        for shape, count in zip(shapes.tolist(), counts.tolist(), strict=True)
    )


def batch_of(session: Session, job: int) -> tuple[list[tuple[int, int]], int]:
    """Return ([(shape, pods)], pods in all) of the job's next batch.

    Shapes are in the order of their first pods: the numbers of shapes differ from store to store.
    """
    jobs = session.jobs
    row = np.array([job])
    if int(jobs.podset_count[job]) == 1:
        size = int(session.ask.batch_size(session, row)[0])
        if int(jobs.shape_of_job[job]) >= 0:
            return [(int(jobs.shape_of_job[job]), size)], size
        batch = pending_tasks(session, job)[:size]
    else:
        batch = pods_of_batch(session, job)
    counts = Counter(session.tasks.shape_of_task[batch].tolist())
    return list(counts.items()), len(batch)


def pods_of_batch(session: Session, job: int) -> RowVec:
    """Return the pods of the next batch of a job of several pod sets, or with subgroups.

    Of other subgroups if no nodes could ever hold those that come first.
    """
    step = session.ask.next_batch(session, job)
    return pending_tasks(session, job)[:1] if step is None else possible_batch(session, job, step)


def asked_of(session: Session, job: int) -> Amounts:
    """``(R,)`` what the job's next batch asks for."""
    return _batch_asks(session, job, session.shapes.charge)


def least_asked_of(session: Session, job: int) -> Amounts:
    """``(R,)`` the least that the job's next batch could count, on the largest cards of a GPU.

    Limits and quotas are asked with this while no node is chosen.
    """
    return _batch_asks(session, job, session.least_charge)


def _batch_asks(session: Session, job: int, charge: Amounts) -> Amounts:
    ask = np.zeros(len(session.axis), np.int64)
    for shape, count in batch_of(session, job)[0]:
        ask += charge[:, shape] * count
    return ask


def possible_asks(session: Session, job: int) -> list[Amounts]:
    """Return what the job's next batch counts on the largest and on the smallest cards of a GPU.

    One amount ``(R,)`` where that is the same.
    """
    most = asked_of(session, job)
    if session.shapes.by_card is None:
        return [most]
    least = least_asked_of(session, job)
    return [most] if (least == most).all() else [least, most]


def main_resource(session: Session, ask: Amounts) -> int:
    """Return the resource of which ``ask`` ``(R,)`` takes the largest part of the cluster."""
    asked = [row for row in np.flatnonzero(ask).tolist() if row != PODS]
    total = session.total
    return max(asked, key=lambda row: int(ask[row]) / max(1, int(total[row])), default=PODS)


def measure(session: Session, job: RowVec) -> tuple[RowVec, IntVec, dict[int, RowVec]]:
    """Return shapes, sizes and, for jobs that are not simple, task rows of the next batches."""
    jobs = session.jobs
    shape = jobs.shape_of_job[job]
    if not job.size:
        return shape, np.zeros(0, np.int64), {}
    simple = jobs.podset_count[job] == 1
    flat = simple & (shape >= 0)
    if (lone := _lone_parts(session)).size:
        flat &= ~np.isin(job, lone)
    if np.count_nonzero(flat) == len(flat):
        return shape, session.ask.batch_size(session, job), {}
    size = np.zeros(len(job), np.int64)
    batches: dict[int, RowVec] = {}
    if simple.any():
        size[simple] = session.ask.batch_size(session, job[simple])
    shape = np.where(flat, shape, -1)
    for at in np.flatnonzero(~flat).tolist():
        row = int(job[at])
        if simple[at]:
            batches[row] = pending_tasks(session, row)[: size[at]]
        else:
            batches[row] = pods_of_batch(session, row)
        size[at] = len(batches[row])
    return shape, size, batches


def _lone_parts(session: Session) -> RowVec:
    """Return the jobs whose only pod set has sets of nodes of its own: it is placed as a part."""
    if not session.jobs.structure or not session.ask.has_subgroup_sets(session):
        return _NONE
    found: RowVec | None = session.found.get(_LONE)
    if found is None:
        count, trees = session.jobs.podset_count, session.jobs.structure.items()
        rows = [job for job, root in trees if root.children and count[job] == 1]
        found = session.found[_LONE] = np.array(rows, np.int64)
    return found


def asks_of(
    session: Session,
    job: RowVec,
    shape: RowVec,
    size: IntVec,
    batches: Mapping[int, RowVec],
    *,
    is_least: bool = False,
) -> Amounts:
    """``(R, K)`` what the next batches that :func:`measure` returned ask for.

    ``is_least`` asks for the least that they could count, on the largest cards.
    """
    charge = session.least_charge if is_least else session.shapes.charge
    asks: Amounts = charge.take(shape, axis=1) * size
    if batches and shape.min(initial=0) < 0:
        for here in np.flatnonzero(shape < 0).tolist():
            shapes = session.tasks.shape_of_task[batches[int(job[here])]]
            asks[:, here] = charge[:, shapes].sum(axis=1)
    return asks
