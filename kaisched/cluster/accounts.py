"""What a task's change of state means for nodes, queues, jobs and pod sets: the derived columns.

Every count and amount a snapshot hands out is kept here as events arrive, one task at a time or
many at once, so that a snapshot sums nothing. Only when nodes or queues are laid out anew are they
counted again from scratch.
"""

from __future__ import annotations

import math
from collections import deque
from typing import Final

import numpy as np
from numpy.typing import NDArray

from kaisched.cluster.columns import Block
from kaisched.cluster.nodes import NodeRows
from kaisched.cluster.queue_terms import Written
from kaisched.cluster.queues import QueueRows
from kaisched.cluster.rows import GONE, JobRows, PodSetRows, TaskRows
from kaisched.cluster.shapes import ShapeRows
from kaisched.core.axis import (
    ACTIVE_STATES,
    ALLOCATED_STATES,
    GPU,
    HOLDING_STATES,
    Amounts,
    BoolVec,
    IntVec,
    ResourceAxis,
    RowVec,
    TaskState,
)
from kaisched.core.tables import EVICTED

PENDING: Final = int(TaskState.PENDING)
RELEASING: Final = int(TaskState.RELEASING)
_HOLDS: Final = tuple(HOLDING_STATES.tolist())
_ALLOCATED: Final = tuple(ALLOCATED_STATES.tolist())
_ACTIVE: Final = tuple(ACTIVE_STATES.tolist())
HOUR_S: Final = 3600.0
_FEW: Final = 16
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
        self.evictions_s: deque[float] = deque()
        """When pods were evicted, in the hour before the newest of them."""
        self._card_mib: IntVec | None = None
        """``(N,)`` the sizes by which queues count requests for memory; None while none is known,
        or tasks may be on other nodes since."""

    def apply_terms(self, compactions: int) -> bool:
        """Let pods ask for what their queues demand of nodes; return whether known ones changed."""
        rows = Written(self.tasks, self.jobs, self.shapes, compactions)
        return self.queues.terms.apply(self.queues.table, rows)

    # -- one task -----------------------------------------------------------------------------

    def move(self, task: int, state: int, node: int, at_s: float = math.nan) -> None:
        """Bring one task to a state on a node (-1 for none, or for a node not known)."""
        tasks = self.tasks
        old, old_node = tasks.state.cells[task], tasks.node_of_task.cells[task]
        if old == state and old_node == node:
            return
        job = tasks.job_of_task.cells[task]
        shape = tasks.shape_of_task.cells[task]
        # Not when only the kind of holding changes, as from BOUND to RUNNING.
        if old_node != node or RELEASING in (old, state) or _HOLDS[old] != _HOLDS[state]:
            if old_node >= 0 and _HOLDS[old]:
                self._hold(old_node, old, shape, -1)
            if node >= 0 and _HOLDS[state]:
                self._hold(node, state, shape, 1)
        tasks.state.edit()[task] = state
        if old_node != node:
            tasks.node_of_task.edit()[task] = node
        if state == GONE != old:
            tasks.forget(task)
        if job >= 0:
            self._count(tasks.podset_of_task.cells[task], job, old, state, at_s)
            self._charge_one(job, shape, old, state)
            if shape in self.shapes.by_card:
                self._save_one(job, shape, (old, old_node), -1)
                self._save_one(job, shape, (state, node), 1)

    def _hold(self, node: int, state: int, shape: int, sign: int) -> None:
        more, less = self.shapes.request_of_shape[shape], self.shapes.refund_of_shape[shape]
        if sign < 0:
            more, less = less, more
        self.nodes.hold(node, more, less, is_releasing=state == RELEASING)

    def _count(self, podset: int, job: int, old: int, new: int, at_s: float) -> None:
        jobs, podsets = self.jobs, self.podsets
        active = _ACTIVE[new] - _ACTIVE[old]
        if active:
            of_job = jobs.active.edit()
            if active > 0 and at_s == at_s and not of_job[job]:  # noqa: PLR0124 - no NaN
                jobs.last_start_s.edit()[job] = at_s
            of_job[job] += active
            podsets.active.edit()[podset] += active
        if (new == PENDING) != (old == PENDING):
            pending = 1 if new == PENDING else -1
            jobs.pending.edit()[job] += pending
            podsets.pending.edit()[podset] += pending

    def _charge_one(self, job: int, shape: int, old: int, new: int) -> None:
        jobs, queues, shapes = self.jobs, self.queues, self.shapes
        queue = jobs.queue_of_job.cells[job]
        if queue < 0:
            return
        if new == PENDING != old:
            queues.pending.add(queue, shapes.charge_of_shape[shape])
        elif old == PENDING != new:
            queues.pending.add(queue, shapes.credit_of_shape[shape])
        if _ALLOCATED[new] != _ALLOCATED[old]:
            of_shape = shapes.charge_of_shape if _ALLOCATED[new] else shapes.credit_of_shape
            amounts = of_shape[shape]
            queues.allocated.add(queue, amounts)
            if not jobs.is_preemptible.cells[job]:
                queues.allocated_non_preemptible.add(queue, amounts)

    def _save_one(self, job: int, shape: int, place: tuple[int, int], sign: int) -> None:
        """Count a task, if it is allocated, by the card of its node; with -1, no more so."""
        state, node = place
        queue = self.jobs.queue_of_job.cells[job]
        if queue < 0 or node < 0 or not _ALLOCATED[state] or self._card_mib is None:
            return
        amounts = [0] * len(self.shapes.request.data)
        amounts[GPU] = -sign * self.shapes.saved(shape, int(self._card_mib[node]))
        self.queues.allocated.add(queue, tuple(amounts))
        if not self.jobs.is_preemptible.cells[job]:
            self.queues.allocated_non_preemptible.add(queue, tuple(amounts))

    def _save_all(self, tasks: RowVec, sign: int) -> None:
        """Do :meth:`_save_one` for tasks as they are now."""
        rows, by_card = self.tasks, self.shapes.by_card
        for task in tasks.tolist() if by_card else ():
            shape, job = rows.shape_of_task.cells[task], rows.job_of_task.cells[task]
            if shape in by_card and job >= 0:
                place = rows.state.cells[task], rows.node_of_task.cells[task]
                self._save_one(job, shape, place, sign)

    def note_eviction(self, task: int, at_s: float) -> None:
        """Remember when the job of a task was last evicted; NaN says nothing."""
        job = self.tasks.job_of_task.cells[task]
        if job >= 0 and not math.isnan(at_s):
            self.jobs.set_rare(job, EVICTED, at_s)
            self.evictions_s.append(at_s)
            while self.evictions_s[0] <= at_s - HOUR_S:
                self.evictions_s.popleft()

    def forget_evictions(self, at_s: float, pods: int) -> None:
        """Count so many evictions no more that were noted for a time, and were not sent."""
        for _ in range(min(pods, self.evictions_s.count(at_s))):
            self.evictions_s.remove(at_s)

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
        self._save_all(tasks, -1)
        self._hold_many(tasks, old, old_nodes, -1)
        self._hold_many(tasks, new, nodes, 1)
        self._count_many(tasks, old, new, at_s)
        rows.state.own()[tasks] = state
        rows.node_of_task.own()[tasks] = nodes
        self._save_all(tasks, 1)
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
        nodes.note_held(node)

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
        queue, charge = queue[is_kept], self._charge_of(tasks[is_kept])
        pending, held = pending[is_kept], held[is_kept]
        queues = self.queues
        if pending.any():
            _add_at(queues.pending, queue, charge * pending)
        if held.any():
            _add_at(queues.allocated, queue, charge * held)
            is_fixed = ~self.jobs.is_preemptible.data[job[is_kept]]
            if is_fixed.any():
                amount = (charge * held)[:, is_fixed]
                _add_at(queues.allocated_non_preemptible, queue[is_fixed], amount)

    def _request_of(self, tasks: RowVec) -> Amounts:
        return self.shapes.request.data[:, self.tasks.shape_of_task.data[tasks]]

    def _charge_of(self, tasks: RowVec) -> Amounts:
        return self.shapes.charge.data[:, self.tasks.shape_of_task.data[tasks]]

    def count_podset(self, task: int, state: int, sign: int) -> None:
        """Count a task in its pod set (+1) or no more (-1), and nowhere else."""
        podset = self.tasks.podset_of_task.data[task]
        if _ACTIVE[state]:
            self.podsets.active.own()[podset] += sign
        elif state == PENDING:
            self.podsets.pending.own()[podset] += sign

    def shortage(self, task: int, node: int) -> int:
        """Return the first resource of which a node has too little idle for a task, or -1."""
        request = self.shapes.request.data[:, self.tasks.shape_of_task.cells[task]]
        is_short = (request > 0) & (request > self.nodes.idle.data[:, node])
        return int(is_short.argmax()) if is_short.any() else -1

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
            self._save_all(tasks, sign)

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

    def recount(self, axis: ResourceAxis) -> None:
        """Count all again, by another axis or after requests of shapes have changed."""
        self.nodes.set_axis(axis)
        self.queues.set_axis(axis)
        self.recount_nodes()
        self._card_mib = self.nodes.cards()[1] if self.shapes.by_card else None
        self.recount_queues()

    def resize_cards(self) -> bool:
        """Take note of the sizes of cards; return whether all has to be counted again."""
        is_other = self.shapes.resize_cards(*self.nodes.card_sizes())
        if not self.shapes.by_card:
            return is_other
        old, sizes = self._card_mib, self.nodes.cards()[1]
        return is_other or old is None or not (old is sizes or np.array_equal(old, sizes))

    def recount_nodes(self) -> None:
        """Fill emptied nodes with the tasks that hold them."""
        self._card_mib = None
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
        self._save_all(tasks, 1)


def _difference(states: BoolVec, old: NDArray[np.int8], new: NDArray[np.int8]) -> IntVec:
    return states[new].astype(np.int64) - states[old]


def _add_at(block: Block, columns: RowVec, amount: Amounts) -> None:
    """Add amounts ``(R, K)`` to columns that may occur more than once."""
    data = block.own()
    for row, more in zip(data, amount, strict=True):
        np.add.at(row, columns, more)
