"""The state store at row level: typed events on rows, and the snapshot.

For sources that know rows themselves, such as the simulator: no API object is made or read. It is
the part of :class:`kaisched.cluster.store.StateStore` that writes what its other parts know.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np

from kaisched.cluster.columns import Column
from kaisched.cluster.nodes import NodeRow, NodeRows
from kaisched.cluster.queues import QueueRow, QueueRows
from kaisched.cluster.rows import (
    GONE,
    JobRows,
    LabelRows,
    PodSetRows,
    ShapeRows,
    TaskRows,
    renumber,
)
from kaisched.cluster.shared_gpus import CardRows
from kaisched.core.axis import (
    ACTIVE_STATES,
    HOLDING_STATES,
    Amounts,
    BoolVec,
    IntVec,
    ResourceAxis,
    RowVec,
    TaskState,
)
from kaisched.core.constraints import Constraints, Terms, terms_for
from kaisched.core.refusals import Refusal
from kaisched.core.snapshot import Snapshot
from kaisched.core.sums import NOTHING_SUMMED, summed
from kaisched.core.tables import (
    EVICTED,
    HELD,
    INTERACTIVE,
    NO_METADATA,
    TRAINING,
    WORKLOAD,
    WORKLOADS,
    Metadata,
)
from kaisched.units import MIG_SLICES_OF_GPU, is_part_of_gpus

_HOLDS: Final = tuple(HOLDING_STATES.tolist())
_ACTIVE: Final = tuple(ACTIVE_STATES.tolist())
_ON_HOLD: Final = int(Refusal.QUEUE_ON_HOLD)
_NO_CONSTRAINTS: Final = Constraints()
DEFAULT_PODSET: Final = "default"
HOUR_S: Final = 3600.0
_SLACK: Final = 1024
"""So many dead rows are not worth the work of a compaction."""


@dataclass(frozen=True, slots=True)
class Remap:
    """New row of each old one, -1 for dropped ones: ``(J,)`` for jobs and ``(T,)`` for tasks."""

    job: RowVec
    task: RowVec


@dataclass(frozen=True, slots=True)
class JobPast:
    """Start and eviction of a job, in seconds since 1970; None if unknown."""

    started_s: float | None = None
    evicted_s: float | None = None


MOST_UNOFFERED: Final = 32
"""So many resources that no node offers are counted by their names; further ones as one."""
OF_NO_NODE: Final = "resources-of-no-node"
"""The name of that one, which no node has either."""


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
        self.jobs = JobRows()
        self.podsets = PodSetRows()
        self.tasks = TaskRows()
        self.cards = CardRows()
        self.generation = 1
        self.revision = 0
        self.compactions = 0
        self.layouts = 0
        """How often nodes have got other rows."""
        self.remap: Remap | None = None
        self.evictions_s: deque[float] = deque()
        """When pods were evicted, in the hour before the newest of them."""
        self._seen_s: dict[tuple[int, str, float], float] = {}
        """When each time in the future was first seen, by its kind, its job and as it was given."""
        self._own_refusal: dict[int, Refusal] = {}
        self._away: dict[int, str] = {}
        """Tasks on nodes that are not known (yet, or any more)."""
        self._card_mib: IntVec | None = None
        """``(N,)`` the sizes of cards by which queues count requests for memory, if there are."""
        self._has_queue_terms = False
        """Whether shapes may have terms of queues."""
        self._snapshot: Snapshot | None = None
        self._offered: set[str] = set()
        """Resources that some node has offered."""
        self._unoffered = 0
        """How many resources of the axis no node had offered when they joined it."""
        self.unlisted: set[str] = set()
        """Resources that did not join it."""

    def touch(self) -> None:
        """Record that something has changed, so that the next snapshot is a new one."""
        self.revision += 1

    # -- nodes and queues ------------------------------------------------------------------------

    def put_node(self, node: NodeRow) -> None:
        """Add or replace a node."""
        self.revision += 1
        self.nodes.put(node)
        # Queues count these as GPUs or parts of them, whether or not a pod asks for them.
        self.widen_axis(filter(is_part_of_gpus, node.allocatable))
        self._offered.update(node.allocatable)

    def listed(self) -> set[str]:
        """Let resources join the axis that a node offers by now; return which."""
        found = self.unlisted & self._offered
        if found:
            self.unlisted -= found
            self.widen_axis(sorted(found))
        return found

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
        """Record why a declared queue is not used, for the refusals of its jobs."""
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
        needed = self._countable(needed)
        if (shape := self.shapes.find(needed, constraints)) >= 0:
            return shape
        self.widen_axis(needed)
        return self.shapes.add(needed, constraints)

    def _countable(self, needed: dict[str, int]) -> dict[str, int]:
        """Return what a pod needs, with one name for the resources of no node that are too many.

        Each resource of the axis makes every cycle longer, and anybody can make up names.
        """
        known, offered = self.axis.position, self._offered
        unoffered = [it for it in needed if "/" in it and it not in known and it not in offered]
        if not unoffered:
            return needed
        if self._unoffered + len(unoffered) <= MOST_UNOFFERED:
            self._unoffered += len(unoffered)
            return needed
        self.unlisted.update(unoffered)
        rest = {name: amount for name, amount in needed.items() if name not in self.unlisted}
        return {**rest, OF_NO_NODE: 1}

    def widen_axis(self, names: Iterable[str]) -> None:
        """Count these resources too."""
        if missing := [name for name in names if name not in self.axis.position]:
            self.count_by(self.axis.wider(missing))

    def count_by(self, axis: ResourceAxis) -> None:
        """Count by another axis, which has all resources of the present one."""
        self.settle()
        self.axis = axis
        for rows in (self.nodes, self.queues, self.shapes):
            rows.count_by(axis)
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
        job = jobs.reserve(1)
        jobs.queue_of_job.data[job] = queue
        jobs.priority.data[job] = priority
        jobs.is_preemptible.data[job] = is_preemptible
        jobs.created_s.data[job] = created_s
        jobs.refusal.data[job] = refusal
        jobs.name.data.append(name)
        jobs.queue_name.append(queue_name)
        jobs.metadata.data.append(metadata)
        jobs.top_owner.data.append(None)
        jobs.tasks.data.append(())
        jobs.is_dead.append(False)
        jobs.row_of_name[name] = job
        podset = jobs.first_podset.data[job] = self.podsets.append(DEFAULT_PODSET, job, minimum)
        if tasks:
            self._add_tasks(job, podset, tasks)
        self.revision += 1
        return job

    def _add_tasks(self, job: int, podset: int, tasks: Sequence[tuple[str, int]]) -> None:
        rows, jobs = self.tasks, self.jobs
        first = rows.reserve(len(tasks))
        end = first + len(tasks)
        names, shapes = [name for name, _ in tasks], [shape for _, shape in tasks]
        rows.name.data.extend(names)
        rows.uid.data.extend(names)
        rows.row_of_name.update(zip(names, range(first, end), strict=True))
        rows.job_of_task.data[first:end] = job
        rows.podset_of_task.data[first:end] = podset
        rows.shape_of_task.data[first:end] = shapes
        rows.created_s.data[first:end] = jobs.created_s.data[job]
        jobs.first_task.data[job] = first
        jobs.tasks.data[job] = range(first, end)
        if shapes.count(shapes[0]) == len(shapes):
            jobs.shape_of_job.data[job] = shapes[0]

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
        rows, jobs = self.tasks, self.jobs
        if not math.isnan(at_s) and _ACTIVE[state]:
            runs = np.zeros(jobs.size + 1, np.bool_)  # the last one for tasks of no job
            runs[
                rows.job_of_task.data[: rows.size][ACTIVE_STATES[rows.state.data[: rows.size]]]
            ] = 1
            runs[-1] = True
            job = rows.job_of_task.data[tasks]
            jobs.last_start_s.own()[job[~runs[job]]] = at_s
        rows.state.own()[tasks] = state
        rows.node_of_task.own()[tasks] = nodes

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
        if node >= 0 or not _HOLDS[state]:
            self._away.pop(task, None)
        self._move(task, int(state), node, at_s)

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
        self._move(task, int(state), row, at_s)

    def _move(self, task: int, state: int, node: int, at_s: float = math.nan) -> None:
        tasks, jobs = self.tasks, self.jobs
        old, job = tasks.state.data[task], tasks.job_of_task.data[task]
        is_start = _ACTIVE[state] and not math.isnan(at_s) and job >= 0
        if is_start and not any(_ACTIVE[tasks.state.data[it]] for it in jobs.tasks.data[job]):
            jobs.last_start_s.set(job, at_s)
        tasks.state.set(task, state)
        tasks.node_of_task.set(task, node)
        if state == GONE != old:
            tasks.forget(task)

    def evict(self, task: int, at_s: float = math.nan) -> None:
        """Evict a task: it is releasing from now on, and its job was evicted at that time."""
        self.set_state(task, TaskState.RELEASING)
        self.record_eviction(task, at_s)

    def set_gone(self, task: int) -> None:
        """End one task."""
        self.set_state(task, TaskState.GONE)

    def state_of(self, name: str) -> TaskState:
        """Return the state of a task, GONE for none of that name."""
        row = self.tasks.row_of_name.get(name, -1)
        return TaskState.GONE if row < 0 else TaskState(self.tasks.state.data[row])

    def nominate(self, task: int, node: int) -> None:
        """Set the nominated node of a pending task; -1 for none."""
        if self.tasks.nominated_node.data[task] != node:
            self.revision += 1
            self.tasks.nominated_node.set(task, node)

    def remove_job(self, job: int) -> None:
        """End a job: all its tasks are gone, and its name is free."""
        self.revision += 1
        for task in self.jobs.tasks.data[job]:
            self.set_gone(task)
        self._own_refusal.pop(job, None)
        self.jobs.bury(job)

    def refuse(self, job: int, refusal: Refusal) -> None:
        """Never try a job, for this reason of its own; NONE lifts it. Its queue may add another."""
        self.revision += 1
        self._own_refusal.pop(job, None)
        if refusal:
            self._own_refusal[job] = refusal
        queue, of_queue = self.queues.find(self.jobs.queue_name[job])
        self.jobs.queue_of_job.set(job, queue)
        self.jobs.refusal.set(job, self._own_refusal.get(job) or of_queue)

    # -- tasks one at a time, as API objects bring them --------------------------------------------

    def add_task(self, name: str, uid: str, shape: int, job: int, podset: int) -> int:
        """Add a task in state GONE, which a move sets later, and return its row.

        ``job`` and ``podset`` are -1 for a task of another scheduler.
        """
        jobs = self.jobs
        row = self.tasks.append(name, uid, shape, job, podset)
        self.tasks.state.data[row] = GONE
        if job < 0:
            return row
        before = jobs.tasks.data[job]
        if not before:
            jobs.first_task.set(job, row)
        if not before or (isinstance(before, range) and before.stop == row):
            jobs.tasks.own()[job] = range(before[0] if before else row, row + 1)
        else:
            jobs.tasks.own()[job] = (*before, row)
        known = jobs.shape_of_job.data[job]
        if known != shape and (known >= 0 or not self._shapes_of(job)):
            jobs.shape_of_job.set(job, self._common_shape(job, {shape}))
        return row

    def retire_task(self, row: int) -> None:
        """Set a task to GONE; the rest of its job may have become uniform."""
        self.set_gone(row)
        job = int(self.tasks.job_of_task.data[row])
        if job >= 0 and self.jobs.shape_of_job.data[job] < 0:
            self.jobs.shape_of_job.set(job, self._common_shape(job))

    def _shapes_of(self, job: int) -> set[int]:
        """Return the shapes of the living tasks of a job."""
        state, shape_of_task = self.tasks.state.data, self.tasks.shape_of_task.data
        rows = self.jobs.tasks.data[job]
        return {int(shape_of_task[row]) for row in rows if state[row] != GONE}

    def _common_shape(self, job: int, more: Iterable[int] = ()) -> int:
        """Return the one shape of a job's living tasks and ``more``, -1 for several or none."""
        shapes = self._shapes_of(job).union(more)
        return shapes.pop() if len(shapes) == 1 else -1

    def idle_on(self, nodes: RowVec) -> Amounts:
        """``(K, R)`` what distinct nodes have idle now."""
        tasks = self.tasks
        place = np.full(len(self.nodes) + 1, -1)  # the last one for tasks on no node
        place[nodes] = np.arange(len(nodes))
        at: RowVec = place[tasks.node_of_task.data[: tasks.size]]
        there = np.flatnonzero(at >= 0)
        idle: Amounts = self.nodes.allocatable()[:, nodes].T.copy()
        np.subtract.at(idle, at[there], self.shapes.request.data[tasks.shape_of_task.data[there]])
        return idle

    def shortage(self, task: int, node: int) -> int:
        """Return the first resource of which a node has too little idle for a task, or -1."""
        wanted = self.shapes.request.data[self.tasks.shape_of_task.data[task]]
        is_short = (wanted > 0) & (wanted > self.idle_on(np.array([node]))[0])
        return int(is_short.argmax()) if is_short.any() else -1

    # -- the past of jobs --------------------------------------------------------------------------

    def last_evicted_s(self, job: str) -> float:
        """Return when a job was last evicted, NaN if unknown."""
        row = self.row_of_job(job)
        return float(self.jobs.rare.data[row, EVICTED]) if row >= 0 else math.nan

    def record_eviction(self, task: int, at_s: float) -> None:
        """Remember when the job of a task was last evicted; NaN says nothing."""
        job = self.tasks.job_of_task.data[task]
        if job >= 0 and not math.isnan(at_s):
            self.jobs.rare.set((job, EVICTED), at_s)
            self.evictions_s.append(at_s)
            while self.evictions_s[0] <= at_s - HOUR_S:
                self.evictions_s.popleft()

    def forget_evictions(self, at_s: float, pods: int, before: Mapping[str, float]) -> None:
        """Take back evictions of pods that were noted and never sent.

        Args:
            at_s: the noted time.
            pods: how many pods.
            before: the earlier eviction of each job of which no pod was evicted at ``at_s``.

        """
        self.revision += 1
        for _ in range(min(pods, self.evictions_s.count(at_s))):
            self.evictions_s.remove(at_s)
        for job, before_s in before.items():
            if self.last_evicted_s(job) == at_s:
                self.jobs.rare.set((self.row_of_job(job), EVICTED), before_s)

    def pasts(self) -> Iterator[tuple[str, JobPast]]:
        """Yield the past of each living job that has one, by name."""
        started_s, rare = self.jobs.last_start_s.data, self.jobs.rare.data
        for name, job in sorted(self.jobs.row_of_name.items()):
            past = JobPast(_known(started_s[job]), _known(rare[job, EVICTED]))
            if past != JobPast():
                yield name, past

    def restore_pasts(self, pasts: Mapping[str, JobPast], evictions_s: Iterable[float]) -> None:
        """Restore the past of jobs, and the times of all evictions in the last hour."""
        for name, past in pasts.items():
            job = self.row_of_job(name)
            if job >= 0:
                self.jobs.last_start_s.set(job, _or_nan(past.started_s))
                self.jobs.rare.set((job, EVICTED), _or_nan(past.evicted_s))
        self.evictions_s.extend(evictions_s)

    def bring_back_to_now(self, now_s: float) -> None:
        """Correct starts and evictions of jobs in the future; called before every snapshot.

        Some clock is wrong. Such a time counts as the time at which it was first seen, so that it
        protects a job no longer than a start at that moment. Once our own clock has passed it, it
        counts as given.
        """
        jobs = self.jobs
        # A column, and which cell of its rows: of starts and of evictions.
        times: list[tuple[Column, tuple[Any, ...]]]
        times = [(jobs.last_start_s, ()), (jobs.rare, (EVICTED,))]
        for (kind, name, given_s), seen_s in list(self._seen_s.items()):
            row = self.row_of_job(name)
            if row < 0 or given_s <= now_s:
                del self._seen_s[kind, name, given_s]
                column, cell = times[kind]
                if row >= 0 and column.data[(row, *cell)] == seen_s:
                    self.revision += 1
                    column.set((row, *cell), given_s)
        for kind, (column, cell) in enumerate(times):
            index: Any = (slice(jobs.size), *cell)
            at_s = column.data[index]
            for row in np.flatnonzero(at_s > now_s).tolist():
                key = kind, jobs.name.data[row], float(at_s[row])
                self.revision += 1
                column.set((row, *cell), self._seen_s.setdefault(key, now_s))

    # -- laying out and freezing -----------------------------------------------------------------

    def settle(self) -> None:
        """Take changes of the set of nodes and queues into effect."""
        if not self.nodes.is_laid_out:
            self._lay_out_nodes()
        if not self.queues.is_laid_out:
            self._lay_out_queues()
        is_other = self._apply_queue_terms()
        if self.shapes.with_cards:
            is_other |= self.shapes.resize_cards(*self.nodes.card_sizes())
            sizes = self.nodes.cards()[1] if self.shapes.by_card else None
            if sizes is not None:
                is_other |= self._card_mib is None or not np.array_equal(sizes, self._card_mib)
            self._card_mib = sizes
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
        self.generation += 1

    def _apply_queue_terms(self) -> bool:
        """Give every living task of a job the shape with the node affinity of its queues.

        Shapes have what holds for a pod, so that whoever asks about a shape need not know of
        queues. Return whether a task that was in a snapshot has another shape now.
        """
        table, tasks, jobs = self.queues.table, self.tasks, self.jobs
        if table.node_affinity is None and not self._has_queue_terms:
            return False
        # Shapes with terms may be left where none is demanded any more, but no task has one.
        self._has_queue_terms = table.node_affinity is not None
        terms: dict[Terms, int] = {(): 0}
        of_queue: IntVec = np.zeros((len(WORKLOADS), len(table) + 1), np.int64)
        for workload in range(len(WORKLOADS)) if self._has_queue_terms else ():
            for queue in range(len(table)):
                wish = terms_for(table, workload, queue)
                of_queue[workload, queue] = terms.setdefault(wish, len(terms))
        of_shape = [
            terms.setdefault(it.queue_terms, len(terms)) for it in self.shapes.constraints.data
        ]
        said = jobs.rare.data[: jobs.size, WORKLOAD].astype(np.int64)
        by_itself = np.where(jobs.is_preemptible.data[: jobs.size], TRAINING, INTERACTIVE)
        wanted = of_queue[np.where(said < 0, by_itself, said), jobs.queue_of_job.data[: jobs.size]]

        job = tasks.job_of_task.data[: tasks.size]
        living = np.flatnonzero((job >= 0) & tasks.live())
        has = np.array(of_shape, np.int64)[tasks.shape_of_task.data[living]]
        stale = living[wanted[job[living]] != has]
        if not len(stale):
            return False
        by_number, shape_of_task = list(terms), tasks.shape_of_task.own()
        for task in stale.tolist():
            old = int(shape_of_task[task])
            constraints = self.shapes.constraints.data[old]
            constraints = replace(constraints, queue_terms=by_number[wanted[job[task]]])
            shape_of_task[task] = self.shape_of(self.shapes.asked_by(old), constraints)
        shape_of_job = jobs.shape_of_job.own()
        for row in np.unique(job[stale]).tolist():
            shape_of_job[row] = self._common_shape(row)
        seen = 0 if self._snapshot is None else len(self._snapshot.tasks.name)
        return bool(stale[0] < seen)

    def tidy(self) -> None:
        """Drop dead rows once they are many; each snapshot does, others have to call it."""
        jobs, podsets, tasks = self.jobs, self.podsets, self.tasks
        if not (
            2 * tasks.gone > tasks.size + _SLACK
            or 2 * jobs.dead > jobs.size + _SLACK
            or 2 * len(podsets.dropped) > podsets.size + _SLACK
        ):
            return
        is_live = ~np.array(jobs.is_dead, np.bool_)
        kept_jobs, job_map = _mapping(is_live)
        is_used = is_live[podsets.job_of_podset.data[: podsets.size]]
        is_used[sorted(podsets.dropped)] = False
        kept_podsets, podset_map = _mapping(is_used)
        kept_tasks, task_map = _mapping(tasks.live())
        jobs.keep(kept_jobs, job_map, podset_map, task_map)
        podsets.keep(kept_podsets, job_map)
        tasks.keep(kept_tasks, job_map, podset_map)
        self._drop_unused_shapes()
        self.remap = Remap(job_map[:-1], task_map[:-1])
        self._own_refusal = {int(job_map[job]): it for job, it in self._own_refusal.items()}
        self._away = {int(task_map[task]): name for task, name in self._away.items()}
        self.cards.keep(task_map)
        self._snapshot = None  # it speaks of other rows
        self.compactions += 1
        self.generation += 1

    def tasks_with(self, label_sets: list[int]) -> list[str]:
        """Return the names of the tasks with some label sets."""
        tasks = self.tasks
        found = np.isin(tasks.label_set_of_task.data[: tasks.size], label_sets)
        return [tasks.name.data[row] for row in np.flatnonzero(found).tolist()]

    def _drop_unused_shapes(self) -> None:
        """Drop the shapes and label sets without tasks: names of pods end up in labels."""
        jobs, tasks, shapes, labels = self.jobs, self.tasks, self.shapes, self.labels
        is_used = np.full(len(shapes), shapes.are_pinned)
        is_used[tasks.shape_of_task.data[: tasks.size]] = True
        kept, shape_map = _mapping(is_used)
        of_shapes = [shapes.constraints.data[row].label_set for row in kept.tolist()]
        is_seen = np.zeros(len(labels.labels.data) + 1, np.bool_)  # the last one stands for "none"
        is_seen[tasks.label_set_of_task.data[: tasks.size]] = True
        is_seen[of_shapes] = True
        kept_labels, label_map = _mapping(is_seen[:-1])
        shapes.keep(kept, label_map)
        labels.keep(kept_labels)
        renumber(tasks.shape_of_task.data, tasks.size, shape_map)
        renumber(jobs.shape_of_job.data, jobs.size, shape_map)
        renumber(tasks.label_set_of_task.data, tasks.size, label_map)

    def snapshot(self) -> Snapshot:
        """Freeze the present state; the same object while nothing happened."""
        last = self._snapshot
        if last is not None and last.revision == self.revision:
            return last
        self.settle()
        self.tidy()
        if last is not None and last.generation != self.generation:
            last = None
        cards = self.cards.table(self.nodes, self.tasks, self.shapes)
        now = Snapshot(
            axis=self.axis,
            nodes=self.nodes.table(cards),
            queues=self.queues.table,
            jobs=self.jobs.table(),
            podsets=self.podsets.table(),
            tasks=self.tasks.table(),
            shapes=self.shapes.table(),
            allocated=NOTHING_SUMMED,
            allocated_non_preemptible=NOTHING_SUMMED,
            pending=NOTHING_SUMMED,
            generation=self.generation,
            revision=self.revision,
            label_sets=self.labels.table(),
            evictions_s=tuple(self.evictions_s),
        )
        self._snapshot = _with_the_broken(summed(now, last))
        return self._snapshot


def _with_the_broken(now: Snapshot) -> Snapshot:
    """Try jobs of queues on hold that run with fewer pods than they need.

    `stopPolicy: Hold` does not end the jobs that run in a queue.
    """
    jobs, podsets, stops = now.jobs, now.podsets, now.queues.stop_of_queue
    if not stops.any():
        return now
    held = (jobs.refusal == _ON_HOLD) & (stops[jobs.queue_of_job] == HELD)
    if not held.any():
        return now
    is_short = (podsets.active > 0) & (podsets.active < podsets.minimum)
    broken = np.zeros(len(held), np.bool_)
    broken[podsets.job_of_podset[is_short]] = True
    refusal = np.where(held & broken, np.int16(0), jobs.refusal)
    refusal.setflags(write=False)
    return replace(now, jobs=replace(jobs, refusal=refusal))


def _mapping(is_kept: BoolVec) -> tuple[RowVec, RowVec]:
    """Return the kept rows, and the new row of each old one with -1 at the end for "none"."""
    kept = np.flatnonzero(is_kept)
    mapping = np.full(len(is_kept) + 1, -1, np.int64)
    mapping[kept] = np.arange(len(kept))
    return kept, mapping


def _known(seconds: float) -> float | None:
    return None if math.isnan(seconds) else float(seconds)


def _or_nan(seconds: float | None) -> float:
    return math.nan if seconds is None else seconds
