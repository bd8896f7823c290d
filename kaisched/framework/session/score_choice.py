"""Chooses nodes for equal pods by scores alone, in the way that is exact for how scores change."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from kaisched.framework.session.fill import fill_first, fill_level, fill_stepwise

if TYPE_CHECKING:
    from kaisched.core.axis import FloatVec, IntVec, RowVec
    from kaisched.framework.session.cards import Scores

_LEVEL_CELLS: Final = 400_000
"""Above so many (node, extra pod) cells the table of scores is not built; an estimate, 3 MB."""


def choose_by_score(
    masked: FloatVec, room: IntVec, count: int, score: Scores, *, fills_first: bool
) -> RowVec:
    """Return a node row for each of several equal pods, which have room.

    ``masked`` is the score of each node, below 0 where there is no room; ``fills_first`` says that
    no score falls while a node is filled.
    """
    chosen = fill_first(masked, room, count)
    if fills_first or _rises(chosen, masked, score):
        return chosen
    open_rows = np.flatnonzero(room > 0)
    depth = int(min(count, room.max()))
    if open_rows.size * depth <= _LEVEL_CELLS:
        levels = [masked[open_rows]]
        levels += [score(open_rows, np.full(open_rows.size, it)) for it in range(1, depth)]
        level = fill_level(np.stack(levels), open_rows, room[open_rows], count)
        if level is not None:
            return level
    return fill_stepwise(masked, room, count, score)


def _rises(chosen: RowVec, masked: FloatVec, score: Scores) -> bool:
    """Check that no node's score fell below its first while it was filled."""
    rows, counts = np.unique(chosen, return_counts=True)
    again = np.repeat(rows, counts - 1)
    if not again.size:
        return True
    starts = np.repeat(np.cumsum(counts - 1) - (counts - 1), counts - 1)
    extra = np.arange(again.size) - starts + 1
    return bool((score(again, extra) >= masked[again]).all())
