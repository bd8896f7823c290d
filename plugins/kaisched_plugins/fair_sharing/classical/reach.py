"""Which queues give way to a claim, and what entitles it to their work: F21 and F22."""

from __future__ import annotations

from enum import IntEnum

import numpy as np

from kaisched import IntVec, RowVec, Session
from kaisched_plugins.fair_sharing.holdings import Holdings
from kaisched_plugins.fair_sharing.work import Borrowing, Work


def borrowing_of(session: Session, queue: int) -> Borrowing:
    """Return whose work the claims of a queue may take while it borrows."""
    sharing = session.queues.sharing[queue]
    return Borrowing(sharing.borrowing, sharing.borrowing_up_to)


class Way(IntEnum):
    """What entitles a claim to a victim."""

    CLOSER = 0
    """The claim fits within the quota of a queue on its path that the victim is not below."""
    BORROWING = 1
    """``borrowWithinCohort`` lets the victim go even if the claim borrows."""
    QUOTA = 2
    """The claim's queue stays within its quota."""
    OWN = 3


class Reach:
    """What a claim is entitled to at one moment: before it starts, and before its victims go."""

    def __init__(self, holdings: Holdings, incoming: Work, borrowing: Borrowing) -> None:
        """Find the queues on the path within whose quota the claim fits."""
        rows, used = holdings.rows, holdings.used
        self._parent = rows.parent
        self._incoming = incoming
        self._borrowing = borrowing
        self._is_closer: dict[int, bool] = {}
        """By queue on the path: whether the claim fits within the quota of one below it."""
        fits, ask = False, list(incoming.ask)
        for node in rows.path(incoming.queue):
            self._is_closer[node] = fits
            has, local = used[node], rows.local[node]
            fits = fits or holdings.stays_within(node, ask)
            ask = [(at, max(0, amount - max(0, local[at] - has[at]))) for at, amount in ask]
        self._below: dict[int, tuple[int, ...]] = {}

    @property
    def may_borrow(self) -> bool:
        """Whether ``borrowWithinCohort`` lets any work go while the claim's queue borrows."""
        return self._borrowing.is_allowed

    def is_closer(self, node: int) -> bool:
        """Tell whether the claim is closer than work whose path meets its own at a queue."""
        return self._is_closer[node]

    def below(self, queue: int) -> tuple[int, ...]:
        """Return a queue and those above it, up to where its path meets that of the claim."""
        known = self._below.get(queue)
        if known is None:
            found = []
            node = queue
            while node >= 0 and node not in self._is_closer:
                found.append(node)
                node = self._parent[node]
            known = self._below[queue] = tuple(found)
        return known

    def ways(self, queue: RowVec, priority: IntVec) -> IntVec:
        """Return what entitles to work of queues of the same tree, ``(K,)``: a :class:`Way`."""
        own = self._incoming.queue
        found = np.where(
            self._borrowing.may_take(self._incoming.priority, priority), Way.BORROWING, Way.QUOTA
        )
        for each in np.unique(queue).tolist():
            if each == own:
                found[queue == each] = Way.OWN
            elif self._is_closer[self._parent[self.below(each)[-1]]]:
                found[queue == each] = Way.CLOSER
        return found
