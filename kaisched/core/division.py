"""Fair division of one level of the queue tree, all sibling groups and resources at once.

Every (resource, sibling group) is one contest over one amount. Deserved parts come first; the
surplus goes by priority and, within a priority, in rounds by weight, in whole units. The rules
are numbered R1 to R12 in docs/explanation/fairness.md, with the places where they differ from
KAI-Scheduler on purpose; tests/oracles holds the same rules as a plain loop, bit for bit.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from kaisched.core.blocks import Block, plan_level
from kaisched.core.rounds import Asked, Contest, WeightFold, contend
from kaisched.units import UNLIMITED

Int64 = npt.NDArray[np.int64]
Float64 = npt.NDArray[np.float64]
Index = npt.NDArray[np.intp]

# Amounts and their sums are exact in float64 up to here, with room to multiply by a weight.
MOST = 1 << 50


class HeadStart(Protocol):
    """Hook for the parts of the surplus that queues get before weights divide the rest (R25)."""

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
            has: `(K,)` what the queue has already: its deserved part.
            wants: `(K,)` what it may still take.
            surplus: `(K,)` what there is to share in the row's group.

        Returns:
            `(K,)` amounts from 0 to `wants`, in each group together at most the surplus.

        """
        ...


class Entitlements(NamedTuple):
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
    entitlements: Entitlements,
    unit: Int64,
    fold: WeightFold | None = None,
) -> tuple[Int64, Int64]:
    """Divide among siblings: deserved first, then the surplus (R1 to R9).

    Args:
        amount: `(R, G)` what each group divides, base units, below 2**50.
        group: `(K,)` sibling group of each queue, 0 to G - 1 without gaps, in any order.
        entitlements: of the `K` queues.
        unit: `(R,)` granularity of the surplus: 1000 for milli-GPU, else 1.
        fold: asked for the weights of each round; None leaves them.

    Returns:
        fair share `(R, K)` in the order of the input, and what is left `(R, G)`.

    Raises:
        ValueError: the fold answered something that is not a finite number.

    """
    share = deserved_share(
        amount[:, group], entitlements.deserved, entitlements.request, entitlements.limit
    )
    spent = np.zeros_like(amount)
    for resource, row in enumerate(share):
        np.add.at(spent[resource], group, row)
    return divide_surplus(
        np.maximum(amount - spent, 0), group, share, entitlements, unit, fold=fold
    )


def divide_surplus(
    surplus: Int64,
    group: Index,
    share: Int64,
    entitlements: Entitlements,
    unit: Int64,
    *,
    fold: WeightFold | None = None,
) -> tuple[Int64, Int64]:
    """Divide only the surplus, on top of a given fair share (R4 to R9).

    Args as for `divide_level`, with `surplus` `(R, G)` and `share` `(R, K)` what each queue
    has already. Returns the new fair share `(R, K)` and what is left `(R, G)`.
    """
    queue = np.arange(len(group))
    result, left = share.copy(), surplus.copy()
    blocks = plan_level(queue, group, entitlements.priority, entitlements.rank, resources=len(unit))
    for block in blocks:
        have = block.pick(share)
        need = np.minimum(block.pick(entitlements.request), block.pick(entitlements.limit)) - have
        purse = left[block.resources, block.groups].astype(np.float64)
        got = share_surplus(block, purse, need, block.pick(entitlements.weights), unit, fold=fold)
        if got is not None:
            block.put(result, have + got)
        left[block.resources, block.groups] = purse
    return result, left


def deserved_share(amount: Int64, deserved: Int64, request: Int64, limit: Int64) -> Int64:
    """Return the deserved part: the quota, as far as it is asked for (R1, R2). Elementwise.

    Parts are not scaled down if together they exceed the amount (R3).
    """
    quota = np.where(deserved == UNLIMITED, amount, deserved)
    return np.minimum(quota, np.minimum(request, limit))


def share_surplus(
    block: Block,
    left: Float64,
    need: Int64,
    weights: Float64,
    unit: Int64,
    *,
    fold: WeightFold | None = None,
    start: HeadStart | None = None,
    has: Int64 | None = None,
) -> Int64 | None:
    """Share what is left of each group's amount, highest priority first (R4).

    Args:
        block: `k` queues in `g` groups, for `r` resources.
        left: `(r, g)` the surplus; lowered in place by what is given.
        need: `(r, k)` in the block's order, what each queue may still take.
        weights: `(r, k)` in the block's order.
        unit: `(R,)` granularity.
        fold: as for `divide_level`.
        start: asked at each priority before its rounds (R25); `need` is then lowered in place.
        has: `(r, k)` in the block's order, what each queue has already; only for `start`.

    Returns:
        `(r, k)` in the block's order, what each queue gets; None if no queue gets anything.

    """
    purse = left.reshape(-1)
    wants = (need > 0) & (weights > 0)
    has_left = left > 0
    if np.count_nonzero(has_left) < has_left.size:
        wants &= has_left.take(block.group, axis=1)
    result = None
    ahead = np.zeros(need.shape if start is not None else 0, dtype=np.int64)
    for tier in block.tiers:
        rows = wants.ravel().nonzero()[0] if tier is None else tier[wants.take(tier)]
        if not len(rows):
            continue
        if result is None:
            result = np.zeros(need.size, dtype=np.int64)
        if start is not None and has is not None:
            rows = _put_ahead(start, block, rows, (weights, has, need), purse, ahead)
        wanted = np.minimum(need.take(rows), MOST).astype(np.float64)
        game = _contest(block, rows, purse, wanted.copy(), weights, unit, fold)
        contend(game)
        wanted -= game.need
        result[rows] = wanted.astype(np.int64)
    got = None if result is None else result.reshape(need.shape)
    return got if got is None or start is None else got + ahead


def _contest(
    block: Block,
    rows: Index,
    purse: Float64,
    need: Float64,
    weights: Float64,
    unit: Int64,
    fold: WeightFold | None,
) -> Contest:
    """Return the contests of some rows of a block; `need` is by row, the rest by block."""
    units = unit[block.resources].astype(np.float64)
    is_one = len(units) == 1
    resource = block.resource_of_row[: len(rows)]
    if not is_one:
        resource = block.resource_of_row.take(rows)
        units = units.take(resource - block.resources.start)
    asked = None
    if fold is not None:
        asked = Asked(fold, resource, block.queue_of_row.take(rows), is_one)
    return Contest(
        contest=block.contest_of_row.take(rows),
        weight=weights.take(rows),
        unit=units,
        need=need,
        purse=purse,
        asked=asked,
    )


def _put_ahead(
    start: HeadStart,
    block: Block,
    rows: Index,
    columns: tuple[Float64, Int64, Int64],
    purse: Float64,
    ahead: Int64,
) -> Index:
    """Apply the head starts of one priority; return the rows that still want something."""
    weights, has, need = columns
    contest, weight, wants = block.contest_of_row.take(rows), weights.take(rows), need.take(rows)
    together = np.bincount(contest, weight, len(purse))
    given = start(
        block.resource_of_row.take(rows),
        block.queue_of_row.take(rows),
        contest,
        weight / together.take(contest),
        has.take(rows),
        wants,
        purse.astype(np.int64).take(contest),
    )
    if given is None:
        return rows
    ahead.put(rows, given)
    need.put(rows, wants - given)
    purse -= np.bincount(contest, given, len(purse))
    return rows[(wants > given) & (purse > 0).take(contest)]
