"""What each queue was entitled to over time, whatever the policy did.

The scheduler's own division (docs/explanation/fairness.md), of GPU time instead of GPUs: the time
there was up to an instant is divided by quota, priority and weight, and nobody gets more than all
the work that had come, run without waiting, would have taken up to then. A queue that asks for
little is entitled to that little; what it leaves goes to the others by weight.

Time cannot be moved: what comes late must be computed late, and time in which nothing was to be
done is nobody's. So after each instant, what queues are entitled to beyond the work that had come
until then must fit into the time that was still to come. For work that can be divided at will this
is also enough: some schedule gives everybody what it was entitled to.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from kaisched.core.axis import GPU, GPU_UNIT, FloatVec, IntVec
from kaisched.core.division import Entitlements
from kaisched.core.fairshare import TreePlan, fair_share, plan_levels
from kaisched.core.tables import QueueTable
from kaisched.core.tree import roll_up
from kaisched.sim.grid import FOREVER
from kaisched.sim.series import Steps, edges_between
from kaisched.sim.workload import Workload
from kaisched.units import UNLIMITED

_MOST: Final = 1 << 44
"""The division takes amounts up to 2**50; longer times are counted in larger units."""
_UNIT: Final = np.array([1], np.int64)
_MOST_INSTANTS: Final = 500
"""Instants after which the rest must fit. Between two of them at most their distance is missed."""
_CLOSE: Final = 1e-4
"""A total that is so close to the largest that fits, as a part of all there is, will do."""

Divide = Callable[[float, FloatVec], FloatVec]
"""Divides a total among leaves with some requests, all in GPU ticks."""


@dataclass(frozen=True, slots=True)
class Course:
    """What could be done, and when. ``n`` instants, the last of which is the end."""

    asked: FloatVec
    """``(V, n)`` GPU ticks of work that had come up to each instant, run without waiting."""
    rest: FloatVec
    """``(n,)`` GPU ticks there were from each instant on."""

    def overflow(self, share: FloatVec) -> tuple[float, int]:
        """Return by how much shares ``(V,)`` do not fit, at worst, and after which instant."""
        late = np.maximum(share[:, None] - self.asked, 0.0).sum(axis=0) - self.rest
        at = int(np.argmax(late))
        return float(late[at]), at


def wanted(workload: Workload, endless: Sequence[tuple[int, int]], capacity: Steps) -> list[Steps]:
    """Return the GPUs each queue would hold if nothing ever waited.

    ``endless`` are (queue, first tick) of backlogs that never end: such a queue wants all there is.
    """
    changes: list[dict[int, int]] = [{} for _ in workload.queue_names]
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


def _line(changes: dict[int, int]) -> Steps:
    line, level = Steps(), 0
    for tick in sorted(changes):
        level += changes[tick]
        line.set(tick, level)
    return line


def entitled(
    queues: QueueTable,
    leaves: Sequence[int],
    work: Sequence[Steps],
    capacity: Steps,
    at: IntVec,
) -> FloatVec:
    """Return ``(V, T)`` GPU ticks each leaf was entitled to up to each tick.

    Args:
        queues: all queues.
        leaves: row of each of V leaves.
        work: what each leaf would hold if nothing waited.
        capacity: GPUs there are.
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
    """Return the shares ``(V,)`` of a total that fit into the course of time.

    The total is divided as if it grew from nothing. At the first instant after which no more fits,
    those who would have to compute more after it are left with what they have; the others go on.

    Args:
        divide: the division.
        course: what had come by when, and the time that was left.
        request: ``(V,)`` the most that each could take.
        total: all there is.

    """
    share = divide(total, request)
    slack = _CLOSE * total
    if course.overflow(share)[0] <= slack:
        return share
    # Quotas are given whether they fit or not: what they are too large by is let pass.
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
    """Return the largest total whose shares fit, and the instant after which more do not.

    Of the totals that it lies between the lower one fits and the upper one does not.
    """
    low, high = between
    close = _CLOSE * high
    under = course.overflow(divide(low, request))[0] - slack
    over, at = course.overflow(divide(high, request))
    over -= slack
    while high - low > close:
        # Where the line through both ends says, unless that is close to one of them.
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
    """Return the scheduler's division of so much GPU time, or less, that took so many ticks."""
    rank = np.arange(len(queues), dtype=np.int64)
    # Thousandths of GPU ticks, or larger where there are too many.
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
    """Return so much for so long; milli-GPUs come out as thousandths of GPU ticks."""
    product = np.minimum(amounts * factor, _MOST * 2.0)
    return np.where(amounts == UNLIMITED, UNLIMITED, product.astype(np.int64))
