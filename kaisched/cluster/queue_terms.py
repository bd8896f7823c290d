"""The node affinity of queues in the shapes of their jobs' pods, whatever changes.

Shapes have what holds for a pod, so that whoever asks about a shape need not know of queues. A pod
is written with a shape of its own demands; before a snapshot it gets the shape with the terms of
its queues, and another one when the queues, the queue of its job or its type of workload change.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from kaisched.cluster.rows import GONE
from kaisched.core.constraints import Terms, terms_for
from kaisched.core.tables import INTERACTIVE, TRAINING, WORKLOAD, WORKLOADS

if TYPE_CHECKING:
    from kaisched.cluster.rows import JobRows, TaskRows
    from kaisched.cluster.shapes import ShapeRows
    from kaisched.core.axis import IntVec, RowVec
    from kaisched.core.constraints import NodeTerm
    from kaisched.core.tables import OwnAffinity, QueueTable


class Written(NamedTuple):
    """What is written anew: the rows of a store."""

    tasks: TaskRows
    jobs: JobRows
    shapes: ShapeRows
    compactions: int
    """How often shapes have got other numbers."""


class QueueTerms:
    """Keeps shapes in line with the queues; costs nothing where no queue demands anything."""

    def __init__(self) -> None:
        """Start without demands."""
        self._table: QueueTable | None = None
        self._compactions = 0
        self._is_on = False
        self._number: dict[Terms, int] = {(): 0}
        self._terms: list[Terms] = [()]
        self._of_queue: IntVec = np.zeros((len(WORKLOADS), 1), np.int64)
        """``(3, Q + 1)`` number of the terms by type of workload; the last is for no queue."""
        self._of_shape: list[int] = []
        self._seen = 0
        """Tasks from this row on are in no snapshot."""

    def apply(self, table: QueueTable, rows: Written) -> bool:
        """Give every living task of a job the terms of its queues.

        Returns:
            Whether a task that was in a snapshot has another shape now.

        """
        if table.node_affinity is None and not self._is_on:
            return False
        if table is not self._table:
            self._read(table)
        wanted = self._wanted(rows)
        stale = self._stale(rows, wanted)
        seen, self._seen = self._seen, rows.tasks.size
        # Shapes with terms may be left where none is demanded any more, but no task has one.
        self._is_on = table.node_affinity is not None
        if not len(stale):
            return False
        self._rewrite(rows, stale, wanted)
        return bool(stale[0] < seen)

    def _read(self, table: QueueTable) -> None:
        of_queue: IntVec = np.zeros((len(WORKLOADS), len(table) + 1), np.int64)
        if table.node_affinity is not None:
            for queue in range(len(table)):
                for workload in range(len(WORKLOADS)):
                    terms = terms_for(table, workload, queue)
                    of_queue[workload, queue] = self._intern(terms)
        self._table, self._of_queue = table, of_queue

    def _intern(self, terms: Terms) -> int:
        number = self._number.setdefault(terms, len(self._terms))
        if number == len(self._terms):
            self._terms.append(terms)
        return number

    def _wanted(self, rows: Written) -> IntVec:
        """Return the number of the terms that hold for each job, by its row."""
        jobs, count = rows.jobs, rows.jobs.size
        said = jobs.rare.data[:count, WORKLOAD]
        by_itself = np.where(jobs.is_preemptible.data[:count], TRAINING, INTERACTIVE)
        workload = np.where(said < 0, by_itself, said).astype(np.int64)
        wanted: IntVec = self._of_queue[workload, jobs.queue_of_job.data[:count]]
        return wanted

    def _stale(self, rows: Written, wanted: IntVec) -> RowVec:
        """Return the rows of living tasks whose shape has other terms than their job wants."""
        tasks = rows.tasks
        if self._compactions != rows.compactions:
            self._compactions, self._of_shape = rows.compactions, []
        shapes = rows.shapes.constraints.data
        fresh = shapes[len(self._of_shape) : len(rows.shapes)]
        self._of_shape += [self._intern(it.queue_terms) for it in fresh]
        job = tasks.job_of_task.data[: tasks.size]
        living = np.flatnonzero((job >= 0) & (tasks.state.data[: tasks.size] != GONE))
        if not len(living):
            return living
        has = np.array(self._of_shape, np.int64)[tasks.shape_of_task.data[living]]
        stale: RowVec = living[wanted[job[living]] != has]
        return stale

    def _rewrite(self, rows: Written, stale: RowVec, wanted: IntVec) -> None:
        """Give tasks the shapes that ask for the same under the terms of their jobs."""
        tasks, jobs = rows.tasks, rows.jobs
        pairs = np.stack((tasks.shape_of_task.data[stale], wanted[tasks.job_of_task.data[stale]]))
        kinds, at = np.unique(pairs, axis=1, return_inverse=True)
        made = [self._variant(rows, int(old), int(number)) for old, number in kinds.T.tolist()]
        tasks.shape_of_task.own()[stale] = np.array(made, np.int64)[at.reshape(-1)]
        shape_of_job, shapes = jobs.shape_of_job.own(), tasks.shape_of_task.data
        state = tasks.state.data
        for job in np.unique(tasks.job_of_task.data[stale]).tolist():
            found = {int(shapes[row]) for row in jobs.tasks.data[job] if state[row] != GONE}
            shape_of_job[job] = found.pop() if len(found) == 1 else -1

    def _variant(self, rows: Written, shape: int, number: int) -> int:
        """Return the shape that asks for the same under other terms."""
        old = rows.shapes.constraints.data[shape]
        constraints = replace(old, queue_terms=self._terms[number])
        asked = rows.shapes.asked_by(shape)
        found = rows.shapes.find(asked, constraints)
        return found if found >= 0 else rows.shapes.add(asked, constraints)


def own_affinity(entries: tuple[tuple[int, tuple[NodeTerm, ...]], ...]) -> OwnAffinity:
    """Return what a queue demands of each type of workload."""
    return tuple(
        tuple(dict.fromkeys(terms for kind, terms in entries if kind == workload))
        for workload in range(len(WORKLOADS))
    )
