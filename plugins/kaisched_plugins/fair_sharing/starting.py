"""What a cycle has started so far, among the victims of its queues: it goes first, but cannot go.

Rule F12 of docs/explanation/fair-sharing.md. Work that starts in a cycle counts in the share of its
queue at once. If it were left out of the line of victims, the next in line would go for it.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from kaisched import ACTIVE_STATES, RowVec, Session, Units, charges
from kaisched_plugins.fair_sharing.allowed import Rules
from kaisched_plugins.fair_sharing.tables import Table


def with_started(session: Session, table: Table, units: Units, queue: int, rules: Rules) -> Units:
    """Return units by row, and behind them what other queues of a tree have started."""
    if rules.is_compatible or not session.moves:
        return units
    tasks = _started(session, table, queue)
    if not tasks.size:
        return units
    job, where = np.unique(session.tasks.job_of_task[tasks], return_inverse=True)
    amounts = np.zeros((len(table.rows), len(job)), np.int64)
    if table.flavors is None:
        charge = charges(session, tasks, session.node_of_task_now[tasks])
        np.add.at(amounts.T, where, charge[table.rows].T)
    else:
        table.count(session, amounts, where, tasks, session.node_of_task_now[tasks])
    return replace(
        units,
        job=np.append(units.job, job),
        queue=np.append(units.queue, table.home[session.jobs.queue_of_job[job]]),
        amounts=np.concatenate([units.amounts, amounts], axis=1),
        is_core=np.append(units.is_core, np.ones(len(job), np.bool_)),
        tasks=(*units.tasks, *(() for _ in job)),
    )


def _started(session: Session, table: Table, queue: int) -> RowVec:
    """Return the pods that were placed or promised a place, of preemptible jobs of other queues."""
    jobs, job_of_task = session.jobs, session.tasks.job_of_task
    is_new = ACTIVE_STATES[session.state_now] & ~ACTIVE_STATES[session.tasks.state]
    rows = np.flatnonzero(is_new)
    rows = rows[job_of_task[rows] >= 0]
    job = job_of_task[rows]
    rows = rows[jobs.is_preemptible[job] & (jobs.queue_of_job[job] >= 0)]
    home = table.home[jobs.queue_of_job[job_of_task[rows]]]
    found: RowVec = rows[(table.root[home] == table.root[queue]) & (home != queue)]
    return found
