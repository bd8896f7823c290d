"""Entitlement of each queue over time, whatever the policy decided.

The entitlement is the scheduler's own division (docs/explanation/fairness.md), of GPU time instead
of GPUs. All GPU time up to an instant is divided by quota, priority and weight. A queue gets at
most the time that its work submitted until then would have taken without waiting. What a queue
leaves goes to the others by weight.

Time cannot be moved: late work must be computed late, and time without any work belongs to no
queue. So after each instant, entitlements beyond the work submitted until then must fit into the
remaining time. For work that can be divided at will this suffices: some schedule gives every queue
its entitlement.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from kaisched.core.axis import GPU, GPU_UNIT, FloatVec, IntVec
from kaisched.core.fairshare import Entitlements, TreePlan, fair_share, plan_levels
from kaisched.core.tables import QueueTable
from kaisched.core.tree import roll_up
from kaisched.sim.recorder import Steps, edges_between
from kaisched.sim.ticks import FOREVER
from kaisched.sim.workload import Gpus, Workload, plain
from kaisched.units import UNLIMITED

_MOST: Final = 1 << 44
"""The division takes amounts up to 2**50; longer times use larger units."""
_UNIT: Final = np.array([1], np.int64)
_MOST_INSTANTS: Final = 500
"""Instants after which the rest must fit. The error is at most the distance between two."""
_CLOSE: Final = 1e-4
"""Tolerance for the largest total that fits, as a part of the whole total."""

Divide = Callable[[float, FloatVec], FloatVec]
"""Divides a total among leaves with requests, all in GPU ticks."""


@dataclass(frozen=True, slots=True)
class Course:
    """Work and GPU time over ``n`` instants, the last of which is the end."""

    asked: FloatVec
    """``(V, n)`` GPU ticks of work submitted up to each instant, run without waiting."""
    rest: FloatVec
    """``(n,)`` GPU ticks that remain from each instant on."""

    def overflow(self, share: FloatVec) -> tuple[float, int]:
        """Return how much shares ``(V,)`` exceed the course at worst, and after which instant."""
        late = np.maximum(share[:, None] - self.asked, 0.0).sum(axis=0) - self.rest
        at = int(np.argmax(late))
        return float(late[at]), at


def wanted(workload: Workload, endless: Sequence[tuple[int, int]], capacity: Steps) -> list[Steps]:
    """Return the GPUs that each queue would hold if no job ever waited.

    ``endless`` are (queue, first tick) of endless backlogs, whose queues want all GPUs.
    """
    changes: list[dict[int, Gpus]] = [{} for _ in workload.queue_names]
    jobs = zip(workload.arrival, workload.ticks, workload.gpus, workload.queue, strict=True)
    for arrival, ticks, gpus, queue in jobs:
        mine = changes[queue]
        mine[arrival] = mine.get(arrival, 0) + gpus
        if ticks < FOREVER:
            mine[arrival + ticks] = mine.get(arrival + ticks, 0) - gpus
    lines = [_line(mine) for mine in changes]
    for queue, first in endless:
        whole = Steps()
        whole.set(first, max(capacity.values, default=0))
        lines[queue] = whole
    return lines


def _line(changes: dict[int, Gpus]) -> Steps:
    line = Steps()
    level: Gpus = 0
    for tick in sorted(changes):
        level += changes[tick]
        line.set(tick, plain(level))
    return line


def entitled(
    queues: QueueTable,
    leaves: Sequence[int],
    work: Sequence[Steps],
    capacity: Steps,
    at: IntVec,
) -> FloatVec:
    """Return GPU ticks ``(V, T)`` that each leaf was entitled to up to each tick.

    Args:
        queues: all queues.
        leaves: row of each of V leaves.
        work: what each leaf would hold if no job waited.
        capacity: GPUs over time.
        at: ``(T,)`` ticks.

    """
    instants = np.unique(np.concatenate((edges_between(0, int(at.max()), _MOST_INSTANTS), at)))
    there = capacity.integral(instants)
    asked = np.array([line.integral(instants) for line in work]).reshape(len(work), len(instants))
    limit = queues.limit[GPU, leaves]
    most = np.where(limit == UNLIMITED, max(capacity.values, default=0), limit / GPU_UNIT)
    rank = np.arange(len(queues), dtype=np.int64)
    plan = plan_levels(queues.tree, queues.priority, rank, 1)
    answer = np.zeros((len(leaves), len(at)))
    for column, end in enumerate(np.searchsorted(instants, at).tolist()):
        if instants[end] > 0 and there[end] > 0:
            upto = slice(end + 1)
            course = Course(asked[:, upto], there[end] - there[upto])
            alone = np.minimum(np.outer(most, instants[end] - instants[upto]), course.rest)
            request = (course.asked + alone).min(axis=1)
            divide = _division(queues, leaves, plan, float(there[end]), float(instants[end]))
            answer[:, column] = fitted(divide, course, request, float(there[end]))
    return answer


def fitted(divide: Divide, course: Course, request: FloatVec, total: float) -> FloatVec:
    """Return shares ``(V,)`` of a total that fit into the course of time.

    The total is divided as if it grew from nothing. At the first instant after which no more fits,
    the shares of leaves that would have to compute more after it are fixed; the rest grow on.

    Args:
        divide: the division.
        course: work submitted by each instant, and the time that remains.
        request: ``(V,)`` the most that each leaf could take.
        total: GPU ticks in all.

    """
    share = divide(total, request)
    slack = _CLOSE * total
    if course.overflow(share)[0] <= slack:
        return share
    # Quotas are given even if they do not fit: their excess is accepted.
    slack = max(slack, course.overflow(divide(0.0, request))[0])
    known = 0.0
    for _ in range(len(request)):
        if course.overflow(share)[0] <= slack:
            return share
        known, at = _largest(divide, course, request, (known, total), slack)
        share = divide(known, request)
        request = np.where(share >= course.asked[:, at] - slack, share, request)
        share = divide(total, request)
    return divide(known, request)


def _largest(
    divide: Divide,
    course: Course,
    request: FloatVec,
    between: tuple[float, float],
    slack: float,
) -> tuple[float, int]:
    """Return the largest total whose shares fit, and the instant after which more do not fit.

    It lies between the two totals given: the lower one fits, the upper one does not.
    """
    low, high = between
    close = _CLOSE * high
    under = course.overflow(divide(low, request))[0] - slack
    over, at = course.overflow(divide(high, request))
    over -= slack
    while high - low > close:
        # Interpolate linearly, unless the result is close to one of the two ends.
        step = min(max(under / (under - over), 0.1), 0.9)
        middle = low + step * (high - low)
        found, when = course.overflow(divide(middle, request))
        if found <= slack:
            low, under = middle, found - slack
        else:
            high, over, at = middle, found - slack, when
    return low, at


def _division(
    queues: QueueTable, leaves: Sequence[int], plan: TreePlan, total: float, ticks: float
) -> Divide:
    """Return the scheduler's division of up to this much GPU time over so many ticks."""
    rank = np.arange(len(queues), dtype=np.int64)
    # Thousandths of GPU ticks, or larger units for large totals.
    scale = min(1000.0, _MOST / total)
    deserved, limit = (
        _over(amounts[GPU : GPU + 1], ticks * scale / 1000.0)
        for amounts in (queues.deserved, queues.limit)
    )

    def divide(part: float, request: FloatVec) -> FloatVec:
        asked = np.zeros((1, len(queues)), np.int64)
        asked[0, leaves] = np.minimum(request * scale, _MOST).astype(np.int64)
        entitlements = Entitlements(
            deserved=deserved,
            limit=limit,
            request=roll_up(asked, queues.tree),
            weights=queues.weight[GPU : GPU + 1],
            priority=queues.priority,
            rank=rank,
        )
        amount = np.array([int(part * scale)], np.int64)
        share = fair_share(queues.tree, amount, entitlements, _UNIT, plan=plan)
        answer: FloatVec = share[0, leaves] / scale
        return answer

    return divide


def _over(amounts: IntVec, factor: float) -> IntVec:
    """Multiply milli-GPUs by ticks; return thousandths of GPU ticks."""
    product = np.minimum(amounts * factor, _MOST * 2.0)
    return np.where(amounts == UNLIMITED, UNLIMITED, product.astype(np.int64))
