"""The rows of jobs, pod sets, tasks, shapes and label sets: append-only within a generation."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from kaisched.cluster.columns import Column, ListColumn, MapColumn
from kaisched.core.axis import GPU, GPU_UNIT, PODS, IntVec, ResourceAxis, RowVec, TaskState
from kaisched.core.constraints import Constraints
from kaisched.core.devices import DeviceDemand, memory_charges
from kaisched.core.sums import NOT_SUMMED
from kaisched.core.tables import (
    JobTable,
    LabelSets,
    Metadata,
    PodSetTable,
    ShapeTable,
    SubGroup,
    TaskTable,
    is_same,
)
from kaisched.core.titles import TopOwner

LOWEST_PRIORITY: Final = -(2**63 - 1)
"""Order priority of a task that names none; its negative still is an int64."""
GONE: Final = int(TaskState.GONE)
RARE: Final = (0.0, math.nan, math.nan, math.nan, 0.0, -1.0, 0.0)
"""The rare columns of a job that says nothing of the sort."""


class Rows:
    """What all growing tables have in common: a size, and columns that grow together."""

    size: int
    capacity: int

    def _start(self) -> None:
        """Begin with the columns that are set by now; each is named as in the frozen table."""
        self.size = 0
        self._columns = {name: it for name, it in vars(self).items() if isinstance(it, Column)}
        self._find_capacity()

    def _find_capacity(self) -> None:
        self.capacity = min(len(column.data) for column in self._columns.values())

    def reserve(self, more: int) -> int:
        """Return the first of ``more`` new rows, whose cells hold their column's fill."""
        row = self.size
        self.size = row + more
        if self.size > self.capacity:
            for column in self._columns.values():
                column.grow(self.size)
            self._find_capacity()
        return row

    def keep_columns(self, rows: RowVec) -> None:
        """Keep only these rows, in this order, in every array column."""
        for column in self._columns.values():
            column.keep(rows)
        self.size = len(rows)
        self._find_capacity()

    def frozen_columns(self) -> dict[str, Any]:
        """Return what a snapshot gets of the array columns, by name."""
        return {name: column.frozen(self.size) for name, column in self._columns.items()}


class JobRows(Rows):
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
        self.last_start_s = Column(np.float64, np.nan)
        self.rare = Column(np.float64, RARE)
        self.metadata_version = Column(np.int64, 0)
        self._start()
        self.name: ListColumn[str] = ListColumn()
        self.queue_name: list[str] = []
        self.metadata: ListColumn[Metadata] = ListColumn()
        self.top_owner: ListColumn[TopOwner | None] = ListColumn()
        self.tasks: ListColumn[range | tuple[int, ...]] = ListColumn()
        self.is_dead: list[bool] = []
        self.dead = 0
        self.structure: MapColumn[SubGroup] = MapColumn()
        self.faults: MapColumn[str] = MapColumn()
        self.row_of_name: dict[str, int] = {}

    def bury(self, row: int) -> None:
        """Mark a row as dead: kept until the next compaction, found by name no more."""
        if not self.is_dead[row]:
            self.is_dead[row] = True
            self.dead += 1
            self.faults.set(row, None)
            name = self.name.data[row]
            if self.row_of_name.get(name) == row:
                del self.row_of_name[name]

    def set_metadata(self, row: int, metadata: Metadata) -> None:
        """Put another object's labels and annotations in the place of those of a job."""
        old = self.metadata.data[row]
        if old is metadata:
            return
        if is_same(old, metadata):
            self.metadata.data[row] = metadata  # says the same: no table is another
        else:
            self.metadata.own()[row] = metadata
            self.metadata_version.own()[row] += 1

    def set_top_owner(self, row: int, owner: TopOwner | None) -> None:
        """Set the top owner of a job."""
        if self.top_owner.data[row] != owner:
            self.top_owner.own()[row] = owner

    def keep(self, kept: RowVec, job_map: RowVec, podset_map: RowVec, task_map: RowVec) -> None:
        """Keep only these rows; each map has the new row of each old one, -1 for none."""
        rows, old_tasks = kept.tolist(), self.tasks.data
        self.keep_columns(kept)
        renumber(self.first_podset.data, self.size, podset_map)
        self.name.keep(kept)
        self.metadata.keep(kept)
        self.top_owner.keep(kept)
        self.queue_name = [self.queue_name[row] for row in rows]
        self.is_dead = [False] * len(rows)
        self.dead = 0
        self.row_of_name = {name: row for row, name in enumerate(self.name.data)}
        trees = self.structure.data.items()
        self.structure.replace(
            {
                int(job_map[job]): _renumbered_tree(tree, podset_map)
                for job, tree in trees
                if job_map[job] >= 0
            }
        )
        faults = ((int(job_map[job]), text) for job, text in self.faults.data.items())
        self.faults.replace({job: text for job, text in faults if job >= 0})
        self.tasks.replace([_renumbered(old_tasks[row], task_map) for row in rows])
        first = [tasks[0] if tasks else -1 for tasks in self.tasks.data]
        self.first_task.data[: len(rows)] = first

    def table(self) -> JobTable:
        """Freeze, without counts of pods."""
        return JobTable(
            **self.frozen_columns(),
            name=self.name.frozen(),
            active=NOT_SUMMED,
            pending=NOT_SUMMED,
            structure=self.structure.frozen(),
            tasks=self.tasks.frozen(),
            queue_name=self.queue_name,
            metadata=self.metadata.frozen(),
            top_owner=self.top_owner.frozen(),
            faults=self.faults.frozen(),
        )


class PodSetRows(Rows):
    """Leaf subgroups, see :class:`~kaisched.core.tables.PodSetTable` for the columns."""

    def __init__(self) -> None:
        """Make an empty table."""
        self.job_of_podset = Column(np.int64, -1)
        self.minimum = Column(np.int64, 1)
        self._start()
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

    def keep(self, kept: RowVec, job_map: RowVec) -> None:
        """Keep only these rows."""
        self.keep_columns(kept)
        renumber(self.job_of_podset.data, self.size, job_map)
        self.dropped = set()
        self.name.keep(kept)

    def table(self) -> PodSetTable:
        """Freeze, without counts of pods."""
        columns = self.frozen_columns()
        return PodSetTable(self.name.frozen(), **columns, active=NOT_SUMMED, pending=NOT_SUMMED)


class TaskRows(Rows):
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
        self._start()
        self.name: ListColumn[str] = ListColumn()
        self.uid: ListColumn[str] = ListColumn()
        self.row_of_name: dict[str, int] = {}
        self.gone = 0

    def append(self, name: str, uid: str, shape: int, job: int, podset: int) -> int:
        """Add a pending task and return its row."""
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
        """Freeze."""
        return TaskTable(self.name.frozen(), self.uid.frozen(), **self.frozen_columns())


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


Asked: TypeAlias = tuple[tuple[str, int], ...]
"""Amounts in base units by resource name, less pods, sorted."""


class ShapeRows:
    """The shapes there are. What they ask for is kept by name, because the axis may grow."""

    def __init__(self, axis: ResourceAxis) -> None:
        """Make an empty table."""
        self._number: dict[tuple[Asked, Constraints], int] = {}
        self._asked: list[Asked] = []
        self.constraints: ListColumn[Constraints] = ListColumn()
        self.card_mib = (0, 0)
        """MiB of the smallest and of the largest card; 0 for none whose size is known."""
        self.are_pinned = False
        """Somebody outside the store keeps numbers of shapes, so none may change."""
        self._table: ShapeTable | None = None
        self.count_by(axis)

    def __len__(self) -> int:
        return len(self._asked)

    def find(self, request: Mapping[str, int], constraints: Constraints) -> int:
        """Return the number of a shape, -1 if it is new."""
        return self._number.get((tuple(sorted(request.items())), constraints), -1)

    def add(self, request: Mapping[str, int], constraints: Constraints) -> int:
        """Add a new shape; all names of ``request`` must be on the axis."""
        shape = len(self)
        asked = tuple(sorted(request.items()))
        self._number[asked, constraints] = shape
        self._asked.append(asked)
        self.constraints.data.append(constraints)
        self._count(shape)
        self._table = None
        return shape

    def count_by(self, axis: ResourceAxis) -> None:
        """Count all shapes anew, by an axis that has all their resources."""
        self._axis = axis
        nothing = (0,) * len(axis)
        self.request, self._charge = Column(np.int64, nothing), Column(np.int64, nothing)
        self._is_charge_other = False
        self.with_cards: list[int] = []
        """Shapes whose tasks are on open cards: no shape as long as no pod shares."""
        self.by_card: dict[int, DeviceDemand] = {}
        """Shapes that count differently on different nodes: those that ask for memory, where cards
        differ in size."""
        for shape in range(len(self)):
            self._count(shape)
        self._table = None

    def _count(self, shape: int) -> None:
        """Write what a shape takes of its node and what it counts in its queue."""
        constraints = self.constraints.data[shape]
        request = self._axis.vector(dict(self._asked[shape]))
        request[PODS] = 1
        if (demand := constraints.devices) is not None and demand.has_cards:
            self.with_cards.append(shape)
            if demand.memory_mib and self.card_mib[0] != self.card_mib[1]:
                self.by_card[shape] = demand
            request[GPU] += demand.least_milli(self.card_mib[1])
        charge = self._charge_of(request, constraints)
        self._is_charge_other |= charge is not request
        for column, amounts in ((self.request, request), (self._charge, charge)):
            column.grow(shape + 1)
            column.data[shape] = amounts

    def resize_cards(self, least_mib: int, most_mib: int) -> bool:
        """Take note of the sizes of cards; return whether amounts have changed."""
        old, self.card_mib = self.card_mib, (least_mib, most_mib)
        demands = (self.constraints.data[shape].devices for shape in self.with_cards)
        if old == self.card_mib or not any(it and it.memory_mib for it in demands):
            return False
        self.count_by(self._axis)
        return True

    def keep(self, rows: RowVec, label_map: RowVec) -> None:
        """Keep only these shapes, whose label sets have new numbers."""
        kept = [self.constraints.data[row] for row in rows.tolist()]
        kept = [replace(old, label_set=int(label_map[old.label_set])) for old in kept]
        self.constraints.replace(kept)
        self._asked = [self._asked[row] for row in rows.tolist()]
        pairs = zip(self._asked, kept, strict=True)
        self._number = {pair: number for number, pair in enumerate(pairs)}
        self.count_by(self._axis)

    def pin(self) -> None:
        """Never reuse a number: it is known outside the store."""
        self.are_pinned = True

    def charge_for(self, request: Mapping[str, int], constraints: Constraints) -> IntVec:
        """``(R,)`` what a task of no shape here counts in its queue, of resources on the axis."""
        on_axis = {name: amount for name, amount in request.items() if name in self._axis.position}
        vector = self._axis.vector(on_axis)
        if constraints.devices is not None and constraints.devices.has_cards:
            vector[GPU] += constraints.devices.least_milli(self.card_mib[1])
        return self._charge_of(vector, constraints)

    def _charge_of(self, request: IntVec, constraints: Constraints) -> IntVec:
        """``(R,)`` what a task counts in its queue that takes so much of its node."""
        charge = self._axis.charged(request)
        if constraints.claimed_milli:
            charge = charge.copy()
            charge[GPU] += constraints.claimed_milli
        if (demand := constraints.devices) is not None:
            charge = charge.copy()
            least, most = self.card_mib
            charge[GPU] += demand.milli_gpus(least) - demand.least_milli(most)
            charge[GPU] += GPU_UNIT * demand.legacy_slices // self._axis.mig_slices_of_gpu
        return charge

    def asked_by(self, shape: int) -> dict[str, int]:
        """Return what a shape asks for, in base units by resource name, less pods."""
        return dict(self._asked[shape])

    def table(self) -> ShapeTable:
        """Freeze; the same object while no shape was added."""
        if self._table is None:
            request, charge = self.request.frozen(len(self)).T, self._charge.frozen(len(self)).T
            request, charge = np.ascontiguousarray(request), np.ascontiguousarray(charge)
            request.setflags(write=False)
            charge.setflags(write=False)
            by_card = [self.by_card.get(shape) for shape in range(len(self))]
            self._table = ShapeTable(
                request=request,
                charge=charge if self._is_charge_other else request,
                constraints=self.constraints.frozen(),
                by_card=memory_charges(by_card, *self.card_mib) if self.by_card else None,
            )
        return self._table


class LabelRows:
    """The (namespace, labels) pairs there are."""

    def __init__(self) -> None:
        """Make an empty table."""
        self._number: dict[tuple[str, frozenset[tuple[str, str]]], int] = {}
        self.namespace: ListColumn[str] = ListColumn()
        self.labels: ListColumn[Mapping[str, str]] = ListColumn()

    def intern(self, namespace: str, labels: Mapping[str, str]) -> int:
        """Return the number of a label set."""
        key = (namespace, frozenset(labels.items()))
        number = self._number.setdefault(key, len(self._number))
        if number == len(self.labels.data):
            self.namespace.data.append(namespace)
            self.labels.data.append(dict(labels))
        return number

    def keep(self, rows: RowVec) -> None:
        """Keep only these label sets."""
        self.namespace.keep(rows)
        self.labels.keep(rows)
        pairs = zip(self.namespace.data, self.labels.data, strict=True)
        self._number = {
            (namespace, frozenset(labels.items())): number
            for number, (namespace, labels) in enumerate(pairs)
        }

    def table(self) -> LabelSets:
        """Freeze."""
        return LabelSets(namespace=self.namespace.frozen(), labels=self.labels.frozen())
