"""Fair shares of the whole queue tree: each queue's share is what its children divide (R10).

Top-down, one depth at a time; a depth is divided for all its sibling groups and resources at
once (kaisched.core.division). Pure in its arguments, so the answer can be remembered for as
long as they are the same. What depends on the queues alone, and not on amounts, is prepared
by `plan_levels` and can be kept between cycles.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from kaisched.core.blocks import Block, plan_level
from kaisched.core.division import MOST, Entitlements, HeadStart, share_surplus
from kaisched.core.rounds import WeightFold
from kaisched.core.tree import NO_QUEUE, QueueTree
from kaisched.units import UNLIMITED

Int64 = npt.NDArray[np.int64]
Float64 = npt.NDArray[np.float64]
Index = npt.NDArray[np.intp]

WeightMode = Literal["equal", "quota"]
Asked = tuple[WeightFold | None, HeadStart | None]
"""The hooks of a division: for weights, and for head starts."""


_FEW_ROWS = 1 << 12  # malloc keeps the memory of so many rows by itself
_KEPT_BYTES = 1 << 24  # glibc ignores blocks above 32 MiB


@dataclass(frozen=True, eq=False)
class TreePlan:
    """The order in which a tree is divided.

    Attributes:
        levels: the blocks of each depth, roots first.
        parents: per depth the queue `(G,)` whose share each sibling group divides; empty for
            the roots, which divide the total.

    """

    levels: tuple[tuple[Block, ...], ...]
    parents: tuple[Index, ...]


def plan_levels(
    tree: QueueTree, priority: Int64, rank: Int64, resources: int, *, is_whole: bool = False
) -> TreePlan:
    """Prepare the division of a tree; valid until a queue, priority or rank changes.

    Args:
        tree: the shape of the queues.
        priority: `(Q,)` int64.
        rank: `(Q,)` int64, unique among siblings; `np.arange(Q)` means oldest first.
        resources: R.
        is_whole: plan for head starts, which are about all resources of a group at once.

    """
    levels: list[tuple[Block, ...]] = []
    parents: list[Index] = []
    for queue in tree.levels:
        parent = tree.parent_of_queue[queue].astype(np.intp)
        above, group = np.unique(parent, return_inverse=True)
        levels.append(
            plan_level(
                queue,
                group,
                priority[queue],
                rank[queue],
                resources=resources,
                is_whole=is_whole,
            )
        )
        parents.append(above[above != NO_QUEUE])
    if len(tree) * resources > _FEW_ROWS:
        _keep_freed_memory()
    return TreePlan(tuple(levels), tuple(parents))


def _keep_freed_memory() -> None:
    """Make glibc keep the memory that a division frees for the next one, up to 32 MiB.

    glibc returns freed memory beyond a threshold: twice the largest block that it mapped by itself
    and that was freed, 256 kB at first. This costs 500 page faults in each division of 10,000
    queues, a fifth of its time. Freeing one large block raises the threshold. Nothing is written
    to the block, so that it costs 10 us; other allocators are not affected.
    """
    np.empty(_KEPT_BYTES, np.int8)


def fair_share(
    tree: QueueTree,
    total: Int64,
    entitlements: Entitlements,
    unit: Int64,
    fold: WeightFold | None = None,
    *,
    start: HeadStart | None = None,
    weight_mode: WeightMode = "equal",
    plan: TreePlan | None = None,
) -> Int64:
    """Divide the cluster among the queues.

    Args:
        tree: `Q` queues in preorder.
        total: `(R,)` what there is to divide, base units, below 2**50.
        entitlements: `(R, Q)` columns in preorder; an inner queue's request is rolled up.
        unit: `(R,)` granularity of the surplus: 1000 for milli-GPU, else 1.
        fold: asked for the weights of each round (R5), if any.
        start: asked for the head starts before the weights count (R25), if any.
        weight_mode: "equal" takes the queues' own weights, "quota" those of the quotas (R12).
        plan: of this tree, priority and rank, a whole one with `start`; made when absent.

    Returns:
        `(R, Q)` int64; siblings' shares pass their parent's only where deserved parts do (R3).

    Raises:
        ValueError: the fold answered something that is not a finite number.

    """
    if plan is None:
        is_whole = start is not None
        plan = plan_levels(
            tree, entitlements.priority, entitlements.rank, len(total), is_whole=is_whole
        )
    share = np.empty(entitlements.request.shape, np.int64)
    # Most columns of limits are unlimited, which one comparison shows.
    is_limited = bool(entitlements.limit.min(initial=UNLIMITED) < UNLIMITED)
    for level, parents in zip(plan.levels, plan.parents, strict=True):
        for block in level:
            amount = total[block.resources, None]
            if len(parents):
                amount = share[block.resources].take(parents[block.groups], axis=1)
            requestable = block.pick(entitlements.request)
            if is_limited:
                np.minimum(requestable, block.pick(entitlements.limit), out=requestable)
            have = _divide_block(
                block, amount, requestable, entitlements, unit, (fold, start), weight_mode
            )
            block.put(share, have)
    return share


def _divide_block(
    block: Block,
    amount: Int64,
    requestable: Int64,
    entitlements: Entitlements,
    unit: Int64,
    asked: Asked,
    weight_mode: WeightMode,
) -> Int64:
    """Return the shares `(r, k)` of `(r, g)` amounts, deserved parts first.

    `requestable` `(r, k)` is overwritten.
    """
    deserved = block.pick(entitlements.deserved)
    if deserved.max() >= UNLIMITED:
        deserved = _quota(amount, block, deserved)
    have = np.minimum(deserved, requestable)
    left = np.maximum(amount - block.sums(have), 0)
    if not np.count_nonzero(left):
        return have
    weights = block.pick(entitlements.weights)
    if weight_mode == "quota":
        weights = _quota_weights(block, deserved, weights)
    need = requestable
    need -= have
    purse = np.minimum(left, MOST).astype(np.float64)
    fold, start = asked
    got = share_surplus(block, purse, need, weights, unit, fold=fold, start=start, has=have)
    if got is not None:
        have += got
    return have


def _quota(amount: Int64, block: Block, deserved: Int64) -> Int64:
    """Return the quotas in the block's order, UNLIMITED as the whole amount of the group (R1)."""
    return np.where(deserved == UNLIMITED, amount.take(block.group, axis=1), deserved)


def _quota_weights(block: Block, quotas: Int64, weights: Float64) -> Float64:
    """Return weights that follow quotas; a group without any quota keeps its own (R12)."""
    quota = quotas.astype(np.float64)
    has_quota = np.add.reduceat(quota, block.start, axis=1) > 0
    return np.where(has_quota.take(block.group, axis=1), quota, weights)
