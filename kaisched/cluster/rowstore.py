"""The state store at row level: typed events on rows, and the snapshot.

For sources that know rows themselves, such as the simulator: no API object is made or read. It is
the part of :class:`kaisched.cluster.store.StateStore` that writes what its other parts know.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from kaisched.cluster.accounts import Accounts
from kaisched.cluster.cards import CardRows
from kaisched.cluster.compaction import Remap, compact, is_due
from kaisched.cluster.holds import as_held
from kaisched.cluster.new_tasks import add_only_task, add_tasks
from kaisched.cluster.nodes import NodeRow, NodeRows
from kaisched.cluster.queues import QueueRow, QueueRows
from kaisched.cluster.rows import GONE
from kaisched.cluster.shapes import LabelRows, ShapeRows, spread_rows
from kaisched.core.axis import HOLDING_STATES, ResourceAxis, RowVec, TaskState
from kaisched.core.constraints import Constraints
from kaisched.core.refusals import Refusal
from kaisched.core.snapshot import Snapshot
from kaisched.core.tables import NO_METADATA, Metadata
from kaisched.units import MIG_SLICES_OF_GPU, is_part_of_gpus

_HOLDS = tuple(HOLDING_STATES.tolist())
_NO_CONSTRAINTS = Constraints()
DEFAULT_PODSET = "default"


class RowStore:
    """Rows of one shard, and frozen views of them. Not for several threads at once.

    Job and task rows stay good until :attr:`compactions` grows, in :meth:`snapshot` and
    :meth:`tidy`; :attr:`remap` then says where. Node and queue rows do within a ``generation``.
    """

    def __init__(
        self, extended: Iterable[str] = (), mig_slices_of_gpu: int = MIG_SLICES_OF_GPU
    ) -> None:
        """Make an empty store.

        Args:
            extended: extended resources to count from the start; others join when a shape asks for
                them.
            mig_slices_of_gpu: MIG slices that queues count as one GPU.

        """
        self.axis = ResourceAxis.of(extended, mig_slices_of_gpu)
        self.nodes = NodeRows(self.axis)
        self.queues = QueueRows(self.axis)
        self.shapes = ShapeRows(self.axis)
        self.labels = LabelRows()
        self.accounts = Accounts(self.nodes, self.queues, self.shapes)
        self.jobs = self.accounts.jobs
        self.podsets = self.accounts.podsets
        self.tasks = self.accounts.tasks
        self.generation = 1
        self.revision = 0
        self.compactions = 0
        self.layouts = 0
        """How often nodes have got other rows."""
        self.cards = CardRows()
        self.remap: Remap | None = None
        self._own_refusal: dict[int, Refusal] = {}
        self._away: dict[int, str] = {}
        """Tasks on nodes that are not known (yet, or any more)."""
        self._snapshot: Snapshot | None = None

    def touch(self) -> None:
        """Take note that something has changed, so that the next snapshot is another one."""
        self.revision += 1

    # -- nodes and queues ------------------------------------------------------------------------

    def put_node(self, node: NodeRow) -> None:
        """Add or replace a node."""
        self.revision += 1
        self.nodes.put(node)
        # Queues count these as GPUs or parts of them, whether or not a pod asks for them.
        self.widen_axis(filter(is_part_of_gpus, node.allocatable))

    def remove_node(self, name: str) -> None:
        """Drop a node. Its tasks stay as they are, on no known node, until they are said to end."""
        self.revision += 1
        self.nodes.remove(name)

    def put_queue(self, queue: QueueRow) -> None:
        """Add or replace a queue."""
        self.revision += 1
        self.queues.put(queue)

    def remove_queue(self, name: str) -> None:
        """Drop a queue; its jobs are refused until it comes back."""
        self.revision += 1
        self.queues.remove(name)

    def leave_out_queue(self, name: str, fault: str) -> None:
        """Note why a queue that was declared is not used, for what its jobs are told."""
        self.revision += 1
        self.queues.leave_out(name, fault)

    def row_of_node(self, name: str) -> int:
        """Return the row of a node in this generation, -1 for none."""
        self.settle()
        return self.nodes.row_of_name.get(name, -1)

    def row_of_queue(self, name: str) -> int:
        """Return the row of a queue in this generation, -1 for none."""
        self.settle()
        return self.queues.table.row_of_name.get(name, -1)

    # -- shapes ----------------------------------------------------------------------------------

    def intern_shape(
        self, request: Mapping[str, int], constraints: Constraints = _NO_CONSTRAINTS
    ) -> int:
        """Return the number of a shape. ``request`` is in base units by resource name, less pods.

        A resource the axis lacks joins it, which starts a new generation. Numbers that this
        returned stay good for the life of the store.
        """
        self.shapes.pin()
        return self.shape_of(request, constraints)

    def shape_of(self, request: Mapping[str, int], constraints: Constraints) -> int:
        """Return the number of a shape, which stays good until the next compaction only."""
        needed = {name: amount for name, amount in request.items() if amount and name != "pods"}
        if (shape := self.shapes.find(needed, constraints)) >= 0:
            return shape
        self.widen_axis(needed)
        return self.shapes.add(needed, constraints)

    def widen_axis(self, names: Iterable[str]) -> None:
        """Count these resources too."""
        if missing := [name for name in names if name not in self.axis.position]:
            self.count_by(self.axis.wider(missing))

    def count_by(self, axis: ResourceAxis) -> None:
        """Count by another axis, which has all resources of the present one."""
        self.settle()
        old, self.axis = self.axis, axis
        self.shapes.spread(self.axis, spread_rows(old, self.axis))
        self.accounts.recount(self.axis)
        self.generation += 1
        self.revision += 1

    # -- jobs and tasks --------------------------------------------------------------------------

    def add_job(
        self,
        name: str,
        queue: str | int,
        *,
        priority: int,
        is_preemptible: bool,
        created_s: float,
        tasks: Sequence[tuple[str, int]],
        minimum: int = 1,
        metadata: Metadata = NO_METADATA,
    ) -> int:
        """Add a job with its pending tasks and return its row.

        Args:
            name: ``namespace/name``; a former job of that name must be gone.
            queue: name or row of a leaf; while there is no such leaf, the job is refused.
            priority: of the job, higher first.
            is_preemptible: whether it may be evicted.
            created_s: seconds on the caller's clock.
            tasks: (name, shape) of each; they get consecutive rows from ``jobs.first_task`` on.
            minimum: tasks needed before any may run.
            metadata: its labels and annotations.

        """
        if isinstance(queue, str):
            queue_name, (queue, refusal) = queue, self.queues.find(queue)
        else:
            queue_name, refusal = self.queues.table.name[queue], Refusal.NONE
        jobs = self.jobs
        job = jobs.append(
            name,
            queue_name,
            queue,
            priority=priority,
            is_preemptible=is_preemptible,
            created_s=created_s,
            metadata=metadata,
        )
        if refusal:
            jobs.refusal.cells[job] = refusal
        podset = self.podsets.append(DEFAULT_PODSET, job, minimum)
        jobs.first_podset.cells[job] = podset
        if len(tasks) == 1:
            add_only_task(self.accounts, job, *tasks[0])
        elif tasks:
            add_tasks(self.accounts, job, tasks)
        self.revision += 1
        return job

    def row_of_job(self, name: str) -> int:
        """Return the row of a living job, -1 for none."""
        return self.jobs.row_of_name.get(name, -1)

    def row_of_task(self, name: str) -> int:
        """Return the row of a task that is not gone, -1 for none."""
        return self.tasks.row_of_name.get(name, -1)

    def place(
        self,
        tasks: RowVec,
        nodes: RowVec,
        state: TaskState = TaskState.BOUND,
        at_s: float = math.nan,
    ) -> None:
        """Put distinct tasks on nodes in bulk.

        Args:
            tasks: ``(K,)`` task rows.
            nodes: ``(K,)`` node rows of the latest snapshot or :meth:`row_of_node`.
            state: ALLOCATED, BINDING, BOUND, RUNNING or RELEASING.
            at_s: when; the start time of jobs of which nothing ran.

        """
        self.revision += 1
        for task in self._away.keys() & tasks.tolist() if self._away else ():
            del self._away[task]
        self.accounts.move_many(tasks, int(state), nodes, at_s)

    def set_state(
        self, task: int, state: TaskState, node: int | None = None, at_s: float = math.nan
    ) -> None:
        """Bring one task to a state.

        ``node`` is a node row, or None to stay on its node; states that hold no room have no node.
        """
        self.revision += 1
        if not _HOLDS[state]:
            node = -1
        elif node is None:
            node = int(self.tasks.node_of_task.data[task])
        if self._away and (node >= 0 or not _HOLDS[state]):
            self._away.pop(task, None)
        self.accounts.move(task, int(state), node, at_s)

    def put_on(self, task: int, state: TaskState, node: str, at_s: float) -> None:
        """Bring a task to a state on a node by name, known (yet) or not; changes no revision."""
        row = -1
        if not _HOLDS[state]:
            self._away.pop(task, None)
        else:
            row = self.nodes.row_of_name.get(node, -1) if self.nodes.is_laid_out else -1
            if row < 0:
                self._away[task] = node
            else:
                self._away.pop(task, None)
        self.accounts.move(task, int(state), row, at_s)

    def evict(self, task: int, at_s: float = math.nan) -> None:
        """Let a task release its room because we said so; its job was evicted then."""
        self.set_state(task, TaskState.RELEASING)
        self.accounts.note_eviction(task, at_s)

    def set_gone(self, task: int) -> None:
        """End one task."""
        self.revision += 1
        self._away.pop(task, None)
        self.accounts.move(task, GONE, -1)

    def state_of(self, name: str) -> TaskState:
        """Return the state of a task, GONE for none of that name."""
        row = self.tasks.row_of_name.get(name, -1)
        return TaskState.GONE if row < 0 else TaskState(self.tasks.state.cells[row])

    def nominate(self, task: int, node: int) -> None:
        """Remember (or with -1 forget) the node promised to a pending task."""
        if self.tasks.nominated_node.data[task] != node:
            self.revision += 1
            self.tasks.nominated_node.own()[task] = node

    def remove_job(self, job: int) -> None:
        """End a job: all its tasks are gone, and its name is free."""
        self.revision += 1
        rows = self.jobs.tasks.data[job]
        for task in rows if self._away else ():
            self._away.pop(task, None)
        if len(rows) == 1:
            self.accounts.move(rows[0], GONE, -1)
        elif rows:
            tasks = np.array(rows, np.int64)
            self.accounts.move_many(tasks, GONE, np.full(len(tasks), -1, np.int64))
        self._own_refusal.pop(job, None)
        self.jobs.bury(job)

    def refuse(self, job: int, refusal: Refusal) -> None:
        """Never try a job, for this reason of its own; NONE lifts it. Its queue may add another."""
        self.revision += 1
        self._own_refusal.pop(job, None)
        if refusal:
            self._own_refusal[job] = refusal
        self._apply_refusal(job)

    def _apply_refusal(self, job: int) -> None:
        queue, of_queue = self.queues.find(self.jobs.queue_name[job])
        self.accounts.set_queue(job, queue)
        refusal = self._own_refusal.get(job) or of_queue
        if self.jobs.refusal.data[job] != refusal:
            self.jobs.refusal.own()[job] = refusal

    # -- laying out and freezing -----------------------------------------------------------------

    def settle(self) -> None:
        """Take changes of the set of nodes and queues into effect."""
        if not self.nodes.is_laid_out:
            self._lay_out_nodes()
        if not self.queues.is_laid_out:
            self._lay_out_queues()
        is_other = self.accounts.apply_terms(self.compactions)
        if self.shapes.with_cards and self.accounts.resize_cards():
            self.accounts.recount(self.axis)
            is_other = True
        self.generation += is_other

    def _lay_out_nodes(self) -> None:
        before, tasks, size = self.nodes.name, self.tasks, self.tasks.size
        moved = np.append(self.nodes.lay_out(), -1)
        node_of_task = tasks.node_of_task.own()
        lost = np.flatnonzero((node_of_task[:size] >= 0) & (moved[node_of_task[:size]] < 0))
        for task in lost.tolist():
            self._away[task] = before[node_of_task[task]]
        node_of_task[:size] = moved[node_of_task[:size]]
        nominated = tasks.nominated_node.own()
        nominated[:size] = moved[nominated[:size]]
        for task, name in list(self._away.items()):
            row = self.nodes.row_of_name.get(name, -1)
            if row >= 0:
                node_of_task[task] = row
                del self._away[task]
        self.cards.move_nodes(moved)
        self.accounts.recount_nodes()
        self.layouts += 1
        self.generation += 1

    def _lay_out_queues(self) -> None:
        if not self.queues.lay_out():
            return
        jobs = self.jobs
        queue_of_job, refusals = jobs.queue_of_job.own(), jobs.refusal.own()
        for job, name in enumerate(jobs.queue_name):
            queue, refusal = self.queues.find(name)
            queue_of_job[job] = queue
            refusals[job] = self._own_refusal.get(job) or refusal
        self.accounts.recount_queues()
        self.generation += 1

    def tidy(self) -> None:
        """Drop the rows of what is gone once they are many; who takes no snapshots has to ask."""
        if not is_due(self.accounts):
            return
        remap = self.remap = compact(self.accounts, self.labels)
        self._own_refusal = {int(remap.job[job]): it for job, it in self._own_refusal.items()}
        self._away = {int(remap.task[task]): name for task, name in self._away.items()}
        self.cards.keep(remap.task)
        self._snapshot = None  # it speaks of other rows
        self.compactions += 1
        self.generation += 1

    def snapshot(self) -> Snapshot:
        """Freeze the present state; the same object while nothing happened."""
        last = self._snapshot
        if last is not None and last.revision == self.revision:
            return last
        self.settle()
        self.tidy()
        queues, count, podsets = self.queues, len(self.queues), self.podsets.table()
        jobs, pending = as_held(self.jobs.table(), podsets, queues, queues.pending.frozen(count))
        self._snapshot = Snapshot(
            axis=self.axis,
            nodes=self.nodes.table(self.cards.table(self.accounts)),
            queues=queues.table,
            jobs=jobs,
            podsets=podsets,
            tasks=self.tasks.table(),
            shapes=self.shapes.table(),
            allocated=queues.allocated.frozen(count),
            allocated_non_preemptible=queues.allocated_non_preemptible.frozen(count),
            pending=pending,
            generation=self.generation,
            revision=self.revision,
            label_sets=self.labels.table(),
            evictions_s=tuple(self.accounts.evictions_s),
        )
        return self._snapshot
