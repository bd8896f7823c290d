"""Sums over the tasks of a snapshot: what nodes have idle, what queues hold, how many pods run."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Final, TypeVar

import numpy as np

from kaisched.core.axis import (
    ACTIVE_STATES,
    ALLOCATED_STATES,
    HOLDING_STATES,
    Amounts,
    IntVec,
    RowVec,
    TaskState,
)
from kaisched.core.devices import World, charges
from kaisched.core.snapshot import Snapshot
from kaisched.core.tables import OPEN

T = TypeVar("T")

NOT_SUMMED: Final[IntVec] = np.zeros(0, np.int64)
"""A count of pods before it is summed."""
NOTHING_SUMMED: Final[Amounts] = np.zeros((0, 0), np.int64)
"""Amounts likewise."""
for _empty in (NOT_SUMMED, NOTHING_SUMMED):
    _empty.setflags(write=False)


def summed(now: Snapshot, last: Snapshot | None = None) -> Snapshot:
    """Return a snapshot with the sums over its tasks, in place of those that it has.

    Args:
        now: the snapshot.
        last: an earlier one of the same generation. What is equal there stays the same object, and
            the versions of nodes go on from there.

    """
    nodes, jobs, podsets, tasks = now.nodes, now.jobs, now.podsets, now.tasks
    state, node, job = tasks.state, tasks.node_of_task, tasks.job_of_task
    held = (HOLDING_STATES[state] & (node >= 0)).nonzero()[0]
    idle = nodes.allocatable - sum_of(now, held, node[held], len(nodes))
    leaving = held[state[held] == TaskState.RELEASING]
    releasing = sum_of(now, leaving, node[leaving], len(nodes))
    version: IntVec = np.zeros(len(nodes), np.int64)
    if last is not None:
        before = last.nodes
        is_new = (idle != before.idle) | (releasing != before.releasing)
        version = before.version + is_new.any(axis=0)

    is_ours = job >= 0
    active = (is_ours & ACTIVE_STATES[state]).nonzero()[0]
    pending = (is_ours & (state == TaskState.PENDING)).nonzero()[0]
    allocated, fixed = _held(now, (is_ours & ALLOCATED_STATES[state]).nonzero()[0])
    queue = jobs.queue_of_job[job[pending]]
    asked = charges_of(now, pending[queue >= 0], queue[queue >= 0])
    if now.queues.stop_of_queue.any():  # what waits in a queue on hold asks for nothing
        asked = asked * (now.queues.stop_of_queue == OPEN)
    if last is None:
        last = now
    return replace(
        now,
        nodes=_like(
            last.nodes, replace(nodes, idle=idle, releasing=releasing, version=version), _OF_NODES
        ),
        jobs=_like(
            last.jobs,
            replace(
                jobs,
                active=_count(job[active], len(jobs.name)),
                pending=_count(job[pending], len(jobs.name)),
            ),
            _OF_PODS,
        ),
        podsets=_like(
            last.podsets,
            replace(
                podsets,
                active=_count(tasks.podset_of_task[active], len(podsets.name)),
                pending=_count(tasks.podset_of_task[pending], len(podsets.name)),
            ),
            _OF_PODS,
        ),
        allocated=_equal(last.allocated, allocated),
        allocated_non_preemptible=_equal(last.allocated_non_preemptible, fixed),
        pending=_equal(last.pending, asked),
    )


def _held(now: Snapshot, tasks: RowVec) -> tuple[Amounts, Amounts]:
    """Return what queues hold with tasks, and what of it cannot be preempted."""
    job = now.tasks.job_of_task[tasks]
    queue = now.jobs.queue_of_job[job]
    if (queue < 0).any():
        tasks, job, queue = tasks[queue >= 0], job[queue >= 0], queue[queue >= 0]
    each = charges(now, tasks)
    is_fixed = ~now.jobs.is_preemptible[job]
    shape = len(now.axis), len(now.queues)
    allocated, fixed = np.zeros(shape, np.int64), np.zeros(shape, np.int64)
    _add(allocated, queue, each)
    if is_fixed.any():
        _add(fixed, queue[is_fixed], each[:, is_fixed])
    return allocated, fixed


def sum_of(world: World, tasks: RowVec, where: RowVec, count: int) -> Amounts:
    """``(R, count)`` sums of what tasks take of nodes, by the row in ``where``."""
    total = np.zeros((len(world.shapes.request), count), np.int64)
    if len(tasks):  # most cycles move nothing
        _add(total, where, world.shapes.request[:, world.tasks.shape_of_task[tasks]])
    return total


def charges_of(
    snapshot: Snapshot, tasks: RowVec, queue: RowVec, nodes: RowVec | None = None
) -> Amounts:
    """``(R, Q)`` sums of what tasks count in their queues, by the rows of these.

    They count where they are, or on other ``nodes``.
    """
    total = np.zeros((len(snapshot.axis), len(snapshot.queues)), np.int64)
    if len(tasks):
        _add(total, queue, charges(snapshot, tasks, nodes))
    return total


def _add(total: Amounts, where: RowVec, each: Amounts) -> None:
    for row, amounts in zip(total, each, strict=True):
        np.add.at(row, where, amounts)


def _count(rows: RowVec, size: int) -> IntVec:
    return np.bincount(rows, minlength=size)


_OF_NODES: Final = ("idle", "releasing", "version")
_OF_PODS: Final = ("active", "pending")


def _like(old: T, new: T, names: tuple[str, ...]) -> T:
    """Return a table with those of some columns that are equal in an older one, or that one."""
    for name in names:
        setattr(new, name, _equal(getattr(old, name), getattr(new, name)))
    if any(getattr(old, name) is not getattr(new, name) for name in names):
        return new
    is_same = all(getattr(old, it.name) is getattr(new, it.name) for it in fields(new))  # type: ignore[arg-type]
    return old if is_same else new


def _equal(old: IntVec, new: IntVec) -> IntVec:
    """Return an older column if it is equal, or else the new one, read-only from now on."""
    if old.shape == new.shape and (old == new).all():
        return old
    new.setflags(write=False)
    return new
