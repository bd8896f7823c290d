"""The working state of a cycle: the only arrays that change while it runs.

It has copies of the snapshot's mutable columns; the capacity has those of the nodes. Only
:class:`~kaisched.framework.session.statement.Statement` changes them. It can undo every change
exactly, since all amounts are integers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from kaisched.core.states import ACTIVE_STATES, TaskState
from kaisched.core.tree import roll_up
from kaisched.framework.session.capacity import Holding

if TYPE_CHECKING:
    from kaisched.core.axis import Amounts, IntVec, RowVec
    from kaisched.core.snapshot import Snapshot
    from kaisched.framework.session.capacity import Capacity

_FEW = 16
"""Up to so many rows a loop of scalars is faster than arrays (measured: 0.2 us for a row against
4 us for a call)."""
_ALLOCATED = int(TaskState.ALLOCATED)
_RELEASING = int(TaskState.RELEASING)
_PENDING = int(TaskState.PENDING)
_PIPELINED = int(TaskState.PIPELINED)
_ACTIVE = ACTIVE_STATES.tolist()


class Ledger:
    """What queues hold, the counts of jobs, and the state and node of every task, as of now."""

    __slots__ = (
        "_capacity",
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
    """``(R, Q)`` at every level of the tree. Promises count, so that promised pods obey the order
    and the limits by which they will be bound."""
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
        self.state[task] = state
        self.node_of_task[task] = node
        return old_state, old_node

    def place_pending(self, tasks: RowVec, nodes: RowVec, shape: int) -> None:
        """Put pending tasks of one shape on idle room at once; same result as one by one."""
        self._capacity.take_all(tasks, nodes, shape, _ALLOCATED)
        self._count_all(tasks, shape, 1)
        self.state[tasks] = _ALLOCATED
        self.node_of_task[tasks] = nodes

    def place_one(self, task: int, node: int, shape: int) -> None:
        """Put a pending task on idle room, which :meth:`count_placed` counts later."""
        self._capacity.take(task, node, shape, _ALLOCATED)
        self.state[task] = _ALLOCATED
        self.node_of_task[task] = node

    def take_back_one(self, task: int, node: int) -> None:
        """Undo :meth:`place_one`."""
        self._capacity.give_back(task, node, int(self._shape_of_task[task]), _ALLOCATED)
        self.state[task] = _PENDING
        self.node_of_task[task] = -1

    def count_placed(self, tasks: RowVec, _nodes: RowVec, sign: int) -> None:
        """Count what :meth:`place_one` placed on nodes as placed (1), or as pending again (-1)."""
        shapes = self._shape_of_task[tasks]
        if len(tasks) <= _FEW:
            for task, shape in zip(tasks.tolist(), shapes.tolist(), strict=True):
                self._count_one(task, self._charge[:, shape] * sign, sign)
            return
        podsets, jobs = self._podset_of_task[tasks], self.job_of_task[tasks]
        for column, rows, more in (
            (self.podset_active, podsets, sign),
            (self.podset_pending, podsets, -sign),
            (self.job_active, jobs, sign),
            (self.job_pending, jobs, -sign),
        ):
            np.add.at(column, rows, more)
        self._hold_each(jobs, self._charge.take(shapes, axis=1) * sign)

    def take_back_pending(self, tasks: RowVec, nodes: RowVec, shape: int) -> None:
        """Undo :meth:`place_pending`."""
        self._capacity.give_back_all(tasks, nodes, shape, _ALLOCATED)
        self._count_all(tasks, shape, -1)
        self.state[tasks] = _PENDING
        self.node_of_task[tasks] = -1

    def promise_pending(self, tasks: RowVec, nodes: RowVec, shape: int) -> None:
        """Promise pending tasks of one shape room that is being released."""
        self._capacity.take_all(tasks, nodes, shape, _PIPELINED)
        self._count_all(tasks, shape, 1)
        self.state[tasks] = _PIPELINED
        self.node_of_task[tasks] = nodes

    def take_back_promised(self, tasks: RowVec, nodes: RowVec, shape: int) -> None:
        """Undo :meth:`promise_pending`."""
        self._capacity.give_back_all(tasks, nodes, shape, _PIPELINED)
        self._count_all(tasks, shape, -1)
        self.state[tasks] = _PENDING
        self.node_of_task[tasks] = -1

    def release_all(self, tasks: RowVec, sign: int) -> None:
        """Count running tasks as being released (``sign`` 1), or as running again (-1).

        The result is that of one by one, except for states, which the caller sets.
        """
        self._capacity.release(tasks, self._shape_of_task[tasks], self.holding(tasks), sign)
        jobs, podsets = self.job_of_task[tasks], self._podset_of_task[tasks]
        np.subtract.at(self.job_active, jobs, sign)
        np.subtract.at(self.podset_active, podsets, sign)
        self._hold_each(jobs, self._charge.take(self._shape_of_task[tasks], axis=1) * -sign)

    def holding(self, tasks: RowVec) -> Holding:
        """Return what tasks hold on their nodes."""
        held = self._request.take(self._shape_of_task[tasks], axis=1)
        return Holding(self.node_of_task[tasks], held)

    def relocate(self, task: int, node: int) -> int:
        """Promise another node to a task that is being released; return its present node.

        The task holds its old room until it has left. :meth:`take_back_relocated` undoes the call.
        """
        old, shape = int(self.node_of_task[task]), int(self._shape_of_task[task])
        self._capacity.take(task, node, shape, _PIPELINED)
        self._count(task, _RELEASING, _PIPELINED, shape)
        self.state[task] = _PIPELINED
        self.node_of_task[task] = node
        return old

    def take_back_relocated(self, task: int, old_node: int) -> None:
        """Undo :meth:`relocate`."""
        shape = int(self._shape_of_task[task])
        self._capacity.give_back(task, int(self.node_of_task[task]), shape, _PIPELINED)
        self._count(task, _PIPELINED, _RELEASING, shape)
        self.state[task] = _RELEASING
        self.node_of_task[task] = old_node

    def _count_all(self, tasks: RowVec, shape: int, sign: int) -> None:
        """Count pending tasks of one shape as placed (1), or as pending again (-1)."""
        amounts = self._charge[:, shape] * sign
        if len(tasks) == 1:
            self._count_one(int(tasks[0]), amounts, sign)
            return
        podsets, per_podset = _counts(self._podset_of_task[tasks])
        _add(self.podset_active, podsets, per_podset, sign)
        _add(self.podset_pending, podsets, per_podset, -sign)
        jobs, per_job = _counts(self.job_of_task[tasks])
        _add(self.job_active, jobs, per_job, sign)
        _add(self.job_pending, jobs, per_job, -sign)
        self._hold(jobs, per_job, amounts)

    def _count_one(self, task: int, amounts: IntVec, sign: int) -> None:
        """Do :meth:`_count_all` for one task, the usual case, without lists (8 us, not 15)."""
        podset, job = int(self._podset_of_task[task]), int(self.job_of_task[task])
        self.podset_active[podset] += sign
        self.podset_pending[podset] -= sign
        self.job_active[job] += sign
        self.job_pending[job] -= sign
        for row in self._tree.path(int(self._queue_of_job[job])).tolist():
            self.held[:, row] += amounts
            if not self._is_preemptible[job]:
                self.held_non_preemptible[:, row] += amounts

    def _hold_each(self, jobs: RowVec, amounts: Amounts) -> None:
        """Add the charge ``(R, K)`` of pods of some jobs to their queues and all queues above."""
        queues = self._queue_of_job[jobs]
        strict = ~self._is_preemptible[jobs]
        for queue in dict.fromkeys(queues.tolist()):
            here = queues == queue
            path = self._tree.path(queue)
            self.held[:, path] += amounts[:, here].sum(axis=1)[:, None]
            if strict.any():
                strictly = amounts[:, here & strict].sum(axis=1)
                self.held_non_preemptible[:, path] += strictly[:, None]

    def _hold(self, jobs: list[int], per_job: list[int], charge: Amounts) -> None:
        """Add pods of one shape to their queues and all queues above."""
        held: dict[int, int] = {}
        strict: dict[int, int] = {}
        for queue, may_go, number in zip(
            self._queue_of_job[jobs].tolist(),
            self._is_preemptible[jobs].tolist(),
            per_job,
            strict=True,
        ):
            held[queue] = held.get(queue, 0) + number
            if not may_go:
                strict[queue] = strict.get(queue, 0) + number
        for queue, number in held.items():
            for row in self._tree.path(queue).tolist():
                self.held[:, row] += charge * number
        for queue, number in strict.items():
            for row in self._tree.path(queue).tolist():
                self.held_non_preemptible[:, row] += charge * number

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


def _counts(rows: RowVec) -> tuple[list[int], list[int]]:
    """Return the distinct rows, in order of appearance, and how often each occurs."""
    counts: dict[int, int] = {}
    for row in rows.tolist():  # a few rows, mostly: a Counter takes twice as long to make
        counts[row] = counts.get(row, 0) + 1
    return list(counts), list(counts.values())


def _add(column: IntVec, rows: list[int], numbers: list[int], sign: int) -> None:
    if len(rows) <= _FEW:
        for row, number in zip(rows, numbers, strict=True):
            column[row] += number * sign
    else:
        column[rows] += np.array(numbers) * sign


def rolled_up(snapshot: Snapshot, leaf_amounts: Amounts) -> Amounts:
    """Return ``(R, Q)`` amounts at every level from amounts at the leaves."""
    tree = snapshot.queues.tree
    return roll_up(leaf_amounts, tree) if len(tree.levels) > 1 else leaf_amounts
