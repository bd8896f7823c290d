"""Which node a share goes to, of those with room: asked again only where an answer could matter.

A node with an open card for the share comes before all others. So while there is only one, no
score is asked for, and while there are some, only theirs are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from kaisched.framework.session.open_cards import ON_OPEN_CARD

if TYPE_CHECKING:
    from collections.abc import Callable

    from kaisched.core.axis import BoolVec, FloatVec
    from kaisched.framework.session.cards import Scores


class ShareMask:
    """The scores of nodes with room for a share, kept up with the moves of the cycle."""

    __slots__ = ("_is_above", "_opened", "_stale", "_values", "places", "seen")

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
        self.places = int(np.count_nonzero(values >= 0))
        """How many nodes have room."""
        self.seen = seen

    def update(self, touched: list[int], look: Callable[[int], tuple[bool, bool]]) -> None:
        """Take in the moves since the last update.

        ``look`` answers whether a node has room now, and whether it has an open card for the share.
        """
        opened, stale, values = self._opened, self._stale, self._values
        for row in set(touched[self.seen :]):
            opened.discard(row)
            self.places -= int(values[row] >= 0)
            has_room, has_open_card = look(row)
            if not has_room:
                values[row] = -1.0
                stale.discard(row)
                continue
            self.places += 1
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
