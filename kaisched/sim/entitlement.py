"""What each queue was entitled to over time, whatever the policy did.

The scheduler's own division (docs/explanation/fairness.md), of GPU time instead of GPUs: the time
there was up to an instant is divided by quota, priority and weight, and nobody gets more than all
the work that had come, run without waiting, would have taken up to then. A queue that asks for
little is entitled to that little; what it leaves goes to the others by weight.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from kaisched.core.axis import GPU, FloatVec, IntVec
from kaisched.core.division import Claims
from kaisched.core.fairshare import fair_share, plan_levels
from kaisched.core.tables import QueueTable
from kaisched.core.tree import roll_up
from kaisched.sim.grid import FOREVER
from kaisched.sim.series import Steps
from kaisched.sim.workload import Workload
from kaisched.units import UNLIMITED

_MOST: Final = 1 << 44
"""The division takes amounts up to 2**50; longer times are counted in larger units."""
_UNIT: Final = np.array([1], np.int64)


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
    rank = np.arange(len(queues), dtype=np.int64)
    plan = plan_levels(queues.tree, queues.priority, rank, 1)
    there = capacity.integral(at)
    asked = np.array([line.integral(at) for line in work]).reshape(len(work), len(at))
    answer = np.zeros((len(leaves), len(at)))
    for column, ticks in enumerate(at.tolist()):
        if ticks <= 0 or there[column] <= 0:
            continue
        # Thousandths of GPU ticks, or larger where there are too many.
        scale = min(1000.0, _MOST / there[column])
        request = np.zeros((1, len(queues)), np.int64)
        request[0, leaves] = np.minimum(asked[:, column] * scale, _MOST).astype(np.int64)
        factor = ticks * scale / 1000.0
        claims = Claims(
            deserved=_over(queues.deserved[GPU : GPU + 1], factor),
            limit=_over(queues.limit[GPU : GPU + 1], factor),
            request=roll_up(request, queues.tree),
            weights=queues.weight[GPU : GPU + 1],
            priority=queues.priority,
            rank=rank,
        )
        total = np.array([int(there[column] * scale)], np.int64)
        share = fair_share(queues.tree, total, claims, _UNIT, plan=plan)
        answer[:, column] = share[0, leaves] / scale
    return answer


def _over(amounts: IntVec, factor: float) -> IntVec:
    """Return so much for so long; milli-GPUs come out as thousandths of GPU ticks."""
    product = np.minimum(amounts * factor, _MOST * 2.0)
    return np.where(amounts == UNLIMITED, UNLIMITED, product.astype(np.int64))
