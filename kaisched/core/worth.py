"""What quotas and fair shares are worth if siblings were promised more than their parent has (R34).

The division never scales quotas down (R3): under a department that has 4, two projects with quotas
of 4 each have a share of 4. For what queues may keep, the quota of the department supersedes
theirs: its amount goes to the siblings by priority and in proportion to their quotas; then the rest
goes to their shares beyond quotas. Non-preemptible work within a quota counts with the amount that
it holds, since it cannot be taken: otherwise its siblings would keep the same room once more.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import numpy.typing as npt

from kaisched.core.division import MOST, Entitlements, divide_level, divide_surplus
from kaisched.core.tree import NO_QUEUE
from kaisched.units import UNLIMITED

if TYPE_CHECKING:
    from kaisched.core.tree import QueueTree

Int64 = npt.NDArray[np.int64]
Index = npt.NDArray[np.intp]


Columns: TypeAlias = tuple[Int64, Int64, Int64, Int64]


def worth(
    tree: QueueTree,
    unit: Int64,
    columns: Columns,
    top: int = NO_QUEUE,
) -> tuple[Int64, Int64]:
    """Return quotas and fair shares ``(R, Q)``, lowered where parents have less than promised.

    Args:
        tree: ``Q`` queues.
        unit: ``(R,)`` granularity.
        columns: quotas, fair shares and what is held of non-preemptible work, ``(R, Q)``, and
            priorities ``(Q,)``.
        top: consider only queues below this one, whose own quota is its whole amount; else all.

    Returns:
        The given arrays themselves if nothing has to be lowered.

    """
    quota, share, fixed, priority = columns
    first, end = (0, len(tree)) if top < 0 else (top + 1, int(tree.end_of_queue[top]))
    if top >= 0:
        share = share.copy()
        share[:, top] = np.minimum(share[:, top], quota[:, top])
    depth = 0 if top < 0 else int(tree.depth_of_queue[top])
    for level in tree.levels[depth + 1 :]:
        rows = level[slice(*level.searchsorted((first, end)).tolist())]
        if not len(rows):
            break
        parent = tree.parent_of_queue[rows]
        start = np.flatnonzero(np.diff(parent, prepend=NO_QUEUE - 1))
        above = parent[start]
        # An unlimited quota does not supersede those below.
        amount = np.where(quota[:, above] == UNLIMITED, UNLIMITED, share[:, above])
        known = quota[:, rows], share[:, rows], fixed[:, rows], priority[rows]
        lowered = _lowered(known, start, amount, unit)
        if lowered is not None:
            quota, share = quota.copy(), share.copy()
            quota[:, rows], share[:, rows] = lowered
    return quota, share


def _lowered(
    columns: Columns, start: Index, amount: Int64, unit: Int64
) -> tuple[Int64, Int64] | None:
    """Return quotas and shares ``(R, K)`` of groups that start at ``start`` and have ``amount``.

    An unlimited quota is worth all there is: a group in which one is used is not lowered.
    """
    quota, share, fixed, priority = columns
    told = np.minimum(share, MOST)
    sums = np.add.reduceat(told, start, axis=1)
    is_endless = (quota == UNLIMITED) & (told > 0)
    is_short = (sums > amount) & ~np.logical_or.reduceat(is_endless, start, axis=1)
    if not is_short.any():
        return None
    group = np.repeat(np.arange(len(start)), np.diff(start, append=quota.shape[1]))
    amount = np.where(is_short, amount, sums)  # the other groups keep all
    promised = np.minimum(np.minimum(quota, told), MOST)
    entitlements = Entitlements(
        deserved=np.zeros_like(quota),
        limit=np.full_like(quota, UNLIMITED),
        request=promised,
        weights=np.maximum(quota, 1).astype(np.float64),
        priority=priority,
        rank=np.arange(len(priority)),
    )
    kept, left = divide_level(amount, group, entitlements, unit)
    fixed = np.minimum(fixed, promised)
    while (kept < fixed).any():  # they get just that, and the others the rest
        entitlements = entitlements._replace(
            deserved=np.maximum(entitlements.deserved, np.where(kept < fixed, fixed, 0)),
            request=np.where(kept < fixed, fixed, entitlements.request),
        )
        kept, left = divide_level(amount, group, entitlements, unit)
    above = entitlements._replace(
        request=told, weights=np.maximum(told - promised, 1).astype(np.float64)
    )
    whole, _ = divide_surplus(left, group, kept, above, unit)
    has_less = np.add.reduceat(promised, start, axis=1) > amount
    return (
        np.where(has_less[:, group], kept, quota),
        np.where(is_short[:, group], whole, share),
    )
