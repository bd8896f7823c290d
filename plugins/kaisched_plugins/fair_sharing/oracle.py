"""Whether evictions could make room in a flavor, judged by quotas and policies alone (F28, F29)."""

from __future__ import annotations

import numpy as np

from kaisched import ACTIVE_STATES, BoolVec, RowVec, Session
from kaisched_plugins.fair_sharing.flavors import Mode, Way
from kaisched_plugins.fair_sharing.holdings import Holdings
from kaisched_plugins.fair_sharing.tables import Table
from kaisched_plugins.fair_sharing.work import Work, may_take


def tasks_at_start(session: Session) -> RowVec:
    """Return the active tasks of known jobs and nodes, as the cycle began."""
    tasks = session.tasks
    runs = ACTIVE_STATES[tasks.state] & (tasks.node_of_task >= 0) & (tasks.job_of_task >= 0)
    rows: RowVec = runs.nonzero()[0]
    return rows[session.jobs.queue_of_job[tasks.job_of_task[rows]] >= 0]


def held_at_start(session: Session, table: Table) -> Holdings:
    """Return what queues held as the cycle began."""
    tasks = tasks_at_start(session)
    leaves = np.zeros((len(table.rows), len(table.is_leaf)), np.int64)
    queue = table.home[session.jobs.queue_of_job[session.tasks.job_of_task[tasks]]]
    table.count(session, leaves, queue, tasks, session.tasks.node_of_task[tasks])
    return Holdings(table.quotas, leaves)


class Oracle:
    """The jobs that ran as the cycle began, and what evicting them could give back."""

    def __init__(self, session: Session, table: Table) -> None:
        """Count what each preemptible job holds, by row of the quotas."""
        tasks, jobs = tasks_at_start(session), session.jobs
        job = session.tasks.job_of_task[tasks]
        keeps = jobs.is_preemptible[job]
        tasks, job = tasks[keeps], job[keeps]
        rows, where = np.unique(job, return_inverse=True)
        self._held = np.zeros((len(table.rows), len(rows)), np.int64)
        table.count(session, self._held, where, tasks, session.tasks.node_of_task[tasks])
        self._leaf, self._root = table.home[jobs.queue_of_job[rows]], table.root
        self._priority, self._created_s = jobs.priority[rows], jobs.created_s[rows]

    def way(
        self, session: Session, holdings: Holdings, job: int, leaf: int, at: int, amount: int
    ) -> Way:
        """Return how a job could have so much of a row."""
        sharing, jobs = session.queues.sharing[leaf], session.jobs
        taker = Work(-1, leaf, (), int(jobs.priority[job]), float(jobs.created_s[job]))
        lacks = amount - holdings.available(leaf, at)
        is_own = self._leaf == leaf
        over = [holdings.is_over(queue, (at,)) for queue in range(len(self._root))]
        is_open = np.array(over, np.bool_)[self._leaf] & (
            self._root[self._leaf] == self._root[leaf]
        )
        others = self._given(sharing.across, taker, ~is_own & is_open, at)
        mode = Mode.NO_CANDIDATES
        if others and others >= lacks:
            mode = Mode.RECLAIM
        elif (own := self._given(sharing.within, taker, is_own, at)) and own + others >= lacks:
            mode = Mode.PREEMPT
        return Way(mode, _level_by_quota(holdings, leaf, at, amount))

    def _given(self, policy: str, taker: Work, among: BoolVec, at: int) -> int:
        """Return what jobs hold of a row that a policy lets other work take."""
        may = among & may_take(policy, taker, self._priority, self._created_s)
        return int(self._held[at][may].sum())


def _level_by_quota(holdings: Holdings, leaf: int, at: int, amount: int) -> int:
    """Return the height of the lowest queue on a path whose quota is large enough."""
    rows = holdings.rows
    path = rows.path(leaf)
    return rows.height[next((it for it in path if amount <= rows.subtree[it][at]), path[-1])]
