"""The working amounts of a cycle: the only arrays that change while it runs.

Copies of the snapshot's mutable columns. Changed through
:class:`~kaisched.framework.session.statement.Statement` alone, which can take every change back to
the bit
(all integers, no rounding).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from kaisched.core.states import ACTIVE_STATES, HOLDING_STATES, TaskState
from kaisched.core.tree import roll_up

if TYPE_CHECKING:
    from kaisched.core.axis import Amounts, IntVec, RowVec
    from kaisched.core.snapshot import Snapshot

_FEW = 16
"""Up to so many rows a loop of scalars beats the arrays (measured: 0.2 us a row against 4 us a
call)."""
_ALLOCATED = int(TaskState.ALLOCATED)
_RELEASING = int(TaskState.RELEASING)
_PENDING = int(TaskState.PENDING)
_PIPELINED = int(TaskState.PIPELINED)
_HOLDS = HOLDING_STATES.tolist()
_ACTIVE = ACTIVE_STATES.tolist()


class Ledger:
    """Idle, releasing and held amounts, and where every task stands, as the cycle has them now."""

    __slots__ = (
        "_is_preemptible",
        "_podset_of_task",
        "_queue_of_job",
        "_request",
        "_shape_of_task",
        "_tree",
        "held",
        "held_non_preemptible",
        "idle",
        "job_active",
        "job_of_task",
        "job_pending",
        "node_of_task",
        "podset_active",
        "podset_pending",
        "releasing",
        "state",
        "touched",
    )

    idle: Amounts
    """``(R, N)``"""
    releasing: Amounts
    """``(R, N)`` what is being released and not yet promised to a pipelined task."""
    held: Amounts
    """``(R, Q)`` at every level of the tree; a promise counts, so that all of them together keep to
    the order and the limits by which they will be bound."""
    held_non_preemptible: Amounts
    state: np.ndarray[tuple[int], np.dtype[np.int8]]
    node_of_task: RowVec
    job_active: IntVec
    job_pending: IntVec
    podset_active: IntVec
    podset_pending: IntVec
    touched: list[int]
    """Node rows in the order they changed: what caches of per-node answers still have to re-ask."""

    def __init__(self, snapshot: Snapshot, held: Amounts, held_non_preemptible: Amounts) -> None:
        """Copy what may change; ``held`` is already rolled up and is copied too."""
        tasks, jobs, podsets = snapshot.tasks, snapshot.jobs, snapshot.podsets
        self.idle = snapshot.nodes.idle.copy()
        self.releasing = snapshot.nodes.releasing.copy()
        self.held = held.copy()
        self.held_non_preemptible = held_non_preemptible.copy()
        self.state = tasks.state.copy()
        self.node_of_task = tasks.node_of_task.copy()
        self.job_active = jobs.active.copy()
        self.job_pending = jobs.pending.copy()
        self.podset_active = podsets.active.copy()
        self.podset_pending = podsets.pending.copy()
        self.touched = []
        self.job_of_task = tasks.job_of_task
        self._podset_of_task = tasks.podset_of_task
        self._shape_of_task = tasks.shape_of_task
        self._queue_of_job = jobs.queue_of_job
        self._is_preemptible = jobs.is_preemptible
        self._request = snapshot.shapes.request
        self._tree = snapshot.queues.tree

    def set_state(self, task: int, state: int, node: int) -> tuple[int, int]:
        """Move one task to a state on a node and return (old state, old node).

        The inverse is the same call with what it returned.
        """
        old_state, old_node = int(self.state[task]), int(self.node_of_task[task])
        request = self._request[:, self._shape_of_task[task]]
        if old_node >= 0:
            self._take_from_node(old_node, old_state, request, -1)
        if node >= 0:
            self._take_from_node(node, state, request, 1)
        self._count(task, old_state, state, request)
        self.state[task] = state
        self.node_of_task[task] = node
        return old_state, old_node

    def place_pending(self, tasks: RowVec, nodes: RowVec, shape: int) -> None:
        """Put pending tasks of one shape on idle room, all at once; the same as one by one."""
        request = self._request[:, shape]
        self._shift(tasks, nodes, request, 1)
        self.state[tasks] = _ALLOCATED
        self.node_of_task[tasks] = nodes

    def take_back_pending(self, tasks: RowVec, nodes: RowVec, shape: int) -> None:
        """Undo :meth:`place_pending`."""
        self._shift(tasks, nodes, self._request[:, shape], -1)
        self.state[tasks] = _PENDING
        self.node_of_task[tasks] = -1

    def promise_pending(self, tasks: RowVec, nodes: RowVec, shape: int) -> None:
        """Promise pending tasks of one shape room that is being released."""
        self._shift(tasks, nodes, self._request[:, shape], 1, of_releasing=True)
        self.state[tasks] = _PIPELINED
        self.node_of_task[tasks] = nodes

    def take_back_promised(self, tasks: RowVec, nodes: RowVec, shape: int) -> None:
        """Undo :meth:`promise_pending`."""
        self._shift(tasks, nodes, self._request[:, shape], -1, of_releasing=True)
        self.state[tasks] = _PENDING
        self.node_of_task[tasks] = -1

    def release_all(self, tasks: RowVec, sign: int) -> None:
        """Count running tasks as being released (``sign`` 1), or as running again (-1).

        The same as one by one, but for their states, which the caller sets.
        """
        nodes, shapes = self.node_of_task[tasks], self._shape_of_task[tasks]
        self.touched.extend(dict.fromkeys(nodes.tolist()))
        amounts = self._request.take(shapes, axis=1) * sign
        jobs, podsets = self.job_of_task[tasks], self._podset_of_task[tasks]
        np.subtract.at(self.job_active, jobs, sign)
        np.subtract.at(self.podset_active, podsets, sign)
        queues = self._queue_of_job[jobs]
        strict = ~self._is_preemptible[jobs]
        for row, more in enumerate(amounts):
            np.add.at(self.releasing[row], nodes, more)
        for queue in dict.fromkeys(queues.tolist()):
            here = queues == queue
            path = self._tree.path(queue)
            self.held[:, path] -= amounts[:, here].sum(axis=1)[:, None]
            if strict.any():
                strictly = amounts[:, here & strict].sum(axis=1)
                self.held_non_preemptible[:, path] -= strictly[:, None]

    def relocate(self, task: int, node: int) -> int:
        """Promise a task that is being released another node, and return where it still is.

        It goes on holding its old room until it has left; undone by :meth:`take_back_relocated`.
        """
        old = int(self.node_of_task[task])
        request = self._request[:, self._shape_of_task[task]]
        self.releasing[:, node] -= request
        self.touched.append(node)
        self._count(task, _RELEASING, _PIPELINED, request)
        self.state[task] = _PIPELINED
        self.node_of_task[task] = node
        return old

    def take_back_relocated(self, task: int, old_node: int) -> None:
        """Undo :meth:`relocate`."""
        node = int(self.node_of_task[task])
        request = self._request[:, self._shape_of_task[task]]
        self.releasing[:, node] += request
        self.touched.append(node)
        self._count(task, _PIPELINED, _RELEASING, request)
        self.state[task] = _RELEASING
        self.node_of_task[task] = old_node

    def _shift(
        self,
        tasks: RowVec,
        nodes: RowVec,
        request: Amounts,
        sign: int,
        *,
        of_releasing: bool = False,
    ) -> None:
        source = self.releasing if of_releasing else self.idle
        if len(tasks) == 1:
            self._shift_one(source, int(tasks[0]), int(nodes[0]), request * sign, sign)
            return
        rows, per_node = _counts(nodes)
        self.touched.extend(rows)
        if len(rows) <= _FEW:
            for node, number in zip(rows, per_node, strict=True):
                source[:, node] -= request * (number * sign)
        else:
            source[:, rows] -= request[:, None] * (np.array(per_node) * sign)
        podsets, per_podset = _counts(self._podset_of_task[tasks])
        _add(self.podset_active, podsets, per_podset, sign)
        _add(self.podset_pending, podsets, per_podset, -sign)
        jobs, per_job = _counts(self.job_of_task[tasks])
        _add(self.job_active, jobs, per_job, sign)
        _add(self.job_pending, jobs, per_job, -sign)
        self._hold(jobs, per_job, request * sign)

    def _shift_one(
        self, source: Amounts, task: int, node: int, amounts: Amounts, sign: int
    ) -> None:
        """Do the same for one task, by far the most frequent, without lists (8 us for 15)."""
        self.touched.append(node)
        source[:, node] -= amounts
        podset, job = int(self._podset_of_task[task]), int(self.job_of_task[task])
        self.podset_active[podset] += sign
        self.podset_pending[podset] -= sign
        self.job_active[job] += sign
        self.job_pending[job] -= sign
        for row in self._tree.path(int(self._queue_of_job[job])).tolist():
            self.held[:, row] += amounts
            if not self._is_preemptible[job]:
                self.held_non_preemptible[:, row] += amounts

    def _hold(self, jobs: list[int], per_job: list[int], request: Amounts) -> None:
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
                self.held[:, row] += request * number
        for queue, number in strict.items():
            for row in self._tree.path(queue).tolist():
                self.held_non_preemptible[:, row] += request * number

    def _take_from_node(self, node: int, state: int, request: Amounts, sign: int) -> None:
        if _HOLDS[state]:
            self.idle[:, node] -= request * sign
            if state == _RELEASING:
                self.releasing[:, node] += request * sign
        elif state == _PIPELINED:
            self.releasing[:, node] -= request * sign
        self.touched.append(node)

    def _count(self, task: int, old: int, new: int, request: Amounts) -> None:
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
            self.held[:, path] += (request * active)[:, None]
            if not self._is_preemptible[job]:
                self.held_non_preemptible[:, path] += (request * active)[:, None]


def _counts(rows: RowVec) -> tuple[list[int], list[int]]:
    """Return the distinct rows, in order of appearance, and how often each occurs."""
    counts: dict[int, int] = {}
    for row in rows.tolist():
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
