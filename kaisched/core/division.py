"""Fair division of one level of the queue tree, all sibling groups and resources at once.

Every (resource, sibling group) is one contest over one amount. Deserved parts come first; the
surplus goes by priority and, within a priority, in rounds by weight, in whole units. The rules
are numbered R1 to R12 in docs/explanation/fairness.md, with the places where they differ from
KAI-Scheduler on purpose; tests/oracles holds the same rules as a plain loop, bit for bit.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from kaisched.core.rounds import Asked, Contest, WeightFold, contend
from kaisched.units import UNLIMITED

Int64 = npt.NDArray[np.int64]
Float64 = npt.NDArray[np.float64]
Index = npt.NDArray[np.intp]

# Amounts and their sums are exact in float64 up to here, with room to multiply by a weight.
MOST = 1 << 50
# Contests do not touch each other, so a large level is shared in pieces that fit the cache. Columns
# of twice that many rows are handed back to the system by malloc each time they are let go: 900
# page faults a division of 10,000 queues.
BLOCK_ROWS = 1 << 13

Number = TypeVar("Number", np.int64, np.float64)


@dataclass(frozen=True, eq=False)
class LevelPlan:
    """The order in which one level is divided; depends on the queues, not on amounts.

    `K` queues in `G` groups; a row is one of `R * K` (resource, queue) pairs, resource by
    resource.

    Attributes:
        queue: `(K,)` queue indices, the groups one after the other, by rank inside.
        group: `(K,)` ascending number of the sibling group, 0 to G - 1.
        start: `(G,)` where each group starts.
        resource_of_row: `(R * K,)`.
        queue_of_row: `(R * K,)`.
        contest_of_row: `(R * K,)` ascending number of (resource, group), 0 to R * G - 1.
        tiers: ascending rows of each priority, counted inside the groups, highest first;
            None stands for all rows.
        is_all: the level is the whole tree, in the tree's own order.

    """

    queue: Index
    group: Index
    start: Index
    resource_of_row: Index
    queue_of_row: Index
    contest_of_row: Index
    tiers: tuple[Index | None, ...]
    is_all: bool

    def pick(self, columns: npt.NDArray[Number]) -> npt.NDArray[Number]:
        """Return the level's columns `(R, K)` of `(R, Q)`, in plan order."""
        return columns if self.is_all else columns.take(self.queue, axis=1)


def plan_level(
    queue: Index, group: Index, priority: Int64, rank: Int64, *, resources: int, queues: int
) -> LevelPlan:
    """Put the queues of one level in canonical order.

    Args:
        queue: `(K,)` queue indices.
        group: `(K,)` sibling group, numbered 0 to G - 1 without gaps.
        priority: `(K,)` higher goes first in the surplus.
        rank: `(K,)` unique inside a group, lower wins ties.
        resources: R.
        queues: Q, how many queues the tree has.

    """
    order = np.lexsort((rank, group))
    queue, group, priority = queue[order], group[order], priority[order]
    start = np.flatnonzero(np.diff(group, prepend=-1))
    resource = np.arange(resources)[:, None]
    tier = _tier_of(group, priority)
    count = int(tier.max(initial=-1)) + 1
    rows = resource * len(queue)
    return LevelPlan(
        queue=queue,
        group=group,
        start=start,
        resource_of_row=np.broadcast_to(resource, (resources, len(queue))).ravel(),
        queue_of_row=np.broadcast_to(queue, (resources, len(queue))).ravel(),
        contest_of_row=(resource * len(start) + group).ravel(),
        tiers=tuple((rows + np.flatnonzero(tier == t)).ravel() for t in range(count))
        if count > 1
        else (None,) * count,
        is_all=bool(np.array_equal(queue, np.arange(queues))),
    )


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


class HeadStart(Protocol):
    """Says what of the surplus goes to whom before weights share out the rest (R25)."""

    def __call__(
        self,
        resource: Index,
        queue: Index,
        group: Index,
        weights: Float64,
        has: Int64,
        wants: Int64,
        surplus: Int64,
        /,
    ) -> Int64 | None:
        """Answer for `K` rows, each one queue in the contest for one resource, or None for nothing.

        Args:
            resource: `(K,)` resource index.
            queue: `(K,)` queue index.
            group: `(K,)` rows with the same number share one surplus.
            weights: `(K,)` the queues' weights, normalised to 1 over each group.
            has: `(K,)` what the queue gets already: its deserved part.
            wants: `(K,)` what it may still take.
            surplus: `(K,)` what there is to share in the row's group.

        Returns:
            `(K,)` amounts from 0 to `wants`, in each group together at most the surplus.

        """
        ...


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
    queues = len(group)
    plan = plan_level(
        np.arange(queues),
        group,
        claims.priority,
        claims.rank,
        resources=len(unit),
        queues=queues,
    )
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
    has: Int64 | None = None,
    start: HeadStart | None = None,
) -> Int64 | None:
    """Share what is left of each group's amount, highest priority first (R4).

    Args:
        plan: the level, `K` queues in `G` groups.
        left: `(R, G)` the surplus; lowered in place by what is given.
        need: `(R, K)` in plan order, what each queue may still take.
        weights: `(R, K)` in plan order.
        unit: `(R,)` granularity.
        fold: as for `divide_level`.
        has: `(R, K)` in plan order, what each queue has already; only told to `start`.
        start: asked at each priority before its rounds; lowers `need` in place.

    Returns:
        `(R, K)` in plan order, what each queue gets; None if nobody gets anything.

    """
    purse, units = left.reshape(-1), unit.astype(np.float64)
    wants = (need > 0) & (weights > 0)
    wants &= (left > 0).take(plan.group, axis=1)
    result = early = None
    for tier in plan.tiers:
        rows = wants.ravel().nonzero()[0] if tier is None else tier[wants.take(tier)]
        contest = plan.contest_of_row.take(rows)
        if start is not None and has is not None and len(rows):
            ahead = _ahead(start, plan, rows, (weights, has, need), purse)
            if ahead is not None:
                early = np.zeros(need.shape, dtype=np.int64) if early is None else early
                early.put(rows, ahead)
                need.put(rows, need.take(rows) - ahead)
                purse -= np.bincount(contest, ahead, len(purse))
                rows = rows[(need.take(rows) > 0) & (purse > 0).take(contest)]
                contest = plan.contest_of_row.take(rows)
        for block in _blocks(contest):
            if result is None:
                result = np.zeros(need.shape, dtype=np.int64)
            here = rows[block]
            resource = plan.resource_of_row.take(here)
            asked = None if fold is None else Asked(fold, resource, plan.queue_of_row.take(here))
            wanted = np.empty(len(here))
            np.minimum(need.take(here), MOST, out=wanted)
            first, last = contest[block][0], contest[block][-1]
            game = Contest(
                contest=contest[block] - first,
                weight=weights.take(here),
                unit=units.take(resource),
                need=wanted.copy(),
                purse=purse[first : last + 1],
                asked=asked,
            )
            contend(game)
            result.put(here, wanted - game.need)
    if early is None or result is None:
        return early if result is None else result
    return result + early


def _ahead(
    start: HeadStart,
    plan: LevelPlan,
    rows: Index,
    columns: tuple[Float64, Int64, Int64],
    purse: Float64,
) -> Int64 | None:
    """Ask for head starts in all contests of a priority; returns amounts `(len(rows),)`."""
    weights, has, need = columns
    contest = plan.contest_of_row.take(rows)
    weight = weights.take(rows)
    total = np.bincount(contest, weight, len(purse))
    return start(
        plan.resource_of_row.take(rows),
        plan.queue_of_row.take(rows),
        contest,
        weight / total.take(contest),
        has.take(rows),
        need.take(rows),
        np.minimum(purse, MOST).astype(np.int64).take(contest),
    )


def _blocks(contest: Index) -> Iterator[slice]:
    """Cut rows, sorted by contest, between contests into pieces that fit the cache."""
    start = 0
    while start < len(contest):
        end = start + BLOCK_ROWS
        if end < len(contest):
            end = int(contest.searchsorted(contest[end - 1], "right"))
        yield slice(start, end)
        start = end
