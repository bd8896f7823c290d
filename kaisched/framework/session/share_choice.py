"""Chooses nodes for pods with a share: one pod, or a batch of equal ones.

A batch gets the places of a choice one by one. Nodes with an open card come first, so where scores
rise as nodes fill, open cards are filled by counting, and then whole nodes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import numpy as np

from kaisched.framework.session.fill import fill_first, fill_stepwise
from kaisched.framework.session.open_cards import ON_OPEN_CARD
from kaisched.framework.session.share_mask import ShareMask

if TYPE_CHECKING:
    from kaisched.core.axis import FloatVec, IntVec, RowVec
    from kaisched.framework.session.cards import Cards, Scores
    from kaisched.framework.session.shape_plan import Mask, ShapePlan, Vacancy


class Scoring(Protocol):
    """The placement, as far as it answers scores."""

    highest_score: float
    """No node has a higher score."""
    fills_first: bool
    """True when every score promises to rise as equal pods fill a node."""

    def scores(self, plan: ShapePlan) -> FloatVec:
        """``(N,)`` scores as of now."""
        ...

    def scorer(self, shape: int) -> Scores:
        """Return what scores nodes with so many more pods of the shape."""
        ...


class Opening(Protocol):
    """The capacity, as far as it answers which cards can be opened."""

    touched: list[int]
    """Node rows in the order of their changes."""

    def cards_to_open(self, node: int) -> tuple[int, int]:
        """Return how many GPUs of a node shares may open, and its free pod slots, as of now."""
        ...

    def cards_for(self, shape: int) -> Cards | None:
        """Return the cards for a shape with a share; None for any other shape."""
        ...

    def pods_now(self, shape: int, node: int) -> int:
        """Return how many pods of a shape fit on a node, and on its cards, now."""
        ...

    def has_amounts_now(self, shape: int, node: int) -> bool:
        """Tell whether amounts suffice for a pod of a shape now, whatever cards say."""
        ...


def choose_shares(
    scoring: Scoring, capacity: Opening, cards: Cards, vacancy: Vacancy, count: int
) -> RowVec:
    """Return a node row for each of some equal pods with shares, which have room."""
    plan, room, _, mask = vacancy
    if count == 1 and mask is not None:
        return np.array([_choose_one(scoring, cards, vacancy, mask, capacity.touched)])
    score, shape = scoring.scorer(plan.shape), plan.shape
    opened = cards.open_cards(shape, is_later=False)
    is_above = scoring.fills_first and scoring.highest_score < ON_OPEN_CARD
    if is_above and cards.fills_open_cards(shape):
        fits = np.minimum(opened.up_to_date(), room)
        return _choose_by_counting(scoring.scores(plan), fits, room, count, score)
    bonus = opened.bonus(capacity.cards_to_open)
    now = scoring.scores(plan) + bonus(np.arange(len(room)), np.zeros(len(room), np.int64))
    masked = np.where(room > 0, now, -1.0)
    return fill_stepwise(masked, room, count, lambda *at: score(*at) + bonus(*at))


def next_share(
    scoring: Scoring, capacity: Opening, plan: ShapePlan, shares: ShareMask
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
    return shares.best(scoring.scorer(shape)) if shares.places > 1 else None


def _choose_one(
    scoring: Scoring, cards: Cards, vacancy: Vacancy, mask: Mask, touched: list[int]
) -> int:
    plan, room, _, _ = vacancy
    shape, shares = plan.shape, mask.shares
    if shares is None:
        opened = (room > 0) & (cards.open_cards(shape, is_later=False).up_to_date() > 0)
        values = np.where(room > 0, scoring.scores(plan) + ON_OPEN_CARD * opened, -1.0)
        highest = scoring.highest_score
        shares = mask.shares = ShareMask(values, opened, len(touched), highest=highest)
    elif shares.seen < len(touched):
        shares.update(touched, lambda row: (bool(room[row] > 0), cards.has_open_card(shape, row)))
    return shares.best(scoring.scorer(shape))


def _choose_by_counting(
    now: FloatVec, fits: IntVec, room: IntVec, count: int, score: Scores
) -> RowVec:
    """Fill the open cards of the best node, then of the next, then nodes without any that fits.

    ``now`` are the scores without the bonus, ``fits`` the pods that fit on open cards.
    """
    on_open = min(count, int(fits.sum()))
    chosen: list[RowVec] = []
    if on_open:
        chosen.append(fill_first(np.where(fits > 0, now + ON_OPEN_CARD, -1.0), fits, on_open))
    if count > on_open:
        rest = room - fits
        rows = rest.nonzero()[0]
        masked = np.full(len(room), -1.0)
        masked[rows] = score(rows, fits[rows])
        chosen.append(fill_first(masked, rest, count - on_open))
    return np.concatenate(chosen)
