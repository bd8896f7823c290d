"""The snapshot: everything one cycle decides on, frozen, and what is divided of it.

Made by a snapshot source (the state store), read by the session. All arrays are unwritable. What
queues and nodes hold is summed up once, when the snapshot is made, so a cycle never sums tasks.
"""

from __future__ import annotations

from dataclasses import field
from typing import Final

import numpy as np

from kaisched.core.axis import (
    ALLOCATED_STATES,
    HOLDING_STATES,
    Amounts,
    BoolVec,
    ResourceAxis,
    RowVec,
    TaskState,
    record,
)
from kaisched.core.claims.table import ClaimTable
from kaisched.core.constraints import CORDON, KEEPS_AWAY, NodeStatics, Taint, Toleration, tolerates
from kaisched.core.devices import World
from kaisched.core.tables import (
    NO_DISRUPTION_BUDGETS,
    DisruptionBudgets,
    JobTable,
    LabelSets,
    NodeTable,
    PodSetTable,
    QueueTable,
    ShapeTable,
    TaskTable,
)

_GONE: Final = int(TaskState.GONE)


# -- what is divided -------------------------------------------------------------------------------


def divided(world: World) -> Amounts:
    """``(R,)`` what the queues divide.

    Of a node that takes new pods: what pods of nobody's queue leave. Of all others, those included
    that are gone: what pods of the queues hold there.
    """
    tasks, nodes = world.tasks, world.nodes
    state, node = tasks.state, tasks.node_of_task
    is_ours = _has_queue(world)
    is_open = _is_open(world, is_ours & (state != _GONE))
    usable: Amounts = (nodes.allocatable * is_open).sum(axis=1)
    strangers = (HOLDING_STATES.take(state) & ~is_ours & (node >= 0)).nonzero()[0]
    usable -= _held(world, strangers, is_open)
    np.maximum(usable, 0, out=usable)
    # Column -1 stands for nodes that are gone.
    is_shut = ~np.append(is_open, np.zeros((len(usable), 1), np.bool_), axis=1)
    is_there = np.logical_or.reduce(is_shut, axis=0).take(node)
    ours = (ALLOCATED_STATES.take(state) & is_ours & is_there).nonzero()[0]
    usable += _held(world, ours, is_shut)
    usable = world.axis.charged(usable)
    usable.setflags(write=False)
    return usable


def _held(world: World, tasks: RowVec, where: BoolVec) -> Amounts:
    """``(R,)`` what tasks hold on the nodes, for each resource, that ``(R, N)`` says."""
    if not tasks.size:
        return np.zeros(len(world.axis), np.int64)
    request = world.shapes.request.take(world.tasks.shape_of_task.take(tasks), axis=1)
    held: Amounts = (request * where[:, world.tasks.node_of_task.take(tasks)]).sum(axis=1)
    return held


def _has_queue(world: World) -> BoolVec:
    """``(T,)`` whether tasks are of a job whose queue is there."""
    job = world.tasks.job_of_task
    # The last cell stands for tasks without a job.
    has_queue = np.append(world.jobs.queue_of_job >= 0, False)
    found: BoolVec = has_queue.take(job)
    return found


def _is_open(world: World, living: BoolVec) -> BoolVec:
    """``(R, N)`` whether nodes take new pods, for each resource that these ask for.

    A node with taints does, if a pod of a queue tolerates all of them and asks for the resource.
    While no pod asks for it at all, only a cordon counts: history counts what nobody wants.
    """
    statics, request = world.nodes.statics, world.shapes.request
    is_up = statics.is_ready & ~statics.has_pressure
    is_open = np.repeat(is_up[None], len(request), axis=0)
    number_of_node, barriers = _barriers(statics)
    if not any(barriers):
        return is_open
    shapes = np.bincount(world.tasks.shape_of_task[living]).nonzero()[0]
    asks = request[:, shapes] > 0
    asks_of: dict[tuple[Toleration, ...], BoolVec] = {}
    for at, shape in enumerate(shapes.tolist()):
        if own := world.shapes.constraints[shape].tolerations:
            asks_of[own] = asks[:, at] | asks_of.get(own, False)
    asked = np.logical_or.reduce(asks, axis=1)
    for number, taints in enumerate(barriers):
        lets_in = [
            some
            for own, some in asks_of.items()
            if all(any(tolerates(it, taint) for it in own) for taint in taints)
        ]
        if taints:
            met = np.logical_or.reduce([~asked & (CORDON not in taints), *lets_in])
            is_open[:, number_of_node == number] &= met[:, None]
    return is_open


def _barriers(statics: NodeStatics) -> tuple[RowVec, list[tuple[Taint, ...]]]:
    """Return (``(N,)`` numbers of sets of taints that keep pods away; the sets by number)."""
    column, taint_sets = statics.taint_sets
    count = len(taint_sets)
    kept = [tuple(it for it in taints if it.effect in KEEPS_AWAY) for taints in taint_sets]
    numbers: RowVec = column + count * statics.is_unschedulable
    return numbers, [*kept, *((*taints, CORDON) for taints in kept)]


# -- the snapshot ----------------------------------------------------------------------------------


@record
class Snapshot:
    """One frozen view of a shard.

    ``(R, Q)`` columns count tasks at the *leaf* they belong to, inner queues zero; the session
    rolls them up.
    """

    axis: ResourceAxis
    nodes: NodeTable
    queues: QueueTable
    jobs: JobTable
    podsets: PodSetTable
    tasks: TaskTable
    shapes: ShapeTable
    allocated: Amounts
    """Tasks in an allocated state."""
    allocated_non_preemptible: Amounts
    pending: Amounts
    """Requests of pending tasks that are not gated; requested = allocated + pending."""
    generation: int
    """Row numbers keep their meaning within one generation."""
    revision: int
    """Grows with every event that the store takes in."""
    label_sets: LabelSets = field(default_factory=LabelSets)
    evictions_s: tuple[float, ...] = ()
    """When pods were evicted by this shard, in the last hour before the newest of them."""
    disruption_budgets: DisruptionBudgets = NO_DISRUPTION_BUDGETS
    overdrawn: Amounts | None = None
    """``(R, Q)`` what the project of each leaf holds in other node pools beyond its quotas there;
    None if no project does."""
    claims: ClaimTable | None = None
    """Devices and claims on them; None while no pod has a claim."""
    _total: Amounts | None = field(default=None, init=False)

    @property
    def total(self) -> Amounts:
        """``(R,)`` what is divided, worked out when it is first read."""
        if self._total is None:
            self._total = divided(self)  # type: ignore[misc] # once, to one value
        return self._total
