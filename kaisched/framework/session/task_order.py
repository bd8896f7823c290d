"""The order of tasks inside a job: the plugins' keys, then creation, then name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from kaisched.core.axis import TaskState
from kaisched.framework.session.host import host_of

if TYPE_CHECKING:
    from kaisched.core.axis import RowVec
    from kaisched.framework.session.view import SessionView

_PENDING = int(TaskState.PENDING)


_HINT: Final = "task_order"
_MANY: Final = 64
"""Sorting fewer tasks costs no more than checking whether a kept order is still valid."""
_KEPT: Final = 64
"""Jobs whose order is kept."""


class _Known(NamedTuple):
    """An order of tasks, with the keys that it was made from: names stay with their rows."""

    generation: int
    tasks: bytes
    columns: tuple[bytes, ...]
    ordered: RowVec


def ordered_tasks(session: SessionView, tasks: RowVec) -> RowVec:
    """Return task rows in the order in which they are placed."""
    if len(tasks) < 2:  # noqa: PLR2004 - nothing to order
        return tasks
    host = host_of(session)
    columns = (*host.ask.task_order(host, tasks), session.tasks.created_s[tasks])
    if len(tasks) < _MANY:
        return _sorted(session, tasks, columns)
    known: dict[int, _Known] = session.hints.setdefault(_HINT, {})
    job = int(session.tasks.job_of_task[tasks[0]])
    asked = (
        session.generation,
        tasks.tobytes(),
        tuple(column.tobytes() for column in columns),
    )
    found = known.pop(job, None)
    if found is None or found[:3] != asked:
        found = _Known(*asked, _sorted(session, tasks, columns))
    known[job] = found
    if len(known) > _KEPT:
        del known[next(iter(known))]
    return found.ordered.copy()


def _sorted(session: SessionView, tasks: RowVec, columns: tuple[Any, ...]) -> RowVec:
    rows = tasks.tolist()
    keys: list[list[Any]] = []
    for column in columns:
        key = column.tolist()
        if key.count(key[0]) != len(key):  # most keys are the same for all pods of a job
            keys.append(key)
    names = session.tasks.name
    keys.append([names[row] for row in rows])
    ranked = sorted(zip(*keys, rows, strict=True))
    return np.array([entry[-1] for entry in ranked], np.int64)


def pending_tasks(session: SessionView, job: int) -> RowVec:
    """Return a job's pending task rows, in the order in which they are placed."""
    tasks = np.array(session.jobs.tasks[job], np.int64)
    if session.pending_count(job) == len(tasks):
        return ordered_tasks(session, tasks)
    return ordered_tasks(session, tasks[session.state_now[tasks] == _PENDING])
