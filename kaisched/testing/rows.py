"""Jobs of any structure in a row store, from base units: the basis of builders."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from kaisched.cluster.rowstore import RowStore
from kaisched.core.axis import HOLDING_STATES, TaskState
from kaisched.core.constraints import Constraints
from kaisched.core.tables import SubGroup, TopologyConstraint

_UNCONSTRAINED: Final = Constraints()


@dataclass(frozen=True, slots=True)
class Group:
    """A node of a job's tree: a leaf counts pods, an inner group its children."""

    name: str
    minimum: int | None = None
    """Pods or children needed; by default all children of an inner group."""
    children: tuple[Group, ...] = ()
    topology: TopologyConstraint | None = None

    def leaves(self) -> list[Group]:
        """Return the pod sets below, or this one."""
        if not self.children:
            return [self]
        return [leaf for child in self.children for leaf in child.leaves()]


@dataclass(frozen=True, slots=True)
class Task:
    """A pod; ``request`` in base units by resource name."""

    name: str
    request: Mapping[str, int] = field(default_factory=dict)
    constraints: Constraints = _UNCONSTRAINED
    podset: str = "default"
    state: TaskState = TaskState.PENDING
    node: str = ""
    nominated: str = ""
    order_priority: int | None = None
    cards: Sequence[str] = ()
    """Names of the cards that a running pod has parts of; without any they are packed."""
    labels: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Job:
    """A pod group with its pods."""

    name: str
    queue: str
    tasks: Sequence[Task]
    priority: int = 50
    is_preemptible: bool = True
    created_s: float = 0.0
    started_s: float = math.nan
    root: Group = Group("default", 1)
    preemption_delay_s: float = 0.0
    last_evicted_s: float = math.nan
    staleness_grace_s: float = math.nan
    stale_since_s: float = math.nan
    succeeded: int = 0
    """Pods that succeeded, beside ``tasks``."""


def add_job(store: RowStore, job: Job, namespace: str = "default") -> int:
    """Add a job with pods in any state; return its row."""
    shapes = [store.intern_shape(task.request, task.constraints) for task in job.tasks]
    names = [f"{namespace}/{task.name}" for task in job.tasks]
    row = store.add_job(
        f"{namespace}/{job.name}",
        job.queue,
        priority=job.priority,
        is_preemptible=job.is_preemptible,
        created_s=job.created_s,
        tasks=list(zip(names, shapes, strict=True)),
    )
    rare = (job.preemption_delay_s, job.last_evicted_s, job.staleness_grace_s, job.stale_since_s)
    for column, number in enumerate((*rare, job.succeeded)):
        store.jobs.set_rare(row, column, number)
    podset_of_task = _structure(store, row, job)
    first = int(store.jobs.first_task.data[row])
    for task, (offset, podset) in zip(job.tasks, enumerate(podset_of_task), strict=True):
        at = first + offset
        store.tasks.podset_of_task.own()[at] = podset
        if task.order_priority is not None:
            store.tasks.order_priority.own()[at] = task.order_priority
        store.tasks.label_set_of_task.own()[at] = store.labels.intern(namespace, task.labels)
        if task.nominated:
            store.nominate(at, store.row_of_node(task.nominated))
        if task.state != TaskState.PENDING:
            node = store.row_of_node(task.node) if HOLDING_STATES[task.state] else None
            store.set_state(at, task.state, node, job.started_s)
            if task.cards:
                store.cards.name(at, tuple(task.cards))
    return row


def _structure(store: RowStore, row: int, job: Job) -> list[int]:
    """Create the pod sets and their tree; return each task's pod set."""
    podsets = store.podsets
    first = int(store.jobs.first_podset.data[row])
    number: dict[str, int] = {}
    for leaf in job.root.leaves():
        at = first if not number else podsets.append(leaf.name, row, 0)
        podsets.name.own()[at] = leaf.name
        podsets.minimum.own()[at] = 1 if leaf.minimum is None else leaf.minimum
        number[leaf.name] = at
    store.jobs.podset_count.own()[row] = len(number)
    if job.root.children or job.root.topology is not None:
        store.jobs.set_structure(row, _subgroup(job.root, number))
    return [number[task.podset] for task in job.tasks]


def _subgroup(group: Group, number: Mapping[str, int]) -> SubGroup:
    if not group.children:
        return SubGroup(group.name, number[group.name], 0, topology=group.topology)
    minimum = len(group.children) if group.minimum is None else group.minimum
    children = tuple(_subgroup(child, number) for child in group.children)
    return SubGroup(group.name, -1, minimum, children, group.topology)


def add_foreign(store: RowStore, task: Task, namespace: str = "default") -> int:
    """Add a pod of another scheduler on its node; return its row."""
    shape = store.intern_shape(task.request, task.constraints)
    store.settle()
    name = f"{namespace}/{task.name}"
    row = store.tasks.append(name, name, shape, -1, -1)
    store.tasks.label_set_of_task.own()[row] = store.labels.intern(namespace, task.labels)
    store.set_state(row, task.state, store.row_of_node(task.node))
    return row
