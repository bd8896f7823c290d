"""What queues are compared by, each with the first of its jobs: rules F8 and F20."""

from __future__ import annotations

from typing import Final

import numpy as np

from kaisched import Amounts, RowVec, Session
from kaisched_plugins.fair_sharing.choices import Choices
from kaisched_plugins.fair_sharing.classical.levels import borrowing_levels
from kaisched_plugins.fair_sharing.columns import Keys, order_keys
from kaisched_plugins.fair_sharing.paths import turn_keys
from kaisched_plugins.fair_sharing.tables import Now, Table, as_columns, some_of

KEYS: Final = (
    "borrows with the job (0 no, 1 yes; without fair sharing the level)",
    "infinite share with the job, or usage in a usage pool (0 no, 1 yes)",
    "share with the job, or usage in a usage pool",
    "share with the job, beyond 16 digits",
    "-priority of the job",
    "creation of the job",
)
"""Names of the keys of a queue with its best job."""


def head_keys(
    session: Session,
    table: Table,
    now: Now,
    choices: Choices | None,
    queue: RowVec,
    job: RowVec,
    held: Amounts,
    ask: Amounts,
) -> Keys:
    """Return key columns ``(K,)``: who borrows what is asked for, and the share.

    Without fair sharing the level at which the job borrows stands for both. ``choices`` say of
    which flavors jobs ask where amounts do not add up.
    """
    leaf, asks = table.home[session.jobs.queue_of_job[job]], ask[table.rows]
    if choices is not None:
        asked = [choices.asked(session, it, ask[:, at]) for at, it in enumerate(job.tolist())]
        asks = as_columns(asked, len(table.rows))
    borrows, is_infinite = np.zeros(len(queue), np.int64), np.zeros(len(queue), np.int64)
    near, rest = np.zeros(len(queue)), np.zeros(len(queue))
    is_on = table.is_on[queue]
    on, off = np.flatnonzero(is_on), np.flatnonzero(~is_on)
    if on.size:
        some = asks[:, on]
        if choices is None:
            keys = order_keys(table.quotas, queue[on], held[table.rows][:, on], some)
        else:
            each = [some_of(amounts) for amounts in some.T]
            keys = turn_keys(now.copy(session), queue[on], leaf[on], each)
        borrows[on], is_infinite[on], near[on], rest[on] = keys
    if off.size:
        used = now.columns(session)
        borrows[off] = borrowing_levels(table.quotas, used, leaf[off], asks[:, off])
    return borrows, is_infinite, near, rest
