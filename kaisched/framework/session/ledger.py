"""The working state of a cycle: the only arrays that change while it runs.

It has copies of the snapshot's mutable columns; the capacity has those of the nodes. Only
:class:`~kaisched.framework.session.statement.Statement` changes them. It can undo every change
exactly, since all amounts are integers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from kaisched.core.axis import ACTIVE_STATES, GPU, TaskState
from kaisched.core.devices import card_mib
from kaisched.core.sums import charges_of
from kaisched.core.tree import roll_up
from kaisched.framework.session.capacity import Holding

if TYPE_CHECKING:
    from kaisched.core.axis import Amounts, IntVec, RowVec
    from kaisched.core.snapshot import Snapshot
    from kaisched.framework.session.capacity import Capacity

_FEW = 8
"""Up to so many tasks are counted faster one by one (measured: 2.3 us each, against 21 us)."""
_ALLOCATED = int(TaskState.ALLOCATED)
_RELEASING = int(TaskState.RELEASING)
_PENDING = int(TaskState.PENDING)
_PIPELINED = int(TaskState.PIPELINED)
_ACTIVE = ACTIVE_STATES.tolist()


class Ledger:
    """What queues have allocated, the counts of jobs, and each task's state and node, as of now."""

    __slots__ = (
        "_by_card",
        "_capacity",
        "_card_mib",
        "_charge",
        "_is_preemptible",
        "_podset_of_task",
        "_queue_of_job",
        "_request",
        "_shape_of_task",
        "_tree",
        "held",
        "held_non_preemptible",
        "job_active",
        "job_of_task",
        "job_pending",
        "node_of_task",
        "podset_active",
        "podset_pending",
        "state",
    )

    held: Amounts
    """``(R, Q)`` allocated at every level of the tree. Nominations count, so that nominated pods
    obey the order and the limits by which they will be bound."""
    held_non_preemptible: Amounts
    state: np.ndarray[tuple[int], np.dtype[np.int8]]
    node_of_task: RowVec
    job_active: IntVec
    job_pending: IntVec
    podset_active: IntVec
    podset_pending: IntVec

    def __init__(
        self, snapshot: Snapshot, held: Amounts, held_non_preemptible: Amounts, capacity: Capacity
    ) -> None:
        """Copy the columns that may change, and ``held``, which is already rolled up."""
        tasks, jobs, podsets = snapshot.tasks, snapshot.jobs, snapshot.podsets
        self._capacity = capacity
        self.held = held.copy()
        self.held_non_preemptible = held_non_preemptible.copy()
        self.state = tasks.state.copy()
        self.node_of_task = tasks.node_of_task.copy()
        self.job_active = jobs.active.copy()
        self.job_pending = jobs.pending.copy()
        self.podset_active = podsets.active.copy()
        self.podset_pending = podsets.pending.copy()
        self.job_of_task = tasks.job_of_task
        self._podset_of_task = tasks.podset_of_task
        self._shape_of_task = tasks.shape_of_task
        self._queue_of_job = jobs.queue_of_job
        self._is_preemptible = jobs.is_preemptible
        self._request = snapshot.shapes.request
        self._charge = snapshot.shapes.charge
        self._tree = snapshot.queues.tree
        self._by_card = snapshot.shapes.by_card
        self._card_mib = card_mib(snapshot.nodes, np.arange(len(snapshot.nodes)))

    def set_state(self, task: int, state: int, node: int) -> tuple[int, int]:
        """Move one task to a state on a node and return (old state, old node).

        The same call with the returned pair undoes it.
        """
        old_state, old_node = int(self.state[task]), int(self.node_of_task[task])
        shape = int(self._shape_of_task[task])
        if old_node >= 0:
            self._capacity.give_back(task, old_node, shape, old_state)
        if node >= 0:
            self._capacity.take(task, node, shape, state)
        self._count(task, old_state, state, shape)
        for which, where, sign in ((old_state, old_node, -1), (state, node, 1)):
            if _ACTIVE[which] and where >= 0:
                self._save([task], [where], sign)
        self.state[task] = state
        self.node_of_task[task] = node
        return old_state, old_node

    def place_pending(self, tasks: RowVec, nodes: RowVec, shape: int, state: int) -> None:
        """Place pending tasks of one shape, or nominate nodes for them, as ``state`` says.

        The result is that of one by one.
        """
        self._capacity.take_all(tasks, nodes, shape, state)
        self._count_all(tasks, nodes, shape, 1)
        self.state[tasks] = state
        self.node_of_task[tasks] = nodes

    def take_back_pending(self, tasks: RowVec, nodes: RowVec, shape: int, state: int) -> None:
        """Undo :meth:`place_pending`."""
        self._capacity.give_back_all(tasks, nodes, shape, state)
        self._count_all(tasks, nodes, shape, -1)
        self.state[tasks] = _PENDING
        self.node_of_task[tasks] = -1

    def place_one(self, task: int, node: int, shape: int) -> None:
        """Place a pending task, which :meth:`count_placed` counts later."""
        self._capacity.take(task, node, shape, _ALLOCATED)
        self.state[task] = _ALLOCATED
        self.node_of_task[task] = node

    def take_back_one(self, task: int, node: int) -> None:
        """Undo :meth:`place_one`."""
        self._capacity.give_back(task, node, int(self._shape_of_task[task]), _ALLOCATED)
        self.state[task] = _PENDING
        self.node_of_task[task] = -1

    def count_placed(self, tasks: RowVec, nodes: RowVec, sign: int) -> None:
        """Count what :meth:`place_one` placed on nodes as placed (1), or as pending again (-1)."""
        shapes = self._shape_of_task[tasks]
        if len(tasks) <= _FEW:
            for task, shape in zip(tasks.tolist(), shapes.tolist(), strict=True):
                self._count_alike(task, self._charge[:, shape], sign)
        else:
            self._count_many(tasks, self._charge.take(shapes, axis=1) * sign, sign)
        self._save(tasks, nodes, sign)

    def release_all(self, tasks: RowVec, sign: int) -> None:
        """Count running tasks as being released (``sign`` 1), or as running again (-1).

        The result is that of one by one, except for states, which the caller sets.
        """
        self._capacity.release(tasks, self._shape_of_task[tasks], self.holding(tasks), sign)
        jobs, podsets = self.job_of_task[tasks], self._podset_of_task[tasks]
        np.subtract.at(self.job_active, jobs, sign)
        np.subtract.at(self.podset_active, podsets, sign)
        self._hold(jobs, self._charge.take(self._shape_of_task[tasks], axis=1) * -sign)
        self._save(tasks, self.node_of_task[tasks], -sign)

    def holding(self, tasks: RowVec) -> Holding:
        """Return what tasks hold on their nodes."""
        held = self._request.take(self._shape_of_task[tasks], axis=1)
        return Holding(self.node_of_task[tasks], held)

    def relocate(self, task: int, node: int) -> int:
        """Nominate another node for a task that is being released; return its present node.

        The task keeps what it holds on its old node until it has left.
        :meth:`take_back_relocated` undoes the call.
        """
        old, shape = int(self.node_of_task[task]), int(self._shape_of_task[task])
        self._capacity.take(task, node, shape, _PIPELINED)
        self._count(task, _RELEASING, _PIPELINED, shape)
        self._save([task], [node], 1)
        self.state[task] = _PIPELINED
        self.node_of_task[task] = node
        return old

    def take_back_relocated(self, task: int, old_node: int) -> None:
        """Undo :meth:`relocate`."""
        shape, node = int(self._shape_of_task[task]), int(self.node_of_task[task])
        self._save([task], [node], -1)
        self._capacity.give_back(task, node, shape, _PIPELINED)
        self._count(task, _PIPELINED, _RELEASING, shape)
        self.state[task] = _RELEASING
        self.node_of_task[task] = old_node

    def _count_all(self, tasks: RowVec, nodes: RowVec, shape: int, sign: int) -> None:
        """Count pending tasks of one shape as placed (1), or as pending again (-1)."""
        charge, count = self._charge[:, shape], len(tasks)
        if count == 1 or (count and self._are_of_one_podset(tasks)):
            self._count_alike(int(tasks[0]), charge, count * sign)
        elif count <= _FEW:
            for task in tasks.tolist():
                self._count_alike(task, charge, sign)
        else:
            every: Amounts = np.broadcast_to(charge[:, None] * sign, (len(charge), count))
            self._count_many(tasks, every, sign)
        self._save(tasks, nodes, sign)

    def _are_of_one_podset(self, tasks: RowVec) -> bool:
        podsets = self._podset_of_task[tasks]
        return bool(np.count_nonzero(podsets == podsets[0]) == len(podsets))

    def _count_alike(self, task: int, charge: IntVec, number: int) -> None:
        """Count so many tasks like one, of its pod set and charged ``(R,)`` each, in scalars."""
        podset, job = int(self._podset_of_task[task]), int(self.job_of_task[task])
        self.podset_active[podset] += number
        self.podset_pending[podset] -= number
        self.job_active[job] += number
        self.job_pending[job] -= number
        amounts, is_strict = charge * number, not self._is_preemptible[job]
        for row in self._tree.path(int(self._queue_of_job[job])).tolist():
            self.held[:, row] += amounts
            if is_strict:
                self.held_non_preemptible[:, row] += amounts

    def _count_many(self, tasks: RowVec, amounts: Amounts, sign: int) -> None:
        """Count tasks and what they are charged ``(R, K)``, in arrays."""
        podsets, jobs = self._podset_of_task[tasks], self.job_of_task[tasks]
        np.add.at(self.podset_active, podsets, sign)
        np.add.at(self.podset_pending, podsets, -sign)
        np.add.at(self.job_active, jobs, sign)
        np.add.at(self.job_pending, jobs, -sign)
        self._hold(jobs, amounts)

    def _hold(self, jobs: RowVec, amounts: Amounts) -> None:
        """Add charges ``(R, K)`` of pods of some jobs to their queues and all queues above."""
        paths = self._tree.path_of_leaf[self._queue_of_job[jobs]].T.astype(np.int64)
        add_along(self.held, paths, amounts)
        strict = ~self._is_preemptible[jobs]
        if np.count_nonzero(strict):
            add_along(self.held_non_preemptible, paths[:, strict], amounts[:, strict])

    def _count(self, task: int, old: int, new: int, shape: int) -> None:
        job = int(self.job_of_task[task])
        if job < 0:
            return
        podset = int(self._podset_of_task[task])
        active = _ACTIVE[new] - _ACTIVE[old]
        pending = (new == _PENDING) - (old == _PENDING)
        self.job_active[job] += active
        self.podset_active[podset] += active
        self.job_pending[job] += pending
        self.podset_pending[podset] += pending
        queue = int(self._queue_of_job[job])
        if active and queue >= 0:
            path = self._tree.path(queue)
            more = (self._charge[:, shape] * active)[:, None]
            self.held[:, path] += more
            if not self._is_preemptible[job]:
                self.held_non_preemptible[:, path] += more

    def count_claim(self, task: int, charge: IntVec, sign: int) -> None:
        """Count what a claim is charged with a task from now on, or no longer (-1)."""
        job = self.job_of_task[[task]]
        if job[0] >= 0 and self._queue_of_job[job[0]] >= 0:
            self._hold(job, charge[:, None] * sign)

    def _save(self, tasks: RowVec | list[int], nodes: RowVec | list[int], sign: int) -> None:
        """Take off what tasks on nodes count less than by the smallest card; with -1, add it."""
        if self._by_card is None:
            return
        saved = self._by_card.saved(self._shape_of_task[tasks], self._card_mib[nodes]) * sign
        for at in np.flatnonzero(saved).tolist():
            job = int(self.job_of_task[tasks[at]])
            queue = int(self._queue_of_job[job]) if job >= 0 else -1
            if queue < 0:
                continue
            path = self._tree.path(queue)
            self.held[GPU, path] -= saved[at]
            if not self._is_preemptible[job]:
                self.held_non_preemptible[GPU, path] -= saved[at]


def add_along(held: Amounts, paths: RowVec, amounts: Amounts) -> None:
    """Add amounts ``(R, K)`` to the queues of paths ``(D, K)``, which end with -1."""
    for rows in paths:
        there = rows >= 0
        for column, more in zip(held, amounts, strict=True):
            np.add.at(column, rows[there], more[there])


def rolled_up(snapshot: Snapshot, leaf_amounts: Amounts) -> Amounts:
    """Return ``(R, Q)`` amounts at every level from amounts at the leaves."""
    tree = snapshot.queues.tree
    return roll_up(leaf_amounts, tree) if len(tree.levels) > 1 else leaf_amounts


def held_in(snapshot: Snapshot, state: TaskState) -> tuple[Amounts, Amounts] | None:
    """Return ``(R, Q)`` what pods in a state hold at every level, all and non-preemptible.

    None if there are none.
    """
    tasks, jobs = snapshot.tasks, snapshot.jobs
    rows = (tasks.state == state).nonzero()[0]
    rows = rows[tasks.job_of_task[rows] >= 0]
    job = tasks.job_of_task[rows]
    queue = jobs.queue_of_job[job]
    rows, job, queue = (column[queue >= 0] for column in (rows, job, queue))
    if not rows.size:
        return None
    firm = ~jobs.is_preemptible[job]
    return (
        rolled_up(snapshot, charges_of(snapshot, rows, queue)),
        rolled_up(snapshot, charges_of(snapshot, rows[firm], queue[firm])),
    )
