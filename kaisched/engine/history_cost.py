"""Cost of past usage for a queue, in numbers for people: decisions do not use this.

The model has queues of one level and priority without quotas. All of them want everything, and
their past usage ends now. Rules R5, R23, R24 and R29 of docs/explanation/fairness.md apply, without
rounding to whole GPUs but where it says so.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kaisched.core.fairshare import Entitlements, divide_level

Rows = NDArray[np.signedinteger[Any]]
Bool = NDArray[np.bool_]
Float = NDArray[np.float64]

SLICES_OF_HISTORY: Final = 16
"""As in the plugin time-based-fairshare; a test compares them."""
BACK_WITHIN: Final = 0.01
"""A queue is back when its share is this close to its weight's, as a part of the cluster."""
_INSTANTS: Final = 5_000


class Use(NamedTuple):
    """GPUs held for some time, until now."""

    gpus: float
    time_s: float


@dataclass(frozen=True, slots=True)
class Pool:
    """GPUs that queues share, and the parameters of usage history."""

    gpus: int
    weights: Mapping[str, float]
    k: float
    half_life_s: float
    """0 for none."""
    window_s: float

    @property
    def history_s(self) -> float:
        """Return the length of the history in seconds, after decay."""
        if not self.half_life_s:
            return self.window_s
        return min(self.half_life_s / math.log(2), self.window_s)

    def weight(self, queue: str) -> float:
        """Return the normalised weight."""
        return self.weights[queue] / sum(self.weights.values())


def usage_after(pool: Pool, use: Use, later_s: float) -> float:
    """Return the usage, 0 to 1, after a while without use."""
    young, old = (min(age, pool.window_s) for age in (later_s, later_s + use.time_s))
    if pool.half_life_s:
        halves = [math.exp2(-age / pool.half_life_s) for age in (young, old, pool.window_s)]
        part = (halves[0] - halves[1]) / (1.0 - halves[2])
    else:
        part = (old - young) / pool.window_s
    return use.gpus / pool.gpus * part


def shares_after(pool: Pool, used: Mapping[str, Use], later_s: float) -> dict[str, float]:
    """Return each queue's fair share in GPUs, after a while without use."""
    portions = {}
    for queue in pool.weights:
        weight = pool.weight(queue)
        usage = usage_after(pool, used.get(queue, Use(0.0, 0.0)), later_s)
        portions[queue] = max(0.0, weight + pool.k * (weight - usage))
    whole = sum(portions.values())
    return {queue: pool.gpus * portion / whole for queue, portion in portions.items()}


def whole_shares(pool: Pool, used: Mapping[str, Use]) -> dict[str, int]:
    """Return each queue's fair share now as the division gives it: in whole GPUs (R6, R8)."""
    weights = np.array([[pool.weight(queue) for queue in pool.weights]])
    usage = np.array([usage_after(pool, used.get(q, Use(0.0, 0.0)), 0.0) for q in pool.weights])
    count = len(usage)
    nothing, all_of_it = np.zeros((1, count), np.int64), np.full((1, count), pool.gpus)
    entitled = Entitlements(
        deserved=nothing,
        limit=all_of_it,
        request=all_of_it,
        weights=weights,
        priority=np.zeros(count, np.int64),
        rank=np.arange(count),
    )

    def transform(_resource: Rows, queue: Rows, _group: Rows, _active: Bool, part: Float) -> Float:
        changed: Float = np.maximum(part + pool.k * (part - usage[queue]), 0.0)
        return changed

    group, unit = np.zeros(count, np.intp), np.ones(1, np.int64)
    share, _ = divide_level(np.array([[pool.gpus]]), group, entitled, unit, transform)
    return dict(zip(pool.weights, share[0].tolist(), strict=True))


def order(pool: Pool, used: Mapping[str, Use]) -> list[str]:
    """Return the queues in the order in which they start jobs larger than their shares (R36)."""
    usage = {queue: usage_after(pool, use, 0.0) for queue, use in used.items()}
    together = sum(usage.values())
    behind = {q: pool.weight(q) * together - usage.get(q, 0.0) for q in pool.weights}
    return sorted(behind, key=lambda queue: -behind[queue])


def plain_shares(pool: Pool) -> dict[str, float]:
    """Return the shares by weight alone."""
    return {queue: pool.gpus * pool.weight(queue) for queue in pool.weights}


def back_after_s(pool: Pool, used: Mapping[str, Use], queue: str) -> float:
    """Return when a queue's share is back at its weight's, in steps of 1/5,000 of the window."""
    plain = plain_shares(pool)[queue]
    for instant in range(_INSTANTS, -1, -1):
        later_s = pool.window_s * instant / _INSTANTS
        if abs(shares_after(pool, used, later_s)[queue] - plain) > BACK_WITHIN * pool.gpus:
            return pool.window_s * (instant + 1) / _INSTANTS
    return 0.0


def no_surplus_from(pool: Pool, queue: str) -> float | None:
    """Return the usage from which on a queue gets no surplus; None if no usage is that high."""
    if not pool.k:
        return None
    edge = pool.weight(queue) * (1 + pool.k) / pool.k
    return edge if edge <= 1 else None


def shortest_slice_s(pool: Pool, queue: str) -> float | None:
    """Return the shortest time for which an indivisible job keeps the surplus (R29)."""
    if not pool.k:
        return None
    average_s = pool.history_s / (SLICES_OF_HISTORY * pool.k)
    return average_s * pool.weight(queue) * len(pool.weights)
