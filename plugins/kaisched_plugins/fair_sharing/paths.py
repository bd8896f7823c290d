"""Answers about one queue at a time, by what is held along its path: where amounts do not add up.

So it is where a queue lends a part of its quota only, and where quotas are by flavor.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from kaisched import Amounts, BoolVec, FloatVec, IntVec, RowVec, Session
from kaisched_plugins.fair_sharing.columns import is_beyond
from kaisched_plugins.fair_sharing.holdings import Ask, Holdings
from kaisched_plugins.fair_sharing.order import entry_at
from kaisched_plugins.fair_sharing.tables import Table, some_of
from kaisched_plugins.fair_sharing.work import Work


def turn_keys(
    holdings: Holdings, queue: RowVec, leaf: RowVec, asks: Sequence[Ask]
) -> tuple[IntVec, IntVec, FloatVec, FloatVec]:
    """Return the key columns of F8 ``(K,)``, for queues on the paths of leaves that ask."""
    found = []
    for row, at, asked in zip(queue.tolist(), leaf.tolist(), asks, strict=True):
        entry = entry_at(holdings, row, Work(-1, at, asked))
        near, rest = entry.share.doubles()
        found.append((entry.borrows, entry.share.is_infinite, near, rest))
    columns = list(zip(*found, strict=True)) or [(), (), (), ()]
    return (
        np.array(columns[0], np.int64),
        np.array(columns[1], np.int64),
        np.array(columns[2], np.float64),
        np.array(columns[3], np.float64),
    )


def borrow_for_good(holdings: Holdings, table: Table, queue: RowVec, some: Amounts) -> BoolVec:
    """Tell, asked about leaves, where strict work would borrow on its path (F2, F4).

    ``holdings`` are of strict work, and ``some`` is ``(F, K)``.
    """
    over = np.zeros(len(queue), np.bool_)
    for at in np.flatnonzero(table.is_leaf[queue]).tolist():
        over[at] = is_beyond_quota(holdings, int(queue[at]), some_of(some[:, at]))
    return over


def would_borrow(session: Session, table: Table, leaf: int, ask: Amounts) -> bool:
    """Tell whether strict work would borrow on its path, where amounts add up (F4)."""
    path = session.queues.tree.path(leaf)
    firm = session.held_non_preemptible_now[:, path][table.rows]
    some = np.repeat(ask[table.rows, None], len(path), axis=1)
    return bool(is_beyond(table.quotas.subtree[:, path], firm, some).any())


def is_beyond_quota(holdings: Holdings, leaf: int, asked: Ask) -> bool:
    """Tell whether a queue on a path would hold more than its quota of what is asked for."""
    rows = [at for at, _ in asked]
    holdings.add(leaf, asked)
    over = any(holdings.is_over(node, rows) for node in holdings.rows.path(leaf))
    holdings.take(leaf, asked)
    return over


def are_full(holdings: Holdings, table: Table, queue: RowVec, some: Amounts) -> BoolVec:
    """Tell, asked about the leaf of a job, whether its path has no room now for ``(F, K)``."""
    full = np.zeros(len(queue), np.bool_)
    for at in np.flatnonzero(table.is_leaf[queue]).tolist():
        full[at] = not holdings.fits(int(queue[at]), some_of(some[:, at]))
    return full
