"""The counts of the invariants: placed, evicted and moved pods."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from kaisched.core.axis import ACTIVE_STATES, HOLDING_STATES
from kaisched.core.sums import charges_of
from kaisched.core.tree import PROJECTS, without_inner

if TYPE_CHECKING:
    from kaisched.core.axis import Amounts, BoolVec, IntVec, RowVec
    from kaisched.core.snapshot import Snapshot
    from kaisched.core.tree import QueueTree
    from kaisched.framework.report.result import CycleResult


@dataclass(frozen=True)
class Moves:
    """A result's moves in a snapshot. A pod *moves* when it is evicted and promised a node."""

    snapshot: Snapshot
    result: CycleResult
    fairness: str = "hierarchy"

    @cached_property
    def fair_tree(self) -> QueueTree:
        """The tree by which shares are divided and queues compared."""
        tree = self.snapshot.queues.tree
        return without_inner(tree) if self.fairness == PROJECTS else tree

    @cached_property
    def moved(self) -> RowVec:
        """Pods that move."""
        return np.intersect1d(self.result.evict_tasks, self.result.nominate_tasks)

    @cached_property
    def gone(self) -> RowVec:
        """Pods of ours that are evicted and get no other place."""
        rows = self.result.evict_tasks
        return rows[(self.snapshot.tasks.job_of_task[rows] >= 0) & ~np.isin(rows, self.moved)]

    @cached_property
    def stranded(self) -> RowVec:
        """Pods of ours that run on unknown nodes: the cycle cannot move them."""
        tasks = self.snapshot.tasks
        runs = ACTIVE_STATES[tasks.state] & (tasks.node_of_task < 0) & (tasks.job_of_task >= 0)
        return np.flatnonzero(runs)

    @cached_property
    def placed(self) -> RowVec:
        """Pods that were pending and are bound or promised a node."""
        promised = self.result.nominate_tasks
        promised = promised[~np.isin(promised, self.moved)]
        return np.concatenate((self.result.bind_tasks, promised))

    def by_podset(self, tasks: RowVec) -> IntVec:
        """``(P,)`` how many of the tasks belong to each pod set."""
        rows = self.snapshot.tasks.podset_of_task[tasks]
        return np.bincount(rows, minlength=len(self.snapshot.podsets.name))

    @cached_property
    def nodes_after(self) -> RowVec:
        """``(T,)`` the nodes of tasks as the cycle leaves or promises them."""
        nodes = self.snapshot.tasks.node_of_task.copy()
        nodes[self.result.bind_tasks] = self.result.bind_nodes
        nodes[self.result.nominate_tasks] = self.result.nominate_nodes
        return nodes

    def change(self, counts: BoolVec | None = None) -> Amounts:
        """``(R, Q)`` what leaf queues hold more than before, of the jobs that count ``(J,)``."""
        change = self.by_queue(self.placed, counts) - self.by_queue(self.gone, counts)
        if len(self.moved) and self.snapshot.shapes.by_card is not None:
            change += self.by_queue(self.moved, counts)
            change -= self.by_queue(self.moved, counts, is_before=True)
        return change + self.handed_on(self.result.evict_tasks, counts)

    def handed_on(self, gone: RowVec, counts: BoolVec | None = None) -> Amounts:
        """``(R, Q)`` what leaf queues hold of claims that counted with evicted pods before."""
        found = np.zeros((len(self.snapshot.axis), len(self.snapshot.queues)), np.int64)
        for heir in self.result.heirs:
            job = int(self.snapshot.tasks.job_of_task[heir.task])
            queue = int(self.snapshot.jobs.queue_of_job[job]) if job >= 0 else -1
            if queue >= 0 and heir.before in gone and (counts is None or counts[job]):
                found[:, queue] += heir.charge
        return found

    def bound_beside(self, counts: BoolVec | None = None) -> tuple[Amounts, Amounts]:
        """``(R, Q)`` what leaf queues get bound, and hold then with all that still leaves."""
        tasks = self.snapshot.tasks
        here = np.flatnonzero(HOLDING_STATES[tasks.state] & (tasks.job_of_task >= 0))
        bound = self.by_queue(self.result.bind_tasks, counts)
        return bound, bound + self.by_queue(here, counts, is_before=True)

    def by_queue(
        self, tasks: RowVec, counts: BoolVec | None = None, *, is_before: bool = False
    ) -> Amounts:
        """``(R, Q)`` charges of tasks at their leaf queues, of the jobs that count ``(J,)``.

        On the nodes that they have after the cycle, or had before.
        """
        job = self.snapshot.tasks.job_of_task[tasks]
        if counts is not None:
            tasks, job = tasks[counts[job]], job[counts[job]]
        queue = self.snapshot.jobs.queue_of_job[job]
        known = queue >= 0
        tasks, queue = tasks[known], queue[known]
        nodes = None if is_before else self.nodes_after[tasks]
        return charges_of(self.snapshot, tasks, queue, nodes)


def is_job_met(snapshot: Snapshot, job: int, running: IntVec) -> bool:
    """Tell whether so many pods of each pod set ``(P,)`` are what a job needs to run."""
    minimum = snapshot.podsets.minimum
    root = snapshot.jobs.structure.get(job)
    if root is not None:
        return root.is_met(running, minimum)
    podset = int(snapshot.jobs.first_podset[job])
    return bool(running[podset] >= minimum[podset])
