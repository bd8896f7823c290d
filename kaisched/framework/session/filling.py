"""Chooses nodes for equal pods, with or without a share of a GPU: one pod, or a batch.

The answer is the greedy one: each pod goes to the node with the highest score (the lower row wins a
tie), and a placed pod changes its node's score. Which algorithm is exact depends on how scores
change.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from kaisched.framework.session.cards import ON_OPEN_CARD

if TYPE_CHECKING:
    from collections.abc import Callable

    from kaisched.core.axis import BoolVec, CodeVec, FloatVec, IntVec, RowVec
    from kaisched.framework.session.capacity import Capacity
    from kaisched.framework.session.cards import Cards, Scores
    from kaisched.framework.session.node_sets import NodeSet
    from kaisched.framework.session.placement import Placement

_FEW = 12
"""Up to so many nodes are picked one by one, which is then faster than sorting all nodes (measured:
an arg-max over 5,000 nodes costs 2 us, a stable sort 300)."""


class Mask:
    """The scores of nodes with room, kept from one question about a shape to the next."""

    __slots__ = ("seen", "shares", "values")

    def __init__(self) -> None:
        """Know nothing yet."""
        self.values: FloatVec | None = None
        """``(N,)`` score where there is room, else -1."""
        self.seen = 0
        """How many of the capacity's touched rows the mask includes."""
        self.shares: ShareMask | None = None
        """The same for a shape with a share."""


class ShapePlan:
    """What is known this cycle of one shape."""

    __slots__ = (
        "bound",
        "cap",
        "cap_later",
        "codes",
        "filtered",
        "fresh",
        "judged",
        "mask",
        "moves",
        "one_of",
        "score",
        "seen",
        "shape",
        "whole",
    )

    def __init__(self, shape: int, whole: ShapePlan | None = None) -> None:
        """Know nothing yet; ``whole`` is the plan for all nodes, if this is one for some."""
        self.shape = shape
        self.whole = whole
        self.codes: CodeVec | None = None
        """``(N,)`` filter codes; None when every node is allowed."""
        self.filtered: CodeVec | None = None
        """The part of the codes that no move of devices changes, as plugins have answered."""
        self.one_of: CodeVec | None = None
        """``(N,)`` the codes before one node was left to pods that share a claim, or one domain to
        pods that have to be in one; else None."""
        self.judged = -1
        """How many of the capacity's touched rows the bound has taken in; -1 before it is asked."""
        self.moves = 0
        """How many moves of devices the codes include."""
        self.bound: IntVec | None = None
        """``(N,)`` bound by plugins; None for no bound."""
        self.cap: IntVec | None = None
        """``(N,)`` bound by plugins and devices; None for no bound."""
        self.cap_later: IntVec | None = None
        """The same once leaving pods have left, where devices are asked for; else None."""
        self.score: FloatVec | None = None
        self.seen = 0
        """How much of the capacity's touched rows the scores have taken in."""
        self.fresh: tuple[int, RowVec] | None = None
        """The last update of the scores: ``seen`` before it, and the rows."""
        self.mask = Mask()
        """The mask of the present room; replaced when more than amounts has changed."""

    @property
    def cap_once_released(self) -> IntVec | None:
        """``(N,)`` bound on pods once leaving pods have left; None for no bound."""
        return self.cap if self.cap_later is None else self.cap_later


class FreeCapacity(NamedTuple):
    """The free capacity for pods of a shape at one moment."""

    plan: ShapePlan
    room: IntVec
    """``(N,)`` pods on each node."""
    total: int
    mask: Mask | None
    """The mask of this room; None where no mask is kept."""


def fill_first(masked: FloatVec, room: IntVec, count: int) -> tuple[RowVec, IntVec]:
    """Fill the best node, then the next: exact when a node's score never falls as it fills.

    Return the nodes, and how many pods each gets. ``masked`` is the score, below 0 where there is
    no room; the room must suffice for ``count``.
    """
    picked: list[int] = []
    taken: list[int] = []
    kept: list[float] = []
    left = count
    while left > 0 and len(picked) < _FEW:
        best = int(masked.argmax())
        take = min(left, int(room[best]))
        picked.append(best)
        taken.append(take)
        kept.append(float(masked[best]))
        left -= take
        if left:
            masked[best] = -1.0
    for row, score in zip(picked, kept, strict=True):
        masked[row] = score
    if left:
        order = np.argsort(-masked, kind="stable")
        free = room[order]
        before = np.cumsum(free) - free
        needed = int(np.searchsorted(before, count))
        return order[:needed], np.minimum(free[:needed], count - before[:needed])
    return np.array(picked), np.array(taken)


def fill_stepwise(
    masked: FloatVec,
    room: IntVec,
    count: int,
    score: Callable[[RowVec, IntVec], FloatVec],
) -> RowVec:
    """Choose nodes one by one, asking each chosen node's score again: always exact, but slow."""
    now = masked.copy()
    added = np.zeros(len(room), np.int64)
    chosen = np.empty(count, np.int64)
    for i in range(count):
        best = int(now.argmax())
        chosen[i] = best
        added[best] += 1
        if added[best] < room[best]:
            now[best] = score(np.array([best]), added[[best]])[0]
        else:
            now[best] = -1.0
    return chosen


def choose_by_score(
    masked: FloatVec, room: IntVec, count: int, score: Scores, *, scores_rise: bool
) -> RowVec:
    """Return a node row for each of several equal pods, which have room.

    ``masked`` is the score of each node, below 0 where there is no room. Nodes are filled one after
    the other; where a score falls as its node fills, pods are placed one by one. ``scores_rise``
    is the plugins' promise that none falls.
    """
    rows, counts = fill_first(masked, room, count)
    if scores_rise or _rises(rows, counts, masked, score):
        return np.repeat(rows, counts)
    return fill_stepwise(masked, room, count, score)


def _rises(rows: RowVec, counts: IntVec, masked: FloatVec, score: Scores) -> bool:
    """Check that no node's score falls below its first while it is filled."""
    more = counts - 1
    again = rows.repeat(more)
    if not again.size:
        return True
    extra = np.arange(1, again.size + 1) - (more.cumsum() - more).repeat(more)
    return bool((score(again, extra) >= masked[again]).all())


class ShareMask:
    """The scores of nodes with room for a share, kept up with the moves of the cycle."""

    __slots__ = ("_is_above", "_opened", "_stale", "_values", "count", "seen")

    def __init__(
        self, values: FloatVec, opened: BoolVec, seen: int, *, highest: float = ON_OPEN_CARD
    ) -> None:
        """Begin with the scores of all nodes.

        Args:
            values: ``(N,)`` the score with the bonus of open cards, -1 where there is no room.
            opened: ``(N,)`` nodes with room that have an open card for the share.
            seen: how many of the capacity's touched rows this includes.
            highest: no score is higher without the bonus.

        """
        self._values = values
        self._opened: set[int] = set(opened.nonzero()[0].tolist())
        self._stale: set[int] = set()
        """Nodes with room whose score is not that of now: it is below that of any open card."""
        self._is_above = highest < ON_OPEN_CARD
        """Whether a node with an open card comes before all others, whatever plugins answer."""
        self.count = int(np.count_nonzero(values >= 0))
        """How many nodes have room."""
        self.seen = seen

    def update(self, touched: list[int], look: Callable[[int], tuple[bool, bool]]) -> None:
        """Take in the moves since the last update.

        ``look`` answers whether a node has room now, and whether it has an open card for the share.
        """
        opened, stale, values = self._opened, self._stale, self._values
        for row in set(touched[self.seen :]):
            opened.discard(row)
            self.count -= int(values[row] >= 0)
            has_room, has_open_card = look(row)
            if not has_room:
                values[row] = -1.0
                stale.discard(row)
                continue
            self.count += 1
            values[row] = 0.0
            stale.add(row)
            if has_open_card:
                opened.add(row)
        self.seen = len(touched)

    def best(self, score: Scores) -> int:
        """Return the node with the highest score, the lower row of equal ones.

        ``score`` answers the scores of some nodes without the bonus, and no more pods on them.
        """
        opened, stale = self._opened, self._stale
        if len(opened) == 1 and self._is_above:
            return next(iter(opened))
        asked = sorted(stale & opened if opened and self._is_above else stale)
        if asked:
            rows = np.array(asked)
            fresh = score(rows, np.zeros(rows.size, np.int64)).tolist()
            for row, value in zip(asked, fresh, strict=True):
                self._values[row] = value + ON_OPEN_CARD if row in opened else value
            stale.difference_update(asked)
        return int(self._values.argmax())


def choose_shares(
    placement: Placement, capacity: Capacity, cards: Cards, free: FreeCapacity, count: int
) -> RowVec:
    """Return a node row for each of some equal pods with shares, which have room."""
    plan, room, _, mask = free
    if count == 1 and mask is not None:
        return np.array([_choose_one(placement, cards, free, mask, capacity.touched)])
    score, shape = placement.scorer(plan.shape), plan.shape
    opened = cards.open_cards(shape, is_later=False)
    bonus = opened.bonus(capacity.cards_to_open)
    now = placement.scores(plan) + bonus(np.arange(len(room)), np.zeros(len(room), np.int64))
    masked = np.where(room > 0, now, -1.0)
    return fill_stepwise(masked, room, count, lambda *at: score(*at) + bonus(*at))


def next_share(
    placement: Placement, capacity: Capacity, plan: ShapePlan, shares: ShareMask
) -> int | None:
    """Return a node row for one pod with a share by its kept mask; None if it may be the last."""
    shape, codes, cards = plan.shape, plan.codes, capacity.cards_for(plan.shape)

    def look(row: int) -> tuple[bool, bool]:
        if codes is not None and codes[row]:
            return False, False
        if cards is not None and cards.has_open_card(shape, row):  # then amounts alone decide
            return capacity.has_amounts_now(shape, row), True
        return capacity.pods_now(shape, row) > 0, False

    if shares.seen < len(capacity.touched):
        shares.update(capacity.touched, look)
    return shares.best(placement.scorer(shape)) if shares.count > 1 else None


def _choose_one(
    placement: Placement, cards: Cards, free: FreeCapacity, mask: Mask, touched: list[int]
) -> int:
    plan, room, _, _ = free
    shape, shares = plan.shape, mask.shares
    if shares is None:
        opened = (room > 0) & (cards.open_cards(shape, is_later=False).up_to_date() > 0)
        values = np.where(room > 0, placement.scores(plan) + ON_OPEN_CARD * opened, -1.0)
        highest = placement.highest_score
        shares = mask.shares = ShareMask(values, opened, len(touched), highest=highest)
    elif shares.seen < len(touched):
        shares.update(touched, lambda row: (bool(room[row] > 0), cards.has_open_card(shape, row)))
    return shares.best(placement.scorer(shape))


def choose_within(
    nodes: NodeSet, free: FreeCapacity, count: int, choose: Callable[[FreeCapacity, int], RowVec]
) -> RowVec | None:
    """Return a node row for each of some equal pods; None where the bounds leave too little room.

    ``choose`` chooses among nodes that are equal in the order of the set.
    """
    order = nodes.order
    if order is None:
        return choose(free, count)
    most = None if nodes.most is None else nodes.most.get(free.plan.shape, {})
    chosen: list[RowVec] = []
    for rank in np.unique(order[free.room > 0]).tolist():
        room: IntVec = np.where(order == rank, free.room, 0)
        some = FreeCapacity(free.plan, room, int(room.sum()), None)
        take = min(count, some.total, count if most is None else most.get(rank, 0))
        if take:
            chosen.append(choose(some, take))
        count -= take
        if not count:
            return np.concatenate(chosen)
    return None
