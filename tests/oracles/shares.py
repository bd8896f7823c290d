"""Shares of queues as the rules write them; the product computes them among other things."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from kaisched.core.shares import FORBIDDEN_FACTOR, Bool, Index, Int64
from kaisched.units import UNLIMITED

Float64 = npt.NDArray[np.float64]
NO_RESOURCE = -1


def requestable_share(request: Int64, limit: Int64) -> Int64:
    """Return what a queue may ask for: its request, capped by its limit (R2)."""
    return np.minimum(request, limit)


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
