"""Values that follow from the quotas, limits, fair shares and allocations of queues.

Most are pure, elementwise functions over columns: amounts are int64 in base units, shaped `(R, K)`
(or `(R,)` for one queue) unless a docstring says otherwise. UNLIMITED is larger than any amount,
so most rules need no special case for it; a function that has one says so.
Rule numbers are those of docs/explanation/fairness.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from kaisched.core.axis import Amounts
from kaisched.core.fairshare import MOST, Entitlements, divide_level, divide_surplus
from kaisched.core.tables import QueueTable
from kaisched.core.tree import NO_QUEUE, QueueTree
from kaisched.units import UNLIMITED, format_amount

Int64 = npt.NDArray[np.int64]
Bool = npt.NDArray[np.bool_]
Index = npt.NDArray[np.intp]

# A queue that holds a resource of which it may hold nothing comes last (R14).
FORBIDDEN_FACTOR = 1000


def allocatable_share(deserved: Int64, limit: Int64, fair_share: Int64) -> Int64:
    """Return what a queue may hold before other queues may reclaim from it (R13).

    The larger of quota and fair share, capped by the limit; the limit itself if the quota
    is UNLIMITED.
    """
    return np.minimum(np.maximum(deserved, fair_share), limit)


def is_ratio_at_least(a: Int64, b: Int64, c: Int64, d: Int64, per_mille: int = 1000) -> Bool:
    """Tell exactly whether `a/b * per_mille/1000 >= c/d`, for `b, d > 0` and `a, c >= 0`.

    Cross products of amounts overflow 64 bits; floats decide the clear cases and Python's
    unbounded integers the few that lie within their rounding error.
    """
    a, b, c, d = np.broadcast_arrays(a, b, c, d)
    left = a / b * (per_mille / 1000)
    right = c / d
    answer = np.atleast_1d(left >= right)
    close = np.abs(left - right) <= 1e-14 * np.maximum(left, right)
    for at in zip(*np.nonzero(np.atleast_1d(close)), strict=True):
        an, bn, cn, dn = (int(np.atleast_1d(x)[at]) for x in (a, b, c, d))
        answer[at] = an * per_mille * dn >= cn * 1000 * bn
    return np.asarray(answer.reshape(a.shape), dtype=np.bool_)


def breaks_saturation_order(
    reclaimer_allocated: Int64,
    reclaimer_fair_share: Int64,
    sibling_allocated: Int64,
    sibling_fair_share: Int64,
    multiplier_per_mille: int = 1000,
) -> Bool:
    """Tell where a reclaim would leave the reclaimer as saturated as a sibling it takes from (R15).

    All amounts are those after the reclaim. True where the reclaimer is above its fair share and
    its ratio times the multiplier reaches the sibling's. An unlimited share counts as ratio 0; a
    reclaimer without any share reaches a sibling without any. Elementwise, any shapes that
    broadcast.
    """
    reclaimer_over = reclaimer_allocated > reclaimer_fair_share
    sibling_has_share = sibling_fair_share > 0
    # x/0 is infinite for the reclaimer: it reaches any sibling. 0/UNLIMITED for a sibling: 0.
    endless = reclaimer_over & (reclaimer_fair_share == 0)
    sibling_free = sibling_fair_share == UNLIMITED
    reaches = is_ratio_at_least(
        reclaimer_allocated,
        np.maximum(reclaimer_fair_share, 1),
        np.where(sibling_free, 0, sibling_allocated),
        np.maximum(sibling_fair_share, 1),
        multiplier_per_mille,
    )
    return np.asarray(reclaimer_over & np.where(sibling_has_share, endless | reaches, endless))


def exceeds_any(held: Int64, bound: Int64) -> Bool:
    """Tell, `(K,)`, where `held` is above `bound` in at least one resource."""
    return np.asarray((held > bound).any(axis=0))


def is_within(held: Int64, bound: Int64) -> Bool:
    """Tell, `(K,)`, where `held` is at most `bound` in every resource."""
    return np.asarray((held <= bound).all(axis=0))


# -- what quotas are worth under a parent that has less (R34) --------------------------------------

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


# -- quotas that are not all there -----------------------------------------------------------------

CHILDREN: Final = "ChildrenAboveQuota"
FIRM: Final = "BelowNonPreemptible"
_GPU: Final = "gpu"


class OverSubscription(NamedTuple):
    """Why the quota of a queue is not enough."""

    reason: str
    """CHILDREN or FIRM; the first where both hold."""
    message: str


def children_quota(queues: QueueTable, deserved: Amounts) -> Amounts:
    """Return ``(R, Q)`` the sum of the limited quotas directly below each queue."""
    parent = queues.tree.parent_of_queue
    inner = parent >= 0
    below = np.zeros_like(deserved)
    counted = np.where(deserved < UNLIMITED, deserved, 0)
    for at in range(len(deserved)):
        np.add.at(below[at], parent[inner], counted[at, inner])
    return below


def over_subscribed(
    queues: QueueTable, deserved: Amounts, firm: Amounts, resources: Sequence[str]
) -> dict[int, OverSubscription]:
    """Return the queues that promise more than their quota, by row.

    Args:
        queues: their tree.
        deserved: ``(R, Q)`` quotas.
        firm: ``(R, Q)`` what the non-preemptible jobs of each queue and of all below hold.
        resources: names of the rows.

    An unlimited quota below a limited one promises too much of GPUs. Of other resources it is also
    what a queue has that says nothing about them, so there it counts as nothing.

    """
    parent = queues.tree.parent_of_queue
    inner = parent >= 0
    below = children_quota(queues, deserved)
    for at, name in enumerate(resources):
        if name == _GPU:
            boundless = parent[inner & (deserved[at] >= UNLIMITED)]
            below[at, boundless] = UNLIMITED
    is_limited = deserved < UNLIMITED
    has_more, is_short = is_limited & (below > deserved), is_limited & (firm > deserved)
    found = {}
    for row in np.flatnonzero((has_more | is_short).any(axis=0)).tolist():
        told = [
            f"the quotas of the queues below add up to {_told(name, int(below[at, row]))},"
            f" more than its own of {format_amount(name, int(deserved[at, row]))}"
            for at, name in enumerate(resources)
            if has_more[at, row]
        ]
        reason = CHILDREN if told else FIRM
        told += [
            f"work that must not be evicted holds {_told(name, int(firm[at, row]))}, more than the"
            f" quota of {format_amount(name, int(deserved[at, row]))}"
            for at, name in enumerate(resources)
            if is_short[at, row]
        ]
        found[row] = OverSubscription(reason, "; ".join(told))
    return found


def _told(name: str, amount: int) -> str:
    whole = "an unlimited amount of" if amount >= UNLIMITED else format_amount(name, amount)
    return f"{whole} {name}"
