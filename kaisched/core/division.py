"""Fair division of one level of the queue tree, all sibling groups and resources at once.

Every (resource, sibling group) is one contest over one amount. Deserved parts come first; the
surplus goes by priority and, within a priority, in rounds by weight, in whole units. The rules
are numbered R1 to R12 in docs/explanation/fairness.md, with the places where they differ from
KAI-Scheduler on purpose; tests/oracles holds the same rules as a plain loop, bit for bit.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from kaisched.core.rounds import NEED, UNIT, WEIGHT, Asked, Rows, WeightFold, contend
from kaisched.units import UNLIMITED

Int64 = npt.NDArray[np.int64]
Float64 = npt.NDArray[np.float64]
Index = npt.NDArray[np.intp]
Number = TypeVar("Number", np.int64, np.float64)


@dataclass(frozen=True, eq=False)
class LevelPlan:
    """The order in which one level is divided; depends on the queues, not on amounts.

    Attributes:
        queue: `(K,)` queue indices, the groups one after the other, by rank inside.
        group: `(K,)` ascending number of the sibling group, 0 to G - 1.
        start: `(G,)` where each group starts.
        tiers: per priority rank inside the groups, highest first, the positions `(Kt,)` in
            `queue`; None stands for all of them.
        is_all: the level is the whole tree, in the tree's own order.

    """

    queue: Index
    group: Index
    start: Index
    tiers: tuple[Index | None, ...]
    is_all: bool = False

    def pick(self, columns: npt.NDArray[Number]) -> npt.NDArray[Number]:
        """Return the level's columns `(R, K)` of `(R, Q)`, in plan order."""
        return columns if self.is_all else columns.take(self.queue, axis=1)


def plan_level(queue: Index, group: Index, priority: Int64, rank: Int64, queues: int) -> LevelPlan:
    """Put the queues of one level in canonical order.

    Args:
        queue: `(K,)` queue indices.
        group: `(K,)` sibling group, numbered 0 to G - 1 without gaps.
        priority: `(K,)` higher goes first in the surplus.
        rank: `(K,)` unique inside a group, lower wins ties.
        queues: Q, how many queues the tree has.

    """
    order = np.lexsort((rank, group))
    group = group[order]
    start = np.flatnonzero(np.diff(group, prepend=-1))
    tier = _tier_of(group, priority[order])
    count = int(tier.max()) + 1 if len(tier) else 0
    tiers = (None,) if count == 1 else tuple(np.flatnonzero(tier == t) for t in range(count))
    queue = queue[order]
    is_all = bool(np.array_equal(queue, np.arange(queues)))
    return LevelPlan(queue, group, start, tiers, is_all)


def _tier_of(group: Index, priority: Int64) -> Index:
    """Rank the distinct priorities of each group, highest first."""
    order = np.lexsort((-priority, group))
    new_group = np.diff(group[order], prepend=-1) != 0
    lower = np.diff(priority[order], prepend=0) != 0
    step = np.cumsum(lower & ~new_group)
    first = np.maximum.accumulate(np.where(new_group, step, 0))
    tier = np.empty(len(group), dtype=np.intp)
    tier[order] = step - first
    return tier


class Claims(NamedTuple):
    """What the queues are entitled to and ask for; columns of `K` queues.

    Attributes:
        deserved: `(R, K)` int64 quota; UNLIMITED counts as the whole amount.
        limit: `(R, K)` int64; UNLIMITED for none.
        request: `(R, K)` int64, held and pending together.
        weights: `(R, K)` float64 over-quota weights, finite; 0 or less takes no surplus.
        priority: `(K,)` int64, higher goes first in the surplus.
        rank: `(K,)` int64, unique among siblings; lower (older) wins ties.

    """

    deserved: Int64
    limit: Int64
    request: Int64
    weights: Float64
    priority: Int64
    rank: Int64


def divide_level(
    amount: Int64,
    group: Index,
    claims: Claims,
    unit: Int64,
    fold: WeightFold | None = None,
) -> tuple[Int64, Int64]:
    """Divide among siblings: deserved first, then the surplus (R1 to R9).

    Args:
        amount: `(R, G)` what each group divides, base units, below 2**50.
        group: `(K,)` sibling group of each queue, 0 to G - 1 without gaps, in any order.
        claims: of the `K` queues.
        unit: `(R,)` granularity of the surplus: 1000 for milli-GPU, else 1.
        fold: asked for the weights of each round; None leaves them.

    Returns:
        fair share `(R, K)` in the order of the input, and what is left `(R, G)`.

    Raises:
        ValueError: the fold answered something that is not a finite number.

    """
    share = deserved_share(amount[:, group], claims.deserved, claims.request, claims.limit)
    spent = np.zeros_like(amount)
    for resource, row in enumerate(share):
        np.add.at(spent[resource], group, row)
    return divide_surplus(np.maximum(amount - spent, 0), group, share, claims, unit, fold=fold)


def divide_surplus(
    surplus: Int64,
    group: Index,
    share: Int64,
    claims: Claims,
    unit: Int64,
    *,
    fold: WeightFold | None = None,
) -> tuple[Int64, Int64]:
    """Divide only the surplus, on top of a given fair share (R4 to R9).

    Args as for `divide_level`, with `surplus` `(R, G)` and `share` `(R, K)` what each queue
    has already. Returns the new fair share `(R, K)` and what is left `(R, G)`.
    """
    plan = plan_level(np.arange(len(group)), group, claims.priority, claims.rank, len(group))
    order = plan.queue
    need = np.take(np.minimum(claims.request, claims.limit) - share, order, axis=1)
    left = surplus.astype(np.float64)
    weights = np.take(claims.weights, order, axis=1)
    got = share_surplus(plan, left, need, weights, unit, fold=fold)
    result = share.copy()
    if got is not None:
        result[:, order] += got
    return result, left.astype(np.int64)


def deserved_share(amount: Int64, deserved: Int64, request: Int64, limit: Int64) -> Int64:
    """Return what comes first: the quota, as far as it is asked for (R1, R2). Elementwise.

    Nobody is scaled down if the deserved parts exceed the amount (R3).
    """
    quota = np.where(deserved == UNLIMITED, amount, deserved)
    return np.minimum(quota, np.minimum(request, limit))


def share_surplus(
    plan: LevelPlan,
    left: Float64,
    need: Int64,
    weights: Float64,
    unit: Int64,
    *,
    fold: WeightFold | None = None,
) -> Int64 | None:
    """Share what is left of each group's amount, highest priority first (R4).

    Args:
        plan: the level, `K` queues in `G` groups.
        left: `(R, G)` the surplus; lowered in place by what is given.
        need: `(R, K)` in plan order, what each queue may still take.
        weights: `(R, K)` in plan order.
        unit: `(R,)` granularity.
        fold: as for `divide_level`.

    Returns:
        `(R, K)` in plan order, what each queue gets; None if nobody gets anything.

    """
    groups = left.shape[1]
    purse = left.reshape(-1)
    if not purse.any():
        return None
    units = np.repeat(unit.astype(np.float64), groups)
    wants = (need > 0) & (weights > 0)
    result: Int64 | None = None
    for tier in plan.tiers:
        some = wants if tier is None else wants[:, tier]
        resource, column = some.nonzero()
        if not len(resource):
            continue
        if tier is not None:
            column = tier[column]
        contest = resource * groups + plan.group.take(column)
        numbers = np.empty((3, len(contest)))
        numbers[NEED] = need[resource, column]
        numbers[WEIGHT] = weights[resource, column]
        numbers[UNIT] = units.take(contest)
        asked = None if fold is None else Asked(fold, resource, plan.queue.take(column))
        got = contend(Rows(np.arange(len(contest)), contest, numbers), purse, asked)
        if result is None:
            result = np.zeros(need.shape, dtype=np.int64)
        result[resource, column] = got
    return result
