"""The pause between turns: longer while they are called for all the time, so that events add up.

Most of a turn on few events is the same for any number of them. While events come without end, a
turn after each of them would spend more on turns than on what they decide.
"""

from __future__ import annotations

from typing import Final

LEAST_S: Final = 0.05
"""Events that follow each other faster than this share a turn."""
MOST_S: Final = 0.15
"""Longest pause. A reclaim takes two turns: one evicts, a later one binds."""
_GROWTH: Final = 1.1
"""From the shortest to the longest pause it takes a second of turns without a rest."""
_TURNS: Final = 20.0
"""No pause is longer than so many turns take: there would be nothing to save."""


class Gap:
    """The pause after each turn."""

    def __init__(self) -> None:
        """Begin with the shortest."""
        self._s = LEAST_S

    def after(self, turn_s: float, *, is_pressed: bool) -> float:
        """Return how many seconds to pause after a turn.

        Args:
            turn_s: how long the turn took, in seconds.
            is_pressed: the turn was called for before the pause before it was over.

        """
        self._s = min(self._s * _GROWTH, MOST_S) if is_pressed else LEAST_S
        return max(min(self._s, turn_s * _TURNS), LEAST_S)
