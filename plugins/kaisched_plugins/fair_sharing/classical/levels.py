"""How high in its tree work borrows: rule F20 of docs/explanation/fair-sharing.md."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from kaisched import Amounts, IntVec, RowVec
from kaisched_plugins.fair_sharing.holdings import Ask, Holdings
from kaisched_plugins.fair_sharing.quotas import Quotas
from kaisched_plugins.fair_sharing.work import Work


class Level(NamedTuple):
    """The lowest queue on a path within whose subtree quota an amount fits; else the root."""

    height: int
    """How far the furthest leaf below that queue is; 0 for the leaf itself."""
    is_below_root: bool


def level_at(holdings: Holdings, queue: int, at: int, amount: int) -> Level:
    """Return the level at which a leaf gets so much more of a row."""
    rows, used = holdings.rows, holdings.used
    more = amount
    for node in rows.path(queue):
        above, has = rows.parent[node], used[node][at]
        if above < 0 or has + more <= rows.subtree[node][at]:
            return Level(rows.height[node], above >= 0)
        more -= max(0, rows.local[node][at] - has)
    raise AssertionError("a path ends at a root")


def borrowing_level(holdings: Holdings, queue: int, ask: Ask) -> int:
    """Return the highest level at which a leaf gets any part of what it asks for."""
    return max((level_at(holdings, queue, at, amount).height for at, amount in ask), default=0)


def borrowing_levels(quotas: Quotas, used: Amounts, leaf: RowVec, ask: Amounts) -> IntVec:
    """Return :func:`borrowing_level` of many asks ``(F, K)``, with what queues use ``(F, Q)``."""
    node, more = leaf.copy(), ask.copy()
    found, is_open = np.zeros_like(ask), ask > 0
    while np.count_nonzero(is_open):
        has, above = used[:, node], quotas.parent[node]
        fits = (above < 0) | (has + more <= quotas.subtree[:, node])
        found = np.where(is_open & fits, quotas.height[node], found)
        is_open &= ~fits
        more -= np.maximum(quotas.local[:, node] - has, 0)
        node = np.where(above < 0, node, above)
    levels: IntVec = found.max(axis=0, initial=0)
    return levels


def turn_of(holdings: Holdings, work: Work) -> tuple[float, int, int, float]:
    """Return what waiting work of a tree is ordered by, low first."""
    high = -work.priority if work.is_high else math.inf
    level = borrowing_level(holdings, work.queue, work.ask)
    return high, level, -work.priority, work.created_s
