"""The order of admission: a knock-out from the root, the lowest share first at every level.

Rules F8 and F9 of docs/explanation/fair-sharing.md. A share at a queue depends on that queue and on
the ask alone. So when somebody is admitted, nothing changes but the queues on the way up from it:
each inner queue keeps its contest as a heap, and one entry of it is replaced at every level.
"""

from __future__ import annotations

import math
from heapq import heapify, heappop, heapreplace
from typing import NamedTuple

from kaisched_plugins.fair_sharing.holdings import Holdings
from kaisched_plugins.fair_sharing.share import Share, Terms
from kaisched_plugins.fair_sharing.work import Work


class Entry(NamedTuple):
    """What one head is compared by at one level, low first."""

    high: float
    """The priority, negative, where it overrules fair sharing; else infinite."""
    is_no_preemptor: bool
    borrows: bool
    """True where the queue borrows any of what the head asks for."""
    share: Share
    priority: int
    """Negative."""
    created_s: float


def entry_of(terms: Terms, work: Work, *, borrows: bool, is_preemptor: bool = False) -> Entry:
    """Return the entry of a head at a queue that has these terms with it."""
    high = -work.priority if work.is_high else math.inf
    return Entry(high, not is_preemptor, borrows, terms.share, -work.priority, work.created_s)


def entry_at(holdings: Holdings, queue: int, work: Work) -> Entry:
    """Return the entry of a head at its queue or one above it, as if it were admitted."""
    holdings.add(work.queue, work.ask)
    terms = holdings.terms(queue)
    borrows = terms.is_borrowing and holdings.is_over(queue, [at for at, _ in work.ask])
    holdings.take(work.queue, work.ask)
    return entry_of(terms, work, borrows=borrows)


def goes_before(holdings: Holdings, one: Work, other: Work) -> bool:
    """Tell whether a head would win against another, where their paths meet."""
    mine, theirs = meeting(holdings, one.queue, other.queue)
    return entry_at(holdings, mine, one) < entry_at(holdings, theirs, other)


def meeting(holdings: Holdings, one: int, other: int) -> tuple[int, int]:
    """Return the queues on both paths just below where they meet; the roots of two trees."""
    path = holdings.rows.path(one)
    above = {node: at for at, node in enumerate(path)}
    theirs = other
    parent = holdings.rows.parent
    while parent[theirs] >= 0 and parent[theirs] not in above:
        theirs = parent[theirs]
    met = parent[theirs]
    return (path[above[met] - 1] if met >= 0 else path[-1]), theirs


Contest = list[tuple[Entry, int, Work]]
"""A heap of entries, with the row of the child and the head."""


class KnockOut:
    """Hands out heads in order, one of each queue; told which of them are admitted."""

    def __init__(self, holdings: Holdings, heads: list[Work]) -> None:
        """Let all heads compete."""
        self._holdings = holdings
        self._contests: dict[int, Contest] = {}
        self._head = {work.queue: work for work in heads}
        parent = holdings.rows.parent
        inner = {node for work in heads for node in holdings.rows.path(work.queue)}
        for queue in sorted(inner, reverse=True):  # children are known before their parent
            contest = self._contests.get(queue)
            if contest is not None:
                heapify(contest)
            work = self._winner(queue)
            assert work is not None  # a head is on every path
            self._contests.setdefault(parent[queue], []).append(self._entry(queue, work))
        heapify(self._contests.setdefault(-1, []))

    def pop(self) -> Work | None:
        """Return the next head; None when there is none."""
        contest = self._contests.get(-1)
        return contest[0][2] if contest else None

    def passed(self, work: Work, *, is_admitted: bool, follower: Work | None = None) -> None:
        """Say what came of the head handed out last, and who is next in its queue."""
        if is_admitted:
            self._holdings.add(work.queue, work.ask)
        if follower is None:
            del self._head[work.queue]
        else:
            self._head[work.queue] = follower
        parent = self._holdings.rows.parent
        for queue in self._holdings.rows.path(work.queue):
            contest = self._contests[parent[queue]]
            winner = self._winner(queue)  # it stood first in all contests on its way
            if winner is None:
                heappop(contest)
            else:
                heapreplace(contest, self._entry(queue, winner))

    def _winner(self, queue: int) -> Work | None:
        head = self._head.get(queue)
        if head is not None:
            return head
        contest = self._contests.get(queue)
        return contest[0][2] if contest else None

    def _entry(self, queue: int, work: Work) -> tuple[Entry, int, Work]:
        return entry_at(self._holdings, queue, work), queue, work
