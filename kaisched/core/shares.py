"""Values that follow from a queue's quota, limit, fair share and allocation.

Pure, elementwise functions over columns: amounts are int64 in base units, shaped `(R, K)`
(or `(R,)` for one queue) unless a docstring says otherwise. UNLIMITED is larger than any amount,
so most rules need no special case for it; a function that has one says so.
Rule numbers are those of docs/explanation/fairness.md.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from kaisched.units import UNLIMITED

Int64 = npt.NDArray[np.int64]
Float64 = npt.NDArray[np.float64]
Bool = npt.NDArray[np.bool_]
Index = npt.NDArray[np.intp]

NO_RESOURCE = -1

# A queue that holds a resource of which it may hold nothing comes last (R14).
FORBIDDEN_FACTOR = 1000


def requestable_share(request: Int64, limit: Int64) -> Int64:
    """Return what a queue may ask for: its request, capped by its limit (R2)."""
    return np.minimum(request, limit)


def allocatable_share(deserved: Int64, limit: Int64, fair_share: Int64) -> Int64:
    """Return what a queue may hold before other queues may reclaim from it (R13).

    The larger of quota and fair share, capped by the limit; the limit itself if the quota
    is UNLIMITED.
    """
    return np.minimum(np.maximum(deserved, fair_share), limit)


def dominant_share(allocated: Int64, allocatable: Int64, total: Int64) -> Float64:
    """Return the largest ratio of held to allocatable over the resources (R14).

    Args:
        allocated: `(R, K)`.
        allocatable: `(R, K)`; UNLIMITED stands for the whole `total`.
        total: `(R,)` what the cluster has.

    Returns:
        `(K,)` float64. Where nothing is allocatable the ratio is `allocated` times 1000.
        Division is correctly rounded, so equal ratios are equal floats.

    """
    whole = total[:, None]
    bound = np.where(allocatable == UNLIMITED, whole, allocatable)
    ratio = np.where(bound > 0, allocated / np.maximum(bound, 1), allocated * FORBIDDEN_FACTOR)
    return np.asarray(ratio.max(axis=0), dtype=np.float64)


def saturation_ratio(allocated: Int64, fair_share: Int64) -> Float64:
    """Divide held by fair share (R15): 0/0 is 0, x/0 is infinite, an unlimited share gives 0."""
    ratio = allocated / np.maximum(fair_share, 1)
    ratio = np.where((fair_share == 0) & (allocated > 0), np.inf, ratio)
    return np.asarray(np.where(fair_share == UNLIMITED, 0.0, ratio), dtype=np.float64)


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


def exceeds_all(held: Int64, bound: Int64) -> Bool:
    """Tell, `(K,)`, where `held` is above `bound` in every resource."""
    return np.asarray((held > bound).all(axis=0))


def is_within(held: Int64, bound: Int64) -> Bool:
    """Tell, `(K,)`, where `held` is at most `bound` in every resource."""
    return np.asarray((held <= bound).all(axis=0))


def is_over_quota(allocated: Int64, deserved: Int64) -> Bool:
    """Tell, `(K,)`, which queues are over quota: above it in at least one resource (R16)."""
    return exceeds_any(allocated, deserved)


def is_under_quota(allocated: Int64, deserved: Int64) -> Bool:
    """Tell, `(K,)`, which queues are under quota: strictly below it in every resource (R16)."""
    return np.asarray((allocated < deserved).all(axis=0))


def is_over_utilised(allocated: Int64, fair_share: Int64) -> Bool:
    """Tell, `(K,)`, which queues are strictly above the fair share in every resource (R16)."""
    return exceeds_all(allocated, fair_share)


def is_starved(allocated: Int64, ask: Int64, deserved: Int64) -> Bool:
    """Tell, `(K,)`, which queues stay within quota in every resource with `ask` added (R16)."""
    return is_within(allocated + ask, deserved)


def is_over(held: Int64, ask: Int64, bound: Int64) -> Bool:
    """Tell, elementwise, where `held + ask` passes `bound` in a resource asked for (R17)."""
    # Written as a difference: no sum that could overflow next to UNLIMITED.
    return np.asarray((ask > 0) & (bound < UNLIMITED) & (ask > bound - held))


def first_over(held: Int64, ask: Int64, bound: Int64, order: Sequence[int]) -> Index:
    """Find the first resource that would pass its bound (R17), for many queues at once.

    Args:
        held: `(R, K)` all that is held, or what is held non-preemptibly.
        ask: `(R, K)` what would be added.
        bound: `(R, K)` the limit, or with the non-preemptible part the quota.
        order: resource indices in the order in which to name them: CPU, memory, GPU, ...

    Returns:
        `(K,)` resource index, -1 where nothing is passed.

    """
    over = is_over(held, ask, bound)[list(order)]
    first = np.argmax(over, axis=0)
    named = np.asarray(order, dtype=np.intp)[first]
    return np.where(over.any(axis=0), named, np.intp(NO_RESOURCE))


def first_over_on_path(
    path: npt.NDArray[np.int32], held: Int64, ask: Int64, bound: Int64, order: Sequence[int]
) -> tuple[int, int] | None:
    """Find the queue nearest to the leaf that `ask` takes over its bound, and the resource (R17).

    Args:
        path: the leaf, its parent, ... up to the root, as `QueueTree.path` gives it.
        held: `(R, Q)` over all queues, as for `first_over`.
        ask: `(R,)` what one job or task asks for.
        bound: `(R, Q)` over all queues.
        order: as for `first_over`.

    Returns:
        `(queue, resource)`, or None if every queue on the path has room.

    """
    failed = first_over(held[:, path], ask[:, None], bound[:, path], order)
    at = np.flatnonzero(failed >= 0)
    if not len(at):
        return None
    return int(path[at[0]]), int(failed[at[0]])
