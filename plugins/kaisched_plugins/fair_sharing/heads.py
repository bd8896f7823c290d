"""Keys of waiting jobs that are worked out one by one, from what is held now: F8 and F20."""

from __future__ import annotations

import numpy as np

from kaisched import Amounts, IntVec, RowVec, Session
from kaisched_plugins.fair_sharing.classical.levels import borrowing_levels
from kaisched_plugins.fair_sharing.columns import Keys
from kaisched_plugins.fair_sharing.order import entry_at
from kaisched_plugins.fair_sharing.tables import Now, Table
from kaisched_plugins.fair_sharing.work import Work


def turn_by_turn(
    session: Session, table: Table, now: Now, queue: RowVec, job: RowVec, ask: Amounts
) -> Keys:
    """Return the keys of now, where amounts do not add up."""
    holdings = now.copy(session)
    leaf = table.home[session.jobs.queue_of_job[job]].tolist()
    asks = ask[table.rows].T.tolist()
    found = []
    for at, row in enumerate(queue.tolist()):
        asked = [(each, amount) for each, amount in enumerate(asks[at]) if amount > 0]
        entry = entry_at(holdings, row, Work(-1, leaf[at], asked))
        near, rest = entry.share.doubles()
        found.append((entry.borrows, entry.share.is_infinite, near, rest))
    columns = list(zip(*found, strict=True)) or [(), (), (), ()]
    return (
        np.array(columns[0], np.int64),
        np.array(columns[1], np.int64),
        np.array(columns[2], np.float64),
        np.array(columns[3], np.float64),
    )


def levels(session: Session, table: Table, now: Now, job: RowVec, ask: Amounts) -> IntVec:
    """Return the levels at which jobs would borrow now (F20), ``(K,)``."""
    leaf = table.home[session.jobs.queue_of_job[job]]
    return borrowing_levels(table.quotas, now.columns(session), leaf, ask[table.rows])
