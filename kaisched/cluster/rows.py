"""The rows of jobs, pod sets and tasks: append-only within a generation, see columns for why.

These classes know their columns and nothing of each other; what an event means for all of them at
once is the business of :mod:`kaisched.cluster.accounts`.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from kaisched.cluster.columns import Column, ListColumn
from kaisched.core.axis import RowVec
from kaisched.core.states import TaskState
from kaisched.core.tables import JobTable, PodSetTable, SubGroup, TaskTable

LOWEST_PRIORITY: Final = -(2**63 - 1)
"""Order priority of a task that names none; its negative still is an int64."""
GONE: Final = int(TaskState.GONE)


class Table:
    """What all growing tables have in common: a size, and columns that grow together."""

    columns: tuple[Column, ...]
    size: int
    capacity: int

    def _start(self, *columns: Column) -> None:
        self.columns = columns
        self.size = 0
        self.capacity = len(columns[0].data)

    def reserve(self, more: int) -> int:
        """Return the first of ``more`` new rows, whose cells hold their column's fill."""
        row = self.size
        self.size = row + more
        if self.size > self.capacity:
            for column in self.columns:
                column.grow(self.size)
            self.capacity = min(len(column.data) for column in self.columns)
        return row

    def keep_columns(self, rows: RowVec) -> None:
        """Keep only these rows, in this order, in every array column."""
        for column in self.columns:
            column.keep(rows)
        self.size = len(rows)
        self.capacity = min(len(column.data) for column in self.columns)


class JobRows(Table):
    """Jobs, see :class:`~kaisched.core.tables.JobTable` for the columns."""

    def __init__(self) -> None:
        """Make an empty table."""
        self.queue_of_job = Column(np.int64, -1)
        self.priority = Column(np.int64, 0)
        self.is_preemptible = Column(np.bool_, True)
        self.created_s = Column(np.float64, 0.0)
        self.refusal = Column(np.int16, 0)
        self.first_task = Column(np.int64, -1)
        self.first_podset = Column(np.int64, -1)
        self.podset_count = Column(np.int64, 1)
        self.shape_of_job = Column(np.int64, -1)
        self.active = Column(np.int64, 0)
        self.pending = Column(np.int64, 0)
        self.last_start_s = Column(np.float64, np.nan)
        self._start(
            self.queue_of_job,
            self.priority,
            self.is_preemptible,
            self.created_s,
            self.refusal,
            self.first_task,
            self.first_podset,
            self.podset_count,
            self.shape_of_job,
            self.active,
            self.pending,
            self.last_start_s,
        )
        self.name: ListColumn[str] = ListColumn()
        self.queue_name: list[str] = []
        self.tasks: ListColumn[range | tuple[int, ...]] = ListColumn()
        self.is_dead: list[bool] = []
        self.dead = 0
        self.structure: dict[int, SubGroup] = {}
        self._shared_structure: dict[int, SubGroup] | None = None
        self.row_of_name: dict[str, int] = {}

    def append(
        self,
        name: str,
        queue_name: str,
        queue: int,
        *,
        priority: int,
        is_preemptible: bool,
        created_s: float,
    ) -> int:
        """Add a job without tasks and return its row."""
        row = self.reserve(1)
        self.queue_of_job.data[row] = queue
        self.priority.data[row] = priority
        self.is_preemptible.data[row] = is_preemptible
        self.created_s.data[row] = created_s
        self.name.data.append(name)
        self.queue_name.append(queue_name)
        self.tasks.data.append(())
        self.is_dead.append(False)
        self.row_of_name[name] = row
        return row

    def bury(self, row: int) -> None:
        """Mark a row as dead: kept until the next compaction, found by name no more."""
        if not self.is_dead[row]:
            self.is_dead[row] = True
            self.dead += 1
            name = self.name.data[row]
            if self.row_of_name.get(name) == row:
                del self.row_of_name[name]

    def set_structure(self, row: int, tree: SubGroup | None) -> None:
        """Set or drop the tree of subgroups of a job."""
        if self.structure is self._shared_structure:
            self.structure = dict(self.structure)
        if tree is None:
            self.structure.pop(row, None)
        else:
            self.structure[row] = tree

    def table(self) -> JobTable:
        """Freeze."""
        size = self.size
        self._shared_structure = self.structure
        return JobTable(
            name=self.name.frozen(),
            queue_of_job=self.queue_of_job.frozen(size),
            priority=self.priority.frozen(size),
            is_preemptible=self.is_preemptible.frozen(size),
            created_s=self.created_s.frozen(size),
            refusal=self.refusal.frozen(size),
            first_task=self.first_task.frozen(size),
            first_podset=self.first_podset.frozen(size),
            podset_count=self.podset_count.frozen(size),
            shape_of_job=self.shape_of_job.frozen(size),
            active=self.active.frozen(size),
            pending=self.pending.frozen(size),
            last_start_s=self.last_start_s.frozen(size),
            structure=self.structure,
            tasks=self.tasks.frozen(),
            queue_name=self.queue_name,
        )


class PodSetRows(Table):
    """Leaf subgroups, see :class:`~kaisched.core.tables.PodSetTable` for the columns."""

    def __init__(self) -> None:
        """Make an empty table."""
        self.job_of_podset = Column(np.int64, -1)
        self.minimum = Column(np.int64, 1)
        self.active = Column(np.int64, 0)
        self.pending = Column(np.int64, 0)
        self._start(self.job_of_podset, self.minimum, self.active, self.pending)
        self.name: ListColumn[str] = ListColumn()
        self.dropped: set[int] = set()
        """Rows of living jobs that were divided anew; empty of tasks."""

    def append(self, name: str, job: int, minimum: int) -> int:
        """Add a pod set without tasks and return its row."""
        row = self.reserve(1)
        self.job_of_podset.data[row] = job
        self.minimum.data[row] = minimum
        self.name.data.append(name)
        return row

    def table(self) -> PodSetTable:
        """Freeze."""
        size = self.size
        return PodSetTable(
            name=self.name.frozen(),
            job_of_podset=self.job_of_podset.frozen(size),
            minimum=self.minimum.frozen(size),
            active=self.active.frozen(size),
            pending=self.pending.frozen(size),
        )


class TaskRows(Table):
    """Tasks, see :class:`~kaisched.core.tables.TaskTable` for the columns."""

    def __init__(self) -> None:
        """Make an empty table."""
        self.job_of_task = Column(np.int64, -1)
        self.podset_of_task = Column(np.int64, -1)
        self.shape_of_task = Column(np.int64, -1)
        self.state = Column(np.int8, 0)
        self.node_of_task = Column(np.int64, -1)
        self.nominated_node = Column(np.int64, -1)
        self.order_priority = Column(np.int64, LOWEST_PRIORITY)
        self.created_s = Column(np.float64, 0.0)
        self.label_set_of_task = Column(np.int64, -1)
        self._start(
            self.job_of_task,
            self.podset_of_task,
            self.shape_of_task,
            self.state,
            self.node_of_task,
            self.nominated_node,
            self.order_priority,
            self.created_s,
            self.label_set_of_task,
        )
        self.name: ListColumn[str] = ListColumn()
        self.uid: ListColumn[str] = ListColumn()
        self.row_of_name: dict[str, int] = {}
        self.gone = 0

    def append(self, name: str, uid: str, shape: int, job: int, podset: int) -> int:
        """Add a pending task and return its row; counts are the caller's business."""
        row = self.reserve(1)
        self.job_of_task.data[row] = job
        self.podset_of_task.data[row] = podset
        self.shape_of_task.data[row] = shape
        self.name.data.append(name)
        self.uid.data.append(uid)
        self.row_of_name[name] = row
        return row

    def forget(self, row: int) -> None:
        """Note that a task is gone: its name may be taken by another."""
        self.gone += 1
        name = self.name.data[row]
        if self.row_of_name.get(name) == row:
            del self.row_of_name[name]

    def live(self) -> NDArray[np.bool_]:
        """``(T,)`` False for the rows of tasks that are gone."""
        return np.asarray(self.state.data[: self.size] != GONE)

    def table(self) -> TaskTable:
        """Freeze."""
        size = self.size
        return TaskTable(
            name=self.name.frozen(),
            uid=self.uid.frozen(),
            job_of_task=self.job_of_task.frozen(size),
            podset_of_task=self.podset_of_task.frozen(size),
            shape_of_task=self.shape_of_task.frozen(size),
            state=self.state.frozen(size),
            node_of_task=self.node_of_task.frozen(size),
            nominated_node=self.nominated_node.frozen(size),
            order_priority=self.order_priority.frozen(size),
            created_s=self.created_s.frozen(size),
            label_set_of_task=self.label_set_of_task.frozen(size),
        )
