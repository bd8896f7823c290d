"""Fills nodes with identical pods: three algorithms with the same answer.

The answer is the greedy one: each pod goes to the node with the highest score (the lower row wins a
tie), and a placed pod changes its node's score. Which algorithm is exact depends on how scores
change.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

    from kaisched.core.axis import FloatVec, IntVec, RowVec

_FEW = 12
"""Up to so many nodes are picked one by one, which is then faster than sorting all nodes (measured:
an arg-max over 5,000 nodes costs 2 us, a stable sort 300)."""


def fill_first(masked: FloatVec, room: IntVec, count: int) -> RowVec:
    """Fill the best node, then the next: exact when a node's score never falls as it fills.

    ``masked`` is the score, below 0 where there is no room; the room must suffice for ``count``.
    """
    picked: list[int] = []
    taken: list[int] = []
    kept: list[float] = []
    left = count
    while left > 0 and len(picked) < _FEW:
        best = int(masked.argmax())
        take = min(left, int(room[best]))
        picked.append(best)
        taken.append(take)
        kept.append(float(masked[best]))
        left -= take
        if left:
            masked[best] = -1.0
    for row, score in zip(picked, kept, strict=True):
        masked[row] = score
    if left:
        order = np.argsort(-masked, kind="stable")
        free = room[order]
        before = np.cumsum(free) - free
        needed = int(np.searchsorted(before, count))
        rows = order[:needed]
        counts = np.minimum(free[:needed], count - before[:needed])
        return np.repeat(rows, counts)
    return np.repeat(np.array(picked), taken)


def fill_level(score: FloatVec, rows: RowVec, room: IntVec, count: int) -> RowVec | None:
    """Take the ``count`` best cells of ``score`` ``(E, K)``: exact when scores never rise.

    ``score[e, i]`` is the score of node ``rows[i]`` with e pods added. None when some score rises.
    """
    depth = np.arange(len(score))[:, None]
    valid = depth < room[None, :]
    if len(score) > 1 and bool(((score[1:] > score[:-1]) & valid[1:]).any()):
        return None
    # Node-major, so that a tie goes to the lower row and, within it, to fewer pods first.
    flat = np.where(valid, -score, np.inf).T.ravel()
    best = np.argsort(flat, kind="stable")[:count]
    return rows[best // len(score)]


def fill_stepwise(
    masked: FloatVec,
    room: IntVec,
    count: int,
    score: Callable[[RowVec, IntVec], FloatVec],
) -> RowVec:
    """Choose nodes one by one, asking each chosen node's score again: always exact, but slow."""
    now = masked.copy()
    added = np.zeros(len(room), np.int64)
    chosen = np.empty(count, np.int64)
    for i in range(count):
        best = int(now.argmax())
        chosen[i] = best
        added[best] += 1
        if added[best] < room[best]:
            now[best] = score(np.array([best]), added[[best]])[0]
        else:
            now[best] = -1.0
    return chosen
