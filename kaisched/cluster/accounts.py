"""What a task's change of state means for nodes, queues, jobs and pod sets: the derived columns.

Every count and amount a snapshot hands out is kept here as events arrive, one task at a time or
many at once, so that a snapshot sums nothing. Only when nodes or queues are laid out anew are they
counted again from scratch.
"""

from __future__ import annotations

import math
from typing import Final

import numpy as np
from numpy.typing import NDArray

from kaisched.cluster.columns import Block
from kaisched.cluster.nodes import NodeRows
from kaisched.cluster.queues import QueueRows
from kaisched.cluster.rows import GONE, JobRows, PodSetRows, TaskRows
from kaisched.cluster.shapes import ShapeRows
from kaisched.core.axis import Amounts, BoolVec, IntVec, RowVec
from kaisched.core.states import ACTIVE_STATES, ALLOCATED_STATES, HOLDING_STATES, TaskState

PENDING: Final = int(TaskState.PENDING)
RELEASING: Final = int(TaskState.RELEASING)
_HOLDS: Final = tuple(HOLDING_STATES.tolist())
_ALLOCATED: Final = tuple(ALLOCATED_STATES.tolist())
_ACTIVE: Final = tuple(ACTIVE_STATES.tolist())
_FEW: Final = 6
"""Up to so many tasks are faster one by one than as arrays (measured)."""


class Accounts:
    """The rows of everything, and the moves that change several of them together."""

    def __init__(
        self,
        nodes: NodeRows,
        queues: QueueRows,
        shapes: ShapeRows,
    ) -> None:
        """Start with no job and no task."""
        self.nodes = nodes
        self.queues = queues
        self.shapes = shapes
        self.jobs = JobRows()
        self.podsets = PodSetRows()
        self.tasks = TaskRows()

    # -- one task -----------------------------------------------------------------------------

    def move(self, task: int, state: int, node: int, at_s: float = math.nan) -> None:
        """Bring one task to a state on a node (-1 for none, or for a node not known)."""
        tasks = self.tasks
        old, old_node = tasks.state.data.item(task), tasks.node_of_task.data.item(task)
        if old == state and old_node == node:
            return
        job = tasks.job_of_task.data.item(task)
        request = self.shapes.request_of_shape[tasks.shape_of_task.data.item(task)]
        if old_node >= 0 or node >= 0:
            self._change_nodes(request, old, old_node, state, node, is_foreign=job < 0)
        tasks.state.own()[task] = state
        if old_node != node:
            tasks.node_of_task.own()[task] = node
        if state == GONE != old:
            tasks.forget(task)
        if job >= 0:
            self._count(task, job, old, state, at_s)

    def _change_nodes(
        self, request: IntVec, old: int, old_node: int, state: int, node: int, *, is_foreign: bool
    ) -> None:
        if old_node == node and old != RELEASING != state and _HOLDS[old] == _HOLDS[state]:
            return
        if old_node >= 0 and _HOLDS[old]:
            self._hold(old_node, old, -request, is_foreign=is_foreign)
        if node >= 0 and _HOLDS[state]:
            self._hold(node, state, request, is_foreign=is_foreign)

    def _hold(self, node: int, state: int, amount: IntVec, *, is_foreign: bool) -> None:
        nodes = self.nodes
        nodes.idle.own()[:, node] -= amount
        if state == RELEASING:
            nodes.releasing.own()[:, node] += amount
        if is_foreign:
            nodes.foreign.own()[:, node] += amount
            nodes.touch_total()
        nodes.version.own()[node] += 1
        nodes.is_changed = True

    def _count(self, task: int, job: int, old: int, new: int, at_s: float) -> None:
        jobs, podsets = self.jobs, self.podsets
        request = self.shapes.request_of_shape[self.tasks.shape_of_task.data.item(task)]
        podset = self.tasks.podset_of_task.data.item(task)
        queue = jobs.queue_of_job.data.item(job)
        active = _ACTIVE[new] - _ACTIVE[old]
        if active:
            if active > 0 and not math.isnan(at_s) and not jobs.active.data[job]:
                jobs.last_start_s.own()[job] = at_s
            jobs.active.own()[job] += active
            podsets.active.own()[podset] += active
        pending = (new == PENDING) - (old == PENDING)
        if pending:
            jobs.pending.own()[job] += pending
            podsets.pending.own()[podset] += pending
            if queue >= 0:
                self.queues.pending.own()[:, queue] += request * pending
        held = _ALLOCATED[new] - _ALLOCATED[old]
        if held and queue >= 0:
            self.queues.allocated.own()[:, queue] += request * held
            if not jobs.is_preemptible.data[job]:
                self.queues.allocated_non_preemptible.own()[:, queue] += request * held

    # -- many tasks ---------------------------------------------------------------------------

    def move_many(self, tasks: RowVec, state: int, nodes: RowVec, at_s: float = math.nan) -> None:
        """Bring distinct tasks to one state, each on its node; the same as one by one."""
        if len(tasks) <= _FEW:
            for task, node in zip(tasks.tolist(), nodes.tolist(), strict=True):
                self.move(task, state, node, at_s)
            return
        rows = self.tasks
        old: NDArray[np.int8] = rows.state.data[tasks]
        old_nodes: RowVec = rows.node_of_task.data[tasks]
        new = np.full(len(tasks), state, np.int8)
        self._hold_many(tasks, old, old_nodes, -1)
        self._hold_many(tasks, new, nodes, 1)
        self._count_many(tasks, old, new, at_s)
        rows.state.own()[tasks] = state
        rows.node_of_task.own()[tasks] = nodes
        if state == GONE:
            for task in tasks[old != GONE].tolist():
                rows.forget(task)

    def _hold_many(self, tasks: RowVec, state: NDArray[np.int8], node: RowVec, sign: int) -> None:
        is_held = HOLDING_STATES[state] & (node >= 0)
        if not is_held.any():
            return
        nodes = self.nodes
        tasks, state, node = tasks[is_held], state[is_held], node[is_held]
        amount = self._request_of(tasks) * sign
        _add_at(nodes.idle, node, -amount)
        is_releasing = state == RELEASING
        if is_releasing.any():
            _add_at(nodes.releasing, node[is_releasing], amount[:, is_releasing])
        is_foreign = self.tasks.job_of_task.data[tasks] < 0
        if is_foreign.any():
            _add_at(nodes.foreign, node[is_foreign], amount[:, is_foreign])
            nodes.touch_total()
        np.add.at(nodes.version.own(), node, 1)
        nodes.is_changed = True

    def _count_many(
        self, tasks: RowVec, old: NDArray[np.int8], new: NDArray[np.int8], at_s: float
    ) -> None:
        job: RowVec = self.tasks.job_of_task.data[tasks]
        is_ours = job >= 0
        if not is_ours.all():
            tasks, job, old, new = tasks[is_ours], job[is_ours], old[is_ours], new[is_ours]
        podset: RowVec = self.tasks.podset_of_task.data[tasks]
        jobs, podsets = self.jobs, self.podsets
        active = _difference(ACTIVE_STATES, old, new)
        was_idle = jobs.active.data[job] == 0
        np.add.at(jobs.active.own(), job, active)
        np.add.at(podsets.active.own(), podset, active)
        if not math.isnan(at_s):
            started = job[was_idle & (active > 0)]
            jobs.last_start_s.own()[started] = at_s
        pending = (new == PENDING).astype(np.int64) - (old == PENDING)
        np.add.at(jobs.pending.own(), job, pending)
        np.add.at(podsets.pending.own(), podset, pending)
        self._charge(tasks, job, pending, _difference(ALLOCATED_STATES, old, new))

    def _charge(self, tasks: RowVec, job: RowVec, pending: IntVec, held: IntVec) -> None:
        queue: RowVec = self.jobs.queue_of_job.data[job]
        is_kept = queue >= 0
        queue, request = queue[is_kept], self._request_of(tasks[is_kept])
        pending, held = pending[is_kept], held[is_kept]
        queues = self.queues
        if pending.any():
            _add_at(queues.pending, queue, request * pending)
        if held.any():
            _add_at(queues.allocated, queue, request * held)
            is_fixed = ~self.jobs.is_preemptible.data[job[is_kept]]
            if is_fixed.any():
                amount = (request * held)[:, is_fixed]
                _add_at(queues.allocated_non_preemptible, queue[is_fixed], amount)

    def _request_of(self, tasks: RowVec) -> Amounts:
        return self.shapes.request.data[:, self.tasks.shape_of_task.data[tasks]]

    def count_podset(self, task: int, state: int, sign: int) -> None:
        """Count a task in its pod set (+1) or no more (-1), and nowhere else."""
        podset = self.tasks.podset_of_task.data[task]
        if _ACTIVE[state]:
            self.podsets.active.own()[podset] += sign
        elif state == PENDING:
            self.podsets.pending.own()[podset] += sign

    # -- a whole job --------------------------------------------------------------------------

    def lift(self, job: int, sign: int) -> None:
        """Take a job out of its queue's amounts (-1) or put it back (+1), to change it between."""
        tasks = np.array(self.jobs.tasks.data[job], np.int64)
        if len(tasks):
            state = self.tasks.state.data[tasks]
            self._charge(
                tasks,
                np.full(len(tasks), job, np.int64),
                (state == PENDING) * np.int64(sign),
                ALLOCATED_STATES[state] * np.int64(sign),
            )

    def set_queue(self, job: int, queue: int) -> None:
        """Move a job to another queue row."""
        if self.jobs.queue_of_job.data[job] != queue:
            self.lift(job, -1)
            self.jobs.queue_of_job.own()[job] = queue
            self.lift(job, 1)

    def set_preemptible(self, job: int, *, is_preemptible: bool) -> None:
        """Change whether a job may be evicted."""
        if self.jobs.is_preemptible.data[job] != is_preemptible:
            self.lift(job, -1)
            self.jobs.is_preemptible.own()[job] = is_preemptible
            self.lift(job, 1)

    # -- from scratch -------------------------------------------------------------------------

    def recount_nodes(self) -> None:
        """Fill emptied nodes with the tasks that hold them."""
        every = np.arange(self.tasks.size)
        size = self.tasks.size
        self._hold_many(every, self.tasks.state.data[:size], self.tasks.node_of_task.data[:size], 1)

    def recount_queues(self) -> None:
        """Fill emptied queues with the tasks of their jobs."""
        tasks = np.flatnonzero(self.tasks.job_of_task.data[: self.tasks.size] >= 0)
        state = self.tasks.state.data[tasks]
        self._charge(
            tasks,
            self.tasks.job_of_task.data[tasks],
            (state == PENDING).astype(np.int64),
            ALLOCATED_STATES[state].astype(np.int64),
        )


def _difference(states: BoolVec, old: NDArray[np.int8], new: NDArray[np.int8]) -> IntVec:
    return states[new].astype(np.int64) - states[old]


def _add_at(block: Block, columns: RowVec, amount: Amounts) -> None:
    """Add amounts ``(R, K)`` to columns that may occur more than once."""
    data = block.own()
    for row, more in zip(data, amount, strict=True):
        np.add.at(row, columns, more)
