"""Whom a claim takes from: the walk to the queue with the highest share, and two rules of fairness.

Rules F10 to F14 of docs/explanation/fair-sharing.md. The incoming work is counted in its queue for
as long as the search goes on; victims leave as they are chosen. The sequence that comes out does
not depend on when the claim fits: whoever asks stops when it does.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from heapq import heapify, heappop, heapreplace
from typing import Any, Final

from kaisched_plugins.fair_sharing.holdings import Holdings
from kaisched_plugins.fair_sharing.order import meeting
from kaisched_plugins.fair_sharing.share import Ratio, Share, Terms
from kaisched_plugins.fair_sharing.work import Work, victim_key

FINAL: Final = "LessThanOrEqualToFinalShare"
INITIAL: Final = "LessThanInitialShare"
STRATEGIES: Final = (FINAL, INITIAL)


class _Highest:
    """A quotient that sorts the other way round: the highest first."""

    __slots__ = ("ratio",)

    def __init__(self, ratio: Ratio) -> None:
        self.ratio = ratio

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Highest) and self.ratio == other.ratio

    __hash__ = None  # type: ignore[assignment]

    def __lt__(self, other: _Highest) -> bool:
        return other.ratio < self.ratio


def _falling(share: Share) -> tuple[Any, ...]:
    return not share.is_infinite, -share.near, _Highest(share.exact)


class Walk:
    """Goes from the root to the queue that borrows the most, again and again."""

    def __init__(
        self,
        holdings: Holdings,
        taker: int,
        lines: Mapping[int, Sequence[Work]],
        *,
        contested: Sequence[int],
        by_size: bool,
    ) -> None:
        """Lay out the victims: a line of them for each queue, the first to go first."""
        self._holdings = holdings
        self._contested = contested
        self._taker = taker
        self._by_size = by_size
        self._path = set(holdings.rows.path(taker))
        self._lines = lines
        self._at = dict.fromkeys(lines, 0)
        self._stamp: dict[int, int] = {}
        self._heaps: dict[int, list[tuple[Any, ...]]] = {}
        self._root = holdings.rows.path(taker)[-1]
        self._below: dict[int, list[int]] = {}
        """Children with victims, of queues at which the walk has not been yet."""
        parent, known = holdings.rows.parent, set[int]()
        for queue in lines:
            node = queue
            while node >= 0 and node not in known:
                known.add(node)
                self._below.setdefault(parent[node], []).append(node)
                node = parent[node]

    def next_queue(self) -> int:
        """Return the queue to take from, -1 when there is none any more."""
        if self._root == self._taker:
            is_open = self._stamp.get(self._root, 0) >= 0 and self.head(self._root) is not None
            return self._root if is_open else -1
        node = self._root
        while True:
            child = self._highest(node)
            if child in self._lines:
                return child
            if child >= 0:
                node = child
            elif node == self._root:
                return -1
            else:
                self.drop(node)
                node = self._root

    def head(self, queue: int) -> Work | None:
        """Return the next victim of a queue."""
        line, at = self._lines.get(queue, ()), self._at.get(queue, 0)
        return line[at] if at < len(line) else None

    def step(self, queue: int) -> None:
        """Go on to the next victim of a queue."""
        self._at[queue] += 1

    def drop(self, queue: int) -> None:
        """Leave a queue out for good."""
        self._stamp[queue] = -1

    def changed(self, queue: int) -> None:
        """Look again at a queue of which work was taken, and at those above it."""
        for node in self._holdings.rows.path(queue):
            above = self._holdings.rows.parent[node]
            heap = self._heaps.get(above)
            if heap is not None and self._stamp.get(node, 0) >= 0:
                self._stamp[node] = self._stamp.get(node, 0) + 1
                entry = self._entry(node)
                if heap and heap[0][-1] == node:
                    heapreplace(heap, entry)
                else:
                    heap.append(entry)
                    heapify(heap)

    def _highest(self, node: int) -> int:
        """Return the child with the highest share; those that no longer count are left out."""
        heap = self._heaps.get(node)
        if heap is None:
            heap = [self._entry(child) for child in self._below.pop(node, ())]
            heapify(heap)
            self._heaps[node] = heap
        while heap:
            stamp, child = heap[0][-2:]
            if stamp != self._stamp.get(child, 0) or not self._counts(child):
                heappop(heap)
                continue
            return int(child)
        return -1

    def _counts(self, child: int) -> bool:
        if child in self._lines:
            if self.head(child) is None:
                self.drop(child)
                return False
            is_kept = child == self._taker
        else:
            is_kept = child in self._path
        if is_kept or self._holdings.is_over(child, self._contested):
            return True
        self.drop(child)
        return False

    def _entry(self, queue: int) -> tuple[Any, ...]:
        """Return what siblings are compared by, and what tells an entry that is out of date."""
        falling = _falling(self._holdings.terms(queue).share)
        tie: tuple[Any, ...] = (0, -queue)
        if queue in self._lines:
            head = self.head(queue)
            rows = self._holdings.rows
            key = () if head is None else victim_key(rows, self._taker, head, by_size=self._by_size)
            tie = (1, key)
        return *falling, tie, self._stamp.get(queue, 0), queue


def targets(
    holdings: Holdings,
    incoming: Work,
    lines: Mapping[int, Sequence[Work]],
    contested: Sequence[int],
    strategies: Sequence[str] = STRATEGIES,
    *,
    by_size: bool = False,
) -> Iterator[Work]:
    """Yield victims in the order in which they are taken; each has left when it is yielded.

    ``holdings`` have the incoming work in them, and have lost the victims at the end. ``lines`` are
    the victims of each queue, first to go first; ``contested`` the rows that the claim lacks.
    """
    if incoming.is_high:
        yield from _by_priority(holdings, incoming, lines, contested, by_size=by_size)
        return
    walk = Walk(holdings, incoming.queue, lines, contested=contested, by_size=by_size)
    is_reclaim = holdings.is_within(incoming.queue, contested)
    spared: dict[int, list[Work]] = {}
    while (queue := walk.next_queue()) >= 0:
        if queue == incoming.queue or is_reclaim:
            work = walk.head(queue)
            assert work is not None  # a queue without any is left out
            walk.step(queue)
            holdings.take(queue, work.ask)
            walk.changed(queue)
            yield work
            continue
        taken = _fair(holdings, incoming.queue, queue, walk, strategies[0], spared)
        walk.changed(queue)
        if taken is not None:
            yield taken
    if len(strategies) > 1:
        yield from _greedy(holdings, incoming.queue, spared, contested, by_size=by_size)


def _by_priority(
    holdings: Holdings,
    incoming: Work,
    lines: Mapping[int, Sequence[Work]],
    contested: Sequence[int],
    *,
    by_size: bool,
) -> Iterator[Work]:
    """Yield the least important of all queues that borrow, whatever their shares are."""
    rows, taker = holdings.rows, incoming.queue
    everybody = [work for line in lines.values() for work in line]
    # No queue is told apart, not even the claim's own: all are compared as that of some other.
    everybody.sort(key=lambda work: victim_key(rows, -1, work, by_size=by_size))
    for work in everybody:
        queue = work.queue
        if queue == taker or borrows_up_to(holdings, taker, queue, contested):
            holdings.take(queue, work.ask)
            yield work


def borrows_up_to(holdings: Holdings, taker: int, queue: int, at: Sequence[int]) -> bool:
    """Tell whether a queue, and all above it below the meeting point, borrow any of some rows."""
    _, top = meeting(holdings, taker, queue)
    while holdings.is_over(queue, at):
        if queue == top:
            return True
        queue = holdings.rows.parent[queue]
    return False


def _fair(
    holdings: Holdings,
    taker: int,
    queue: int,
    walk: Walk,
    strategy: str,
    spared: dict[int, list[Work]],
) -> Work | None:
    """Return the first victim of a queue that passes; of the others the first is spared for now."""
    mine, theirs = meeting(holdings, taker, queue)
    share, before = holdings.terms(mine), holdings.terms(theirs).share
    if not could_pass(holdings, share, before):
        head = walk.head(queue)
        assert head is not None  # a queue without any is left out
        spared.setdefault(queue, [head])
        walk.drop(queue)
        if walk.head(taker) is None:  # nothing lowers the claim's share any more
            walk.drop(theirs)
        return None
    while (work := walk.head(queue)) is not None:
        walk.step(queue)
        holdings.take(queue, work.ask)
        if strategy == FINAL:
            passes = share.share <= holdings.terms(theirs).share
        else:
            passes = share.share < before
        if passes:
            return work
        holdings.add(queue, work.ask)
        spared.setdefault(queue, [work])
    return None


def could_pass(holdings: Holdings, mine: Terms, theirs: Share) -> bool:
    """Tell whether any victim of a queue could pass a strategy, by the shares alone.

    Its share falls with each of them, unless another resource is the dominant one.
    """
    if not mine.is_borrowing:
        return True
    return mine.share < theirs or (holdings.rows.has_several and mine.share == theirs)


def _greedy(
    holdings: Holdings,
    taker: int,
    spared: Mapping[int, Sequence[Work]],
    contested: Sequence[int],
    *,
    by_size: bool,
) -> Iterator[Work]:
    """Yield what only the second rule allows: the first of each queue, once, and no more."""
    walk = Walk(holdings, taker, spared, contested=contested, by_size=by_size)
    while (queue := walk.next_queue()) >= 0:
        mine, theirs = meeting(holdings, taker, queue)
        share = holdings.terms(mine)
        work = walk.head(queue)
        assert work is not None  # a queue without any is left out
        walk.drop(queue)
        if share.share < holdings.terms(theirs).share:
            holdings.take(queue, work.ask)
            walk.changed(queue)
            yield work
