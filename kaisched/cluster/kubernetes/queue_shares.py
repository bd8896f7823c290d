"""What queues are entitled to, how full they are, and how many of their jobs wait, for kubectl.

With usage history every fair share moves all the time. So queues take turns, a few in each round.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import numpy as np

from kaisched.cluster.kubernetes.statuses import quantities
from kaisched.core.axis import Amounts, IntVec
from kaisched.core.snapshot import Snapshot
from kaisched.core.tables import QueueTable
from kaisched.framework.report.records import QueueShare
from kaisched.framework.report.result import CycleResult, ShareTable, without_session

MOST_QUEUES: Final = 10
"""Queues whose status is computed per round."""


class QueueShares:
    """The part of the status of queues that changes with what others do."""

    def __init__(self) -> None:
        """Begin without queues."""
        self._queues: QueueTable | None = None
        self._numbers: Amounts = np.zeros((0, 0), np.int64)
        """``(X, Q)`` the numbers of which the status of each queue was last made."""
        self._next = 0

    def changed(
        self, snapshot: Snapshot, result: CycleResult
    ) -> Iterator[tuple[str, dict[str, Any]]]:
        """Yield (name, status) of a few queues for which it has changed, each in its turn."""
        shares = without_session(result.shares)
        if not isinstance(shares, ShareTable):
            return
        pending = pending_jobs(snapshot, result)
        numbers = np.vstack((shares.fair_share, shares.allocated, pending[None]))
        if shares.queues is not self._queues or numbers.shape != self._numbers.shape:
            self._numbers = np.full_like(numbers, -1)
            self._queues, self._next = shares.queues, 0
        rows = np.any(numbers != self._numbers, axis=0).nonzero()[0]
        rows = np.roll(rows, -int(np.searchsorted(rows, self._next)))[:MOST_QUEUES]
        for row in rows.tolist():
            self._numbers[:, row], self._next = numbers[:, row], row + 1
            yield shares.queues.name[row], share_status(shares[row], int(pending[row]))


def share_status(share: QueueShare, pending: int) -> dict[str, Any]:
    """Return the share of a queue as the status shows it; a null removes what was there."""
    fair = share.fair_share
    shown = quantities(fair)
    endless = quantities({name: 1 for name, amount in fair.items() if amount < 0})
    full = share.saturation
    return {
        "fairShare": {**shown, **dict.fromkeys(endless, "unlimited")},
        "saturation": None if full is None else f"{full:.0%}",
        "pendingJobs": pending,
    }


def pending_jobs(snapshot: Snapshot, result: CycleResult) -> IntVec:
    """Return ``(Q,)`` how many jobs stay pending in each queue and those below it."""
    queue = snapshot.jobs.queue_of_job[result.records.rows]
    count = np.bincount(queue[queue >= 0], minlength=len(snapshot.queues))
    before = np.concatenate([[0], np.cumsum(count)])
    found: IntVec = before[snapshot.queues.tree.end_of_queue] - before[:-1]
    return found
