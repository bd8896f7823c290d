"""The next batches of many jobs at once: their shapes, numbers of pods and requests."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from kaisched.framework.session.next_batch import pods_of_batch
from kaisched.framework.session.task_order import pending_tasks

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kaisched.core.axis import Amounts, IntVec, RowVec
    from kaisched.framework.session.session import Session

_LONE: Final = "batches.lone_parts"
_NONE: Final[RowVec] = np.zeros(0, np.int64)


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
    if not session.jobs.structure or session.ask.subgroup_sets(session) is None:
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
