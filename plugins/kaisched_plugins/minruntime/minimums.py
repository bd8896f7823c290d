"""The minimum runtime that holds for each queue, as columns over all queues at once.

A value of -1 is unset. Every column has one more entry than there are queues, the default, which an
unknown queue (row -1) gets.
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from kaisched import BoolVec, FloatVec

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


def inherited(tree: Tree, own_s: FloatVec, default_s: float) -> FloatVec:
    """Return ``(Q + 1,)`` the value of each queue, or of the nearest queue above that has one."""
    resolved = np.append(own_s, default_s)
    for level in tree.levels:
        above = resolved[tree.parent_of_queue[level]]  # -1 above a root: the default
        resolved[level] = np.where(own_s[level] >= 0, own_s[level], above)
    return resolved


def seen_from(tree: Tree, leaf: int, resolved_s: FloatVec) -> FloatVec:
    """Return ``(Q + 1,)`` the minimum that protects each queue from a claim of ``leaf``.

    It is the value of the victim's branch: of the queue directly below the lowest common queue of
    both. Without a common queue it is the value of the victim's root.
    """
    parent = tree.parent_of_queue
    is_common = np.zeros(len(parent) + 1, np.bool_)
    is_common[-1] = True
    queue = leaf
    while queue >= 0:
        is_common[queue] = True
        queue = int(parent[queue])
    start = np.arange(len(parent) + 1)
    for level in tree.levels:
        above = parent[level]
        start[level] = np.where(is_common[above], level, start[above])
    return resolved_s[start]


def is_protected(start_s: FloatVec, minimum_s: FloatVec, now_s: float) -> BoolVec:
    """Tell ``(K,)`` which jobs started less than their minimum ago; NaN means never started."""
    return np.asarray(now_s < start_s + minimum_s)
