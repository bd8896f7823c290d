"""The order of tasks inside a job: the plugins' keys, then creation, then name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from kaisched.core.states import TaskState

if TYPE_CHECKING:
    from kaisched.core.axis import RowVec
    from kaisched.framework.session import Session

_PENDING = int(TaskState.PENDING)


def ordered_tasks(session: Session, tasks: RowVec) -> RowVec:
    """Return task rows in the order in which they are placed."""
    if len(tasks) < 2:  # noqa: PLR2004 - nothing to order
        return tasks
    rows = tasks.tolist()
    keys: list[list[Any]] = []
    for column in (*session.ask.task_order(session, tasks), session.tasks.created_s[tasks]):
        key = column.tolist()
        if key.count(key[0]) != len(key):  # most keys are the same for all pods of a job
            keys.append(key)
    names = session.tasks.name
    keys.append([names[row] for row in rows])
    ranked = sorted(zip(*keys, rows, strict=True))
    return np.array([entry[-1] for entry in ranked], np.int64)


def pending_tasks(session: Session, job: int) -> RowVec:
    """Return a job's pending task rows, in the order in which they are placed."""
    tasks = np.array(session.jobs.tasks[job], np.int64)
    if session.pending_count(job) == len(tasks):
        return ordered_tasks(session, tasks)
    state = session.ledger.state if session.has_moved else session.tasks.state
    return ordered_tasks(session, tasks[state[tasks] == _PENDING])
