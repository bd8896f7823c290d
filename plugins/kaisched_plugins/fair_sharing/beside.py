"""Whether binds have room beside all that still leaves, where amounts do not add up.

All binds of the cycle count at once, in whatever order they were decided: where they have no room
together, each waits until enough has left for all.
"""

from __future__ import annotations

import numpy as np

from kaisched import HOLDING_STATES, BoolVec, CodeVec, RowVec, Session, TaskState
from kaisched_plugins.fair_sharing import refusals
from kaisched_plugins.fair_sharing.holdings import Ask, Holdings
from kaisched_plugins.fair_sharing.paths import is_beyond_quota
from kaisched_plugins.fair_sharing.tables import Table


class Beside:
    """What pods on nodes hold, leaving or not, and what is to be bound in this cycle."""

    def __init__(self, session: Session, table: Table) -> None:
        """Count them all."""
        self._session, self._table = session, table
        here = HOLDING_STATES[session.tasks.state]
        self._is_new: BoolVec = session.state_now == TaskState.ALLOCATED
        firm = np.zeros_like(here)
        owned = session.tasks.job_of_task >= 0
        firm[owned] = ~session.jobs.is_preemptible[session.tasks.job_of_task[owned]]
        self._all = self._counted(here | self._is_new)
        self._firm = self._counted((here | self._is_new) & firm)

    def _counted(self, counts: BoolVec) -> Holdings:
        session, table = self._session, self._table
        leaves = np.zeros((len(table.rows), len(table.is_leaf)), np.int64)
        job = session.tasks.job_of_task
        counts &= job >= 0
        rows = counts.nonzero()[0]
        queue = session.jobs.queue_of_job[job[rows]]
        rows, queue = rows[queue >= 0], queue[queue >= 0]
        node = np.where(
            self._is_new[rows], session.node_of_task_now[rows], session.tasks.node_of_task[rows]
        )
        for leaf in np.unique(queue).tolist():
            at = queue == leaf
            for row, amount in table.held_by(session, rows[at], node[at]):
                leaves[row, table.home[leaf]] += amount
        return Holdings(table.quotas, leaves)

    def codes(self, queue: RowVec, job: RowVec) -> CodeVec:
        """Return, asked about leaves, the code of each job that has to wait, or 0."""
        codes = np.zeros(len(queue), np.int16)
        session = self._session
        for at in np.flatnonzero(self._table.is_leaf[queue]).tolist():
            leaf, ask = int(queue[at]), self._asked(int(job[at]))
            self._all.take(leaf, ask)
            codes[at] = 0 if self._all.fits(leaf, ask) else int(refusals.NO_ROOM)
            self._all.add(leaf, ask)
            if not codes[at] and not session.jobs.is_preemptible[job[at]]:
                self._firm.take(leaf, ask)
                codes[at] = int(refusals.STRICT) * is_beyond_quota(self._firm, leaf, ask)
                self._firm.add(leaf, ask)
        return codes

    def _asked(self, job: int) -> Ask:
        tasks = np.array(self._session.jobs.tasks[job], np.int64)
        tasks = tasks[self._is_new[tasks]]
        return self._table.held_by(self._session, tasks, self._session.node_of_task_now[tasks])
