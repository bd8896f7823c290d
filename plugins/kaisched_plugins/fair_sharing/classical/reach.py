"""Which queues give way to a claim, and what entitles it to their work: F21 and F22."""

from __future__ import annotations

from enum import Enum

from kaisched_plugins.fair_sharing.holdings import Holdings
from kaisched_plugins.fair_sharing.work import Borrowing, Work


class Way(Enum):
    """What entitles a claim to a victim."""

    CLOSER = "closer"
    """The claim fits within the quota of a queue on its path that the victim is not below."""
    BORROWING = "borrowing"
    """``borrowWithinCohort`` lets the victim go even if the claim borrows."""
    QUOTA = "quota"
    """The claim's queue stays within its quota."""
    OWN = "own queue"


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
            has, quota, local = used[node], rows.subtree[node], rows.local[node]
            fits = fits or all(has[at] + amount <= quota[at] for at, amount in ask)
            ask = [(at, max(0, amount - max(0, local[at] - has[at]))) for at, amount in ask]
        self._below: dict[int, tuple[int, ...]] = {}

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

    def way(self, queue: int, priority: int) -> Way:
        """Return what entitles to work of a queue of the same tree, if anything does."""
        if queue == self._incoming.queue:
            return Way.OWN
        if self._is_closer[self._parent[self.below(queue)[-1]]]:
            return Way.CLOSER
        may_borrow = self._borrowing.may_take(self._incoming.priority, priority)
        return Way.BORROWING if may_borrow else Way.QUOTA
