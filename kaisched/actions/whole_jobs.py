"""Evict jobs as a whole that nobody claims: of drained queues, and those whose time is over."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from kaisched.core.axis import ACTIVE_STATES
from kaisched.framework.session.disruptions_left import may_disrupt
from kaisched.framework.session.eviction_budget import may_evict
from kaisched.framework.session.task_order import ordered_tasks

if TYPE_CHECKING:
    from kaisched.framework.session.session import Session


def evict_job(session: Session, job: int, action: str, reason: str) -> bool:
    """Evict all running pods of a job, if budgets allow it; return whether they are evicted."""
    session.trying = (job,)
    pods = _running(session, job)
    if not (pods and may_evict(session, len(pods)) and may_disrupt(session, pods)):
        return False
    statement = session.statement()
    for task in pods:
        statement.evict(task)
    statement.commit(action, -1, reason)
    return True


def _running(session: Session, job: int) -> list[int]:
    """Return the running pods of a job that this cycle has not changed."""
    tasks, state = session.tasks, session.ledger.state
    return [
        task
        for task in ordered_tasks(session, np.array(session.jobs.tasks[job], np.int64)).tolist()
        if ACTIVE_STATES[tasks.state[task]]
        and state[task] == tasks.state[task]
        and tasks.node_of_task[task] >= 0
    ]
