"""Work that holds quota or asks for it: its order, who may take from whom, and in which order.

Rules F8 to F14 and F20 of docs/explanation/fair-sharing.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from heapq import heapify, heappop, heappush, heapreplace
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np

from kaisched import Amounts, BoolVec, FloatVec, IntVec, RowVec
from kaisched_plugins.fair_sharing.quotas import Ask, Holdings, Quotas, Rows, Share, Terms, quotient

# Work that holds quota or asks for it, who may take from whom, and in which order it is given up.
#
# Rules F11 and F12 of docs/explanation/fair-sharing.md.


NEVER: Final = "Never"
LOWER: Final = "LowerPriority"
LOWER_OR_NEWER: Final = "LowerOrNewerEqualPriority"
ANY: Final = "Any"

Key: TypeAlias = tuple[Any, ...]
KeyOf: TypeAlias = Callable[[int, int], Key]
"""Returns what decides between queues of equal shares: of a queue and a place in its line."""


class Work(NamedTuple):
    """A workload, or a part of one that goes by itself."""

    row: int
    """The caller's number for it."""
    queue: int
    ask: Ask
    """What it holds, or asks for."""
    priority: int = 0
    created_s: float = 0.0
    since_s: float = 0.0
    """Since when it holds what it holds."""
    name: str = ""
    usage: float = 0.0
    """What its queue used lately, for queues of one pool (F31)."""
    standing: int = 0
    """Inside a queue jobs below their minimum (0) go before those at it (1) and above it (2)."""
    is_high: bool = False
    """True for a priority that overrules fair sharing."""


class Borrowing(NamedTuple):
    """Whose work a claim may take while its queue borrows, in a tree without fair sharing."""

    policy: str = NEVER
    """NEVER or LOWER."""
    up_to: int | None = None
    """The highest priority that may go; None for any."""

    @property
    def is_allowed(self) -> bool:
        """Whether any may go."""
        return self.policy != NEVER

    def may_take(self, taker: int, priority: IntVec) -> BoolVec:
        """Tell, ``(K,)``, work of which priorities may go for work of another that borrows."""
        most = taker - 1 if self.up_to is None else min(taker - 1, self.up_to)
        return self.is_allowed & (priority <= most)


def may_take(policy: str, taker: Work, priority: IntVec, created_s: FloatVec) -> BoolVec:
    """Tell, ``(K,)``, which work a policy lets other work take, by priority and age (F11)."""
    if policy in (ANY, NEVER):
        return np.full(len(priority), policy == ANY)
    may: BoolVec = priority < taker.priority
    if policy == LOWER_OR_NEWER:
        may |= (priority == taker.priority) & (created_s > taker.created_s)
    else:
        assert policy == LOWER
    return may


def line_columns(
    since: FloatVec | IntVec, priority: IntVec, size: FloatVec | None, usage: FloatVec | None
) -> list[Any]:
    """Return the keys of victims of a queue for ``numpy.lexsort``, the most important last.

    Args:
        since: since when they hold what they hold, the last the lowest.
        priority: the lowest goes first.
        size: the smallest goes first (F12); None where sizes do not count.
        usage: what their queues used lately, for queues of one pool (F33); None without pools.

    """
    columns = (since, size, priority, None if usage is None else -usage)
    return [column for column in columns if column is not None]


def victim_key(rows: Rows, taker: int, work: Work, *, by_size: bool) -> Key:
    """Return what victims of all queues are ordered by, best first; ``taker`` is a queue.

    With ``by_size`` the smaller of equal priorities goes first, else only the newer one does.
    """
    return (
        work.queue == taker,
        work.priority,
        _size(rows, work.queue, work.ask) if by_size else 0,
        -work.since_s,
        work.name,
    )


def _size(rows: Rows, queue: int, ask: Ask) -> int:
    """Return the largest part that work is of what could be had of any resource."""
    amounts: dict[int, int] = {}
    for at, amount in ask:
        resource = rows.resource[at]
        amounts[resource] = amounts.get(resource, 0) + amount
    whole = rows.lendable[queue]
    parts = (quotient(each, whole[at]) for at, each in amounts.items() if whole[at] > 0)
    return max(parts, default=0)


# How high in its tree work borrows: rule F20 of docs/explanation/fair-sharing.md.


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


# What queues are compared by at each level of the knock-out, and where two of them meet.
#
# Rules F8 and F9 of docs/explanation/fair-sharing.md. A share at a queue depends on that queue and
# on the ask alone. So after an admission only the queues on its path have another share.


class Entry(NamedTuple):
    """What one head is compared by at one level, low first."""

    high: float
    """The priority, negative, where it overrules fair sharing; else infinite."""
    borrows: bool
    """True where the queue borrows any of what the head asks for."""
    share: Share
    priority: int
    """Negative."""
    created_s: float


def entry_of(terms: Terms, work: Work, *, borrows: bool) -> Entry:
    """Return the entry of a head at a queue that has these terms with it."""
    high = -work.priority if work.is_high else math.inf
    return Entry(high, borrows, terms.share, -work.priority, work.created_s)


def entry_at(holdings: Holdings, queue: int, work: Work) -> Entry:
    """Return the entry of a head at its queue or one above it, as if it were admitted."""
    holdings.add(work.queue, work.ask)
    terms = holdings.terms(queue)
    borrows = terms.is_borrowing and holdings.is_over(queue, [at for at, _ in work.ask])
    holdings.take(work.queue, work.ask)
    return entry_of(terms, work, borrows=borrows)


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


# Whom a claim takes from: the walk to the queue with the highest share, and two rules of fairness.
#
# Rules F10 to F14 of docs/explanation/fair-sharing.md. The incoming work is counted in its queue
# for as long as the search goes on; victims leave as they are chosen. The sequence that comes out
# does not depend on when the claim fits: whoever asks stops when it does.


FINAL: Final = "LessThanOrEqualToFinalShare"
INITIAL: Final = "LessThanInitialShare"


class Walk:
    """Goes from the root to the queue that borrows the most, again and again."""

    def __init__(
        self,
        holdings: Holdings,
        taker: int,
        lines: Mapping[int, Sequence[Work]],
        *,
        contested: Sequence[int],
        key: KeyOf,
    ) -> None:
        """Lay out the victims: a line of them for each queue, the first to go first."""
        self._holdings = holdings
        self._contested = contested
        self._taker = taker
        self._key_of = key
        self._path = set(holdings.rows.path(taker))
        self._lines = lines
        self._at = dict.fromkeys(lines, 0)
        """How many victims of each line have had their turn."""
        self._stamp: dict[int, int] = {}
        self._heaps: dict[int, list[tuple[Any, ...]]] = {}
        self._root = holdings.rows.path(taker)[-1]
        parent = holdings.rows.parent
        self._has_any = bytearray(len(parent))
        """By queue, whether there are victims at it or below it."""
        for queue in lines:
            node = queue
            while node >= 0 and not self._has_any[node]:
                self._has_any[node] = 1
                node = parent[node]

    def next_queue(self) -> int:
        """Return the queue to take from, -1 when there is none any more."""
        if self._root == self._taker:
            is_open = self._stamp.get(self._root, 0) >= 0 and not self._is_done(self._root)
            return self._root if is_open else -1
        node = self._root
        while True:
            child = self._highest(node)
            if child in self._at:
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
        return None if self._is_done(queue) else self._lines[queue][self._at[queue]]

    def _is_done(self, queue: int) -> bool:
        return queue not in self._at or self._at[queue] >= len(self._lines[queue])

    def at(self, queue: int) -> int:
        """Return the place of the next victim in the line of a queue."""
        return self._at[queue]

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
                (entry,) = self._entries([node])
                if heap and heap[0][-1] == node:
                    heapreplace(heap, entry)
                else:
                    heappush(heap, entry)

    def _highest(self, node: int) -> int:
        """Return the child with the highest share; those that no longer count are left out."""
        heap = self._heaps.get(node)
        if heap is None:
            children = self._holdings.rows.children[node]
            heap = self._entries([child for child in children if self._has_any[child]])
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
        if child in self._at:
            if self._is_done(child):
                self.drop(child)
                return False
            is_kept = child == self._taker
        else:
            is_kept = child in self._path
        if is_kept or self._holdings.is_over(child, self._contested):
            return True
        self.drop(child)
        return False

    def _entries(self, queues: list[int]) -> list[tuple[Any, ...]]:
        """Return what siblings are compared by, and what tells an entry that is out of date."""
        leaves, stamp = self._at, self._stamp
        shares = self._holdings.shares(queues)
        return [
            (
                not share.is_infinite,
                -share.exact,
                queue in leaves,
                self._key(queue),
                stamp.get(queue, 0),
                queue,
            )
            for queue, share in zip(queues, shares, strict=True)
        ]

    def _key(self, queue: int) -> Key:
        """Return what decides between equal shares: of inner queues the row, else the victim."""
        at = self._at.get(queue)
        if at is None or (at and self._is_done(queue)):
            return (-queue,)
        return queue == self._taker, self._key_of(queue, at)


def targets(
    holdings: Holdings,
    incoming: Work,
    lines: Mapping[int, Sequence[Work]],
    contested: Sequence[int],
    strategies: Sequence[str],
    key: KeyOf,
) -> Iterator[Work]:
    """Yield victims in the order in which they are taken; each has left when it is yielded.

    ``holdings`` have the incoming work in them, and have lost the victims at the end. ``lines`` are
    the victims of each queue, first to go first; ``contested`` the rows that the claim lacks.
    """
    if incoming.is_high:
        yield from _by_priority(holdings, incoming, lines, contested, key)
        return
    walk = Walk(holdings, incoming.queue, lines, contested=contested, key=key)
    is_reclaim = holdings.is_within(incoming.queue, contested)
    spared: dict[int, int] = {}
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
        some = {queue: (lines[queue][at],) for queue, at in spared.items()}
        yield from _greedy(
            holdings, incoming.queue, some, contested, lambda queue, _: key(queue, spared[queue])
        )


def _by_priority(
    holdings: Holdings,
    incoming: Work,
    lines: Mapping[int, Sequence[Work]],
    contested: Sequence[int],
    key: KeyOf,
) -> Iterator[Work]:
    """Yield the least important of all queues that borrow, whatever their shares are."""
    taker = incoming.queue
    everybody = [(queue, at) for queue, line in lines.items() for at in range(len(line))]
    for queue, at in sorted(everybody, key=lambda each: key(*each)):
        if queue == taker or borrows_up_to(holdings, taker, queue, contested):
            work = lines[queue][at]
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
    spared: dict[int, int],
) -> Work | None:
    """Return the first victim of a queue that passes; of the others the first is spared for now."""
    mine, theirs = meeting(holdings, taker, queue)
    share, before = holdings.terms(mine), holdings.terms(theirs).share
    if not could_pass(holdings, share, before):
        spared.setdefault(queue, walk.at(queue))
        walk.drop(queue)
        if walk.head(taker) is None:  # nothing lowers the claim's share any more
            walk.drop(theirs)
        return None
    while (work := walk.head(queue)) is not None:
        at = walk.at(queue)
        walk.step(queue)
        holdings.take(queue, work.ask)
        if strategy == FINAL:
            passes = share.share <= holdings.terms(theirs).share
        else:
            passes = share.share < before
        if passes:
            return work
        holdings.add(queue, work.ask)
        spared.setdefault(queue, at)
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
    key: KeyOf,
) -> Iterator[Work]:
    """Yield what only the second rule allows: the first of each queue, once, and no more."""
    walk = Walk(holdings, taker, spared, contested=contested, key=key)
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
