"""Keys of queues with their heads: by shares, or by levels without fair sharing (F8, F20)."""

from __future__ import annotations

import numpy as np

from kaisched import Amounts, RowVec, Session
from kaisched_plugins.fair_sharing.classical.levels import borrowing_levels
from kaisched_plugins.fair_sharing.columns import Keys, order_keys
from kaisched_plugins.fair_sharing.order import keys_one_by_one
from kaisched_plugins.fair_sharing.tables import Now, Table


def head_keys(
    session: Session,
    table: Table,
    now: Now,
    queue: RowVec,
    job: RowVec,
    held: Amounts,
    ask: Amounts,
) -> Keys:
    """Return what queues ``(K,)`` are compared by before the priority of their heads."""
    leaf = table.home[session.jobs.queue_of_job[job]]
    borrows, is_infinite = np.zeros(len(queue), np.int64), np.zeros(len(queue), np.int64)
    near, rest = np.zeros(len(queue)), np.zeros(len(queue))
    is_on = table.is_on[queue]
    on, off = np.flatnonzero(is_on), np.flatnonzero(~is_on)
    some = ask[table.rows]
    if on.size:
        if table.quotas.lends_in_part:
            keys = keys_one_by_one(now.copy(session), queue[on], leaf[on], some[:, on])
        else:
            keys = order_keys(table.quotas, queue[on], held[table.rows][:, on], some[:, on])
        borrows[on], is_infinite[on], near[on], rest[on] = keys
    if off.size:
        columns = now.columns(session)
        borrows[off] = borrowing_levels(table.quotas, columns, leaf[off], some[:, off])
    return borrows, is_infinite, near, rest
