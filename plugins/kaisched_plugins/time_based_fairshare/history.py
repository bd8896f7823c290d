"""Past usage as the division counts it: rules R23 and R24 of docs/explanation/fairness.md.

Usage, quotas and what follows from them are whole parts per billion of the cluster in float64, so
that their sums are exact in any order. Columns are in preorder, siblings side by side.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from kaisched import PARTS, UNLIMITED, Amounts, BoolVec, FloatVec, RowVec

Rows = NDArray[np.signedinteger[Any]]
"""Queue rows of whatever width."""


class Tree(Protocol):
    """The shape of the queues, parents before children."""

    @property
    def parent_of_queue(self) -> Rows:
        """``(Q,)`` -1 for a root."""
        ...

    @property
    def levels(self) -> tuple[Rows, ...]:
        """Queues by depth, roots first."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class Entitlement:
    """The parts of queues by quota and weight alone. ``(R, Q)`` parts per billion."""

    quota: FloatVec
    """The quota; an unlimited one is the whole part of the parent."""
    surplus: FloatVec
    """The rest of the parent's part after quotas: the same number for all siblings."""
    whole: FloatVec
    """The parent's part: the same number for all siblings."""
    own: FloatVec
    """The queue's part: its quota, and its weight's part of the surplus."""
    family: tuple[tuple[Rows, RowVec, RowVec], ...]
    """By depth: its queues, the start of each group of siblings among them, and the groups."""


def entitlement(tree: Tree, deserved: Amounts, weight: FloatVec, total: Amounts) -> Entitlement:
    """Divide the cluster by quotas and weights, as if every queue wanted all of it.

    Args:
        tree: ``Q`` queues.
        deserved: ``(R, Q)`` quotas, UNLIMITED for the whole part of the parent.
        weight: ``(R, Q)`` over-quota weights; 0 or less takes no surplus.
        total: ``(R,)`` what the cluster has.

    """
    size = np.maximum(total, 1)[:, None]
    is_unlimited = deserved == UNLIMITED
    quota = np.floor(np.where(is_unlimited, 0, deserved) / size * PARTS)
    surplus, whole, own = (np.empty(quota.shape) for _ in range(3))
    takes = np.maximum(weight, 0.0)
    family = []
    for rows in tree.levels:
        parent = tree.parent_of_queue[rows]
        start = np.flatnonzero(np.diff(parent, prepend=-2))
        group = np.repeat(np.arange(len(start)), np.diff(start, append=len(rows)))
        above = own[:, parent] if parent[0] >= 0 else np.full((len(own), len(rows)), float(PARTS))
        mine = np.where(is_unlimited[:, rows], above, quota[:, rows])
        left = np.maximum(above - np.add.reduceat(mine, start, axis=1)[:, group], 0.0)
        weights = takes[:, rows]
        sums = np.array([np.bincount(group, row, len(start)) for row in weights])[:, group]
        part = np.divide(weights, sums, out=np.zeros_like(weights), where=sums > 0)
        quota[:, rows], surplus[:, rows], whole[:, rows] = mine, left, above
        own[:, rows] = mine + np.floor(left * part)
        family.append((rows, start, group))
    return Entitlement(quota, surplus, whole, own, tuple(family))


def measured(
    parts: Amounts, has: Entitlement, *, is_of_siblings: bool, counts_quota: bool
) -> FloatVec:
    """Return the usage ``(R, Q)`` that counts against each queue, 0 to 1 for sound data.

    Args:
        parts: ``(R, Q)`` decayed usage at every level, parts per billion of the cluster.
        has: of the same queues.
        is_of_siblings: measure against the siblings' part (R24); else against the cluster.
        counts_quota: count what the quota covers too (R23).

    """
    counted = parts.astype(np.float64)
    if not counts_quota:
        counted -= has.quota
        np.maximum(counted, 0.0, out=counted)
    if not is_of_siblings:
        counted /= PARTS
        return counted
    reach = has.whole if counts_quota else has.surplus
    together = np.empty_like(counted)
    for rows, start, group in has.family:
        used = np.add.reduceat(counted.take(rows, axis=1), start, axis=1)
        together[:, rows] = used.take(group, axis=1)
    np.maximum(together, reach, out=together)
    # Where nothing may be used and nothing was, 0 / 1 is 0.
    np.maximum(together, 1.0, out=together)
    counted /= together
    return counted


def folded(k: float, usage: FloatVec, group: RowVec, weights: FloatVec) -> FloatVec:
    """Return ``max(0, W + k (W - U))`` ``(K,)``; groups without any usage keep their weights.

    Args:
        k: how strongly usage counts.
        usage: ``(K,)``.
        group: ``(K,)`` rows with the same number share one surplus.
        weights: ``(K,)`` normalised to 1 over each group.

    """
    has_usage: BoolVec = np.bincount(group, usage) > 0
    answer: FloatVec = np.maximum(weights + k * (weights - usage), 0.0)
    return np.where(has_usage.take(group), answer, weights)
