"""The bonus of nodes where a share gets an open card, kept up with the moves of the cycle.

Shares are placed one by one, and each asks about all nodes: only nodes with a move in between are
looked at again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from kaisched.core.axis import FloatVec, IntVec, RowVec

    Scores = Callable[[RowVec, IntVec], FloatVec]

ON_OPEN_CARD: Final = 10_000.0
"""What an open card with room adds to the score of a node: more than all that packs nodes."""


class Counting(Protocol):
    """The cards of a cycle, as far as they count pods."""

    moved: list[int]

    def on_open_cards(self, shape: int, rows: RowVec, *, is_later: bool) -> IntVec:
        """``(K,)`` pods of a shape with a share that fit on open cards, now or later."""
        ...

    def on_open_cards_of(self, shape: int, node: int, *, is_later: bool) -> int:
        """Return the same for one node."""
        ...

    def of_new_card(self, shape: int, rows: RowVec) -> IntVec:
        """``(K,)`` shares of a shape that fit on a card of each node that is whole."""
        ...

    def fills_open_cards(self, shape: int) -> bool:
        """Tell whether pods of a shape fill one open card after the other before they open one."""
        ...

    def next_fit(self, shape: int, node: int, whole: int, slots: int) -> Iterator[bool]:
        """Yield whether the next pod of a shape fits on open cards, then the one after it."""
        ...


class OpenCards:
    """Pods of one shape with a share that fit on open cards of each node, now or later."""

    __slots__ = ("_cards", "_is_later", "_per_card", "_room", "_seen", "_shape")

    def __init__(self, cards: Counting, shape: int, nodes: RowVec, *, is_later: bool) -> None:
        """Look at all nodes."""
        self._cards, self._shape, self._is_later = cards, shape, is_later
        self._room = cards.on_open_cards(shape, nodes, is_later=is_later)
        self._per_card = np.maximum(cards.of_new_card(shape, nodes), 1)
        self._seen = len(cards.moved)

    def up_to_date(self) -> IntVec:
        """``(N,)`` pods of the shape that fit on open cards, as of now."""
        moved = self._cards.moved
        if len(moved) > self._seen:
            rows = sorted(set(moved[self._seen :]))
            self._seen = len(moved)
            for row in rows:
                self._room[row] = self._cards.on_open_cards_of(
                    self._shape, row, is_later=self._is_later
                )
        return self._room

    def bonus(self, opens: Callable[[int], tuple[int, int]]) -> Scores:
        """Return the bonus of nodes where a pod of the shape gets an open card.

        It is asked with so many more pods of the shape on each node, which get cards one by one,
        and only until the next move. ``opens`` answers how many cards of a node can be opened, and
        how many pod slots it has free.
        """
        if not self._cards.fills_open_cards(self._shape):
            return self._bonus_by_pod(opens)
        opened, per_card = self.up_to_date(), self._per_card

        def bonus(rows: RowVec, extra: IntVec) -> FloatVec:
            beyond = extra - opened[rows]
            fits = (beyond < 0) | (beyond % per_card[rows] > 0)
            return np.where(fits, ON_OPEN_CARD, 0.0)

        return bonus

    def _bonus_by_pod(self, opens: Callable[[int], tuple[int, int]]) -> Scores:
        """Return the bonus where pods open cards beside open ones: each pod is looked at."""
        opened = self.up_to_date()
        answers: dict[int, list[bool]] = {}
        coming: dict[int, Iterator[bool]] = {}

        def fits(row: int, extra: int) -> bool:
            if not extra:
                return bool(opened[row] > 0)
            if row not in coming:
                answers[row] = []
                coming[row] = self._cards.next_fit(self._shape, row, *opens(row))
            known = answers[row]
            while len(known) <= extra:
                known.append(next(coming[row]))
            return known[extra]

        def bonus(rows: RowVec, extra: IntVec) -> FloatVec:
            has = [fits(*it) for it in zip(rows.tolist(), extra.tolist(), strict=True)]
            return np.where(has, ON_OPEN_CARD, 0.0)

        return bonus
