"""The rows of jobs, pod sets and tasks: append-only within a generation, see columns for why.

These classes know their columns and nothing of each other; what an event means for all of them at
once is the business of :mod:`kaisched.cluster.accounts`.
"""

from __future__ import annotations

import math
from dataclasses import replace
from types import MappingProxyType
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from kaisched.cluster.columns import Column, ListColumn
from kaisched.core.axis import RowVec, TaskState
from kaisched.core.tables import (
    NO_METADATA,
    JobTable,
    Metadata,
    PodSetTable,
    SubGroup,
    TaskTable,
    is_same,
)

LOWEST_PRIORITY: Final = -(2**63 - 1)
"""Order priority of a task that names none; its negative still is an int64."""
GONE: Final = int(TaskState.GONE)
RARE: Final = (0.0, math.nan, math.nan, math.nan, 0.0, -1.0)
"""The rare columns of a job that says nothing of the sort."""


class Table:
    """What all growing tables have in common: a size, and columns that grow together."""

    columns: tuple[Column, ...]
    """In the order of the fields of the table that snapshots get."""
    size: int
    capacity: int
    _views: list[NDArray[Any]]

    def _start(self, *columns: Column) -> None:
        self.columns = columns
        self.size = 0
        self.capacity = len(columns[0].data)
        self._views = []
        self._seen = -1

    def reserve(self, more: int) -> int:
        """Return the first of ``more`` new rows, whose cells hold their column's fill."""
        row = self.size
        self.size = row + more
        if self.size > self.capacity:
            for column in self.columns:
                column.grow(self.size)
            self.capacity = min(len(column.data) for column in self.columns)
        return row

    def refresh(self) -> bool:
        """Bring what snapshots get of the columns up to date; return whether anything changed."""
        size = self.size
        if size == self._seen:
            for column in self.columns:  # a generator in any() takes twice as long
                if column.view is None:
                    break
            else:
                return False
        self._seen = size
        self._views = [
            view if (view := column.view) is not None and len(view) == size else column.frozen(size)
            for column in self.columns
        ]
        return True

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
        self.active = Column(np.int64, 0, is_hot=True)
        self.pending = Column(np.int64, 0, is_hot=True)
        self.last_start_s = Column(np.float64, np.nan, is_hot=True)
        self.rare = Column(np.float64, RARE)
        self.metadata_version = Column(np.int64, 0, is_hot=True)
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
            self.rare,
            self.metadata_version,
        )
        self.name: ListColumn[str] = ListColumn()
        self.queue_name: list[str] = []
        self.metadata: ListColumn[Metadata] = ListColumn()
        self.tasks: ListColumn[range | tuple[int, ...]] = ListColumn()
        self.is_dead: list[bool] = []
        self.dead = 0
        self.structure: dict[int, SubGroup] = {}
        self._shown = MappingProxyType(self.structure)
        """The same for those who may not change it."""
        self._faults: dict[int, str] = {}
        self._shown_faults = MappingProxyType(self._faults)
        self.row_of_name: dict[str, int] = {}
        self._table: JobTable | None = None

    def append(
        self,
        name: str,
        queue_name: str,
        queue: int,
        *,
        priority: int,
        is_preemptible: bool,
        created_s: float,
        metadata: Metadata = NO_METADATA,
    ) -> int:
        """Add a job without tasks and return its row."""
        row = self.reserve(1)
        self.queue_of_job.cells[row] = queue
        self.priority.cells[row] = priority
        self.is_preemptible.cells[row] = is_preemptible
        self.created_s.cells[row] = created_s
        self.name.data.append(name)
        self.queue_name.append(queue_name)
        self.metadata.data.append(metadata)
        self.tasks.data.append(())
        self.is_dead.append(False)
        self.row_of_name[name] = row
        return row

    def bury(self, row: int) -> None:
        """Mark a row as dead: kept until the next compaction, found by name no more."""
        if not self.is_dead[row]:
            self.is_dead[row] = True
            self.dead += 1
            self.set_fault(row, "")
            name = self.name.data[row]
            if self.row_of_name.get(name) == row:
                del self.row_of_name[name]

    def set_rare(self, row: int, column: int, number: float) -> None:
        """Set a cell of ``rare``, see :class:`~kaisched.core.tables.JobTable`; NaN is NaN."""
        old = self.rare.cells[row, column]
        if old != number and not (math.isnan(old) and math.isnan(number)):
            self.rare.edit()[row, column] = number

    def set_metadata(self, row: int, metadata: Metadata) -> None:
        """Put another object's labels and annotations in the place of those of a job."""
        old = self.metadata.data[row]
        if old is metadata:
            return
        if is_same(old, metadata):
            self.metadata.data[row] = metadata  # says the same, and lets the old object go
        else:
            self.metadata.own()[row] = metadata
            self.metadata_version.edit()[row] += 1

    def set_structure(self, row: int, tree: SubGroup | None) -> None:
        """Set or drop the tree of subgroups of a job."""
        if self._table is not None and self._shown is self._table.structure:
            self._replace_structure(dict(self.structure))
        if tree is None:
            self.structure.pop(row, None)
        else:
            self.structure[row] = tree

    def _replace_structure(self, structure: dict[int, SubGroup]) -> None:
        self.structure, self._shown = structure, MappingProxyType(structure)

    def set_fault(self, row: int, text: str) -> None:
        """Say what is wrong with the objects of a job; nothing for an empty text."""
        if self._faults.get(row, "") == text:
            return
        if self._table is not None and self._shown_faults is self._table.faults:
            self._replace_faults(dict(self._faults))
        self._faults[row] = text
        if not text:
            del self._faults[row]

    def _replace_faults(self, faults: dict[int, str]) -> None:
        self._faults, self._shown_faults = faults, MappingProxyType(faults)

    def keep(self, kept: RowVec, job_map: RowVec, podset_map: RowVec, task_map: RowVec) -> None:
        """Keep only these rows; each map has the new row of each old one, -1 for none."""
        rows, old_tasks = kept.tolist(), self.tasks.data
        self.keep_columns(kept)
        renumber(self.first_podset.data, self.size, podset_map)
        self.name.keep(kept)
        self.metadata.keep(kept)
        self.queue_name = [self.queue_name[row] for row in rows]
        self.is_dead = [False] * len(rows)
        self.dead = 0
        self.row_of_name = {name: row for row, name in enumerate(self.name.data)}
        self._replace_structure(
            {
                int(job_map[job]): _renumbered_tree(tree, podset_map)
                for job, tree in self.structure.items()
                if job_map[job] >= 0
            }
        )
        faults = ((int(job_map[job]), text) for job, text in self._faults.items())
        self._replace_faults({job: text for job, text in faults if job >= 0})
        self.tasks.replace([_renumbered(old_tasks[row], task_map) for row in rows])
        first = [tasks[0] if tasks else -1 for tasks in self.tasks.data]
        self.first_task.data[: len(rows)] = first

    def table(self) -> JobTable:
        """Freeze; the same object while nothing changed."""
        table, tasks, structure = self._table, self.tasks.frozen(), self._shown
        metadata = self.metadata.frozen()
        if (
            self.refresh()
            or table is None
            or table.tasks is not tasks
            or table.structure is not structure
            or table.metadata is not metadata
            or table.faults is not self._shown_faults
        ):
            queue, priority, is_preemptible, created_s, refusal, first_task, *others = self._views
            first_podset, podset_count, shape, active, pending, last_start_s, *rest = others
            rare, metadata_version = rest
            self._table = table = JobTable(
                self.name.frozen(),
                queue,
                priority,
                is_preemptible,
                created_s,
                refusal,
                first_task,
                first_podset,
                podset_count,
                shape,
                active,
                pending,
                last_start_s,
                rare,
                metadata_version,
                structure,
                tasks,
                self.queue_name,
                metadata,
                self._shown_faults,
            )
        return table


class PodSetRows(Table):
    """Leaf subgroups, see :class:`~kaisched.core.tables.PodSetTable` for the columns."""

    def __init__(self) -> None:
        """Make an empty table."""
        self.job_of_podset = Column(np.int64, -1)
        self.minimum = Column(np.int64, 1)
        self.active = Column(np.int64, 0, is_hot=True)
        self.pending = Column(np.int64, 0, is_hot=True)
        self._start(self.job_of_podset, self.minimum, self.active, self.pending)
        self.name: ListColumn[str] = ListColumn()
        self.dropped: set[int] = set()
        """Rows of living jobs that were divided anew; empty of tasks."""
        self._table: PodSetTable | None = None

    def append(self, name: str, job: int, minimum: int) -> int:
        """Add a pod set without tasks and return its row."""
        row = self.reserve(1)
        self.job_of_podset.cells[row] = job
        self.minimum.cells[row] = minimum
        self.name.data.append(name)
        return row

    def keep(self, kept: RowVec, job_map: RowVec) -> None:
        """Keep only these rows."""
        self.keep_columns(kept)
        renumber(self.job_of_podset.data, self.size, job_map)
        self.dropped = set()
        self.name.keep(kept)

    def table(self) -> PodSetTable:
        """Freeze; the same object while nothing changed."""
        table, name = self._table, self.name.frozen()
        if self.refresh() or table is None or table.name is not name:
            self._table = table = PodSetTable(name, *self._views)
        return table


class TaskRows(Table):
    """Tasks, see :class:`~kaisched.core.tables.TaskTable` for the columns."""

    def __init__(self) -> None:
        """Make an empty table."""
        self.job_of_task = Column(np.int64, -1)
        self.podset_of_task = Column(np.int64, -1)
        self.shape_of_task = Column(np.int64, -1)
        self.state = Column(np.int8, 0, is_hot=True)
        self.node_of_task = Column(np.int64, -1, is_hot=True)
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
        self._table: TaskTable | None = None

    def append(self, name: str, uid: str, shape: int, job: int, podset: int) -> int:
        """Add a pending task and return its row; counts are the caller's business."""
        row = self.reserve(1)
        self.job_of_task.cells[row] = job
        self.podset_of_task.cells[row] = podset
        self.shape_of_task.cells[row] = shape
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

    def keep(self, kept: RowVec, job_map: RowVec, podset_map: RowVec) -> None:
        """Keep only these rows."""
        self.keep_columns(kept)
        renumber(self.job_of_task.data, self.size, job_map)
        renumber(self.podset_of_task.data, self.size, podset_map)
        self.name.keep(kept)
        self.uid.keep(kept)
        self.row_of_name = {name: row for row, name in enumerate(self.name.data)}
        self.gone = 0

    def table(self) -> TaskTable:
        """Freeze; the same object while nothing changed."""
        table = self._table
        if self.refresh() or table is None:
            self._table = table = TaskTable(self.name.frozen(), self.uid.frozen(), *self._views)
        return table


def renumber(column: RowVec, size: int, mapping: RowVec) -> None:
    """Put the new row of each old one into a column of rows; the last one stands for "none"."""
    column[:size] = mapping[column[:size]]


def _renumbered(tasks: range | tuple[int, ...], mapping: RowVec) -> range | tuple[int, ...]:
    new = [row for row in mapping[list(tasks)].tolist() if row >= 0] if tasks else []
    if new and new[-1] - new[0] == len(new) - 1 and new == sorted(new):
        return range(new[0], new[-1] + 1)
    return tuple(new)


def _renumbered_tree(tree: SubGroup, mapping: RowVec) -> SubGroup:
    children = tuple(_renumbered_tree(child, mapping) for child in tree.children)
    return replace(tree, podset=int(mapping[tree.podset]), children=children)
