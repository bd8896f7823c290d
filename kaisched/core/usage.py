"""The usage vector: what each queue consumed lately, as the division sees it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from kaisched.core.axis import IntVec

PARTS: Final = 1_000_000_000
"""Usage 1.0 (the whole capacity over the window) in parts."""


@dataclass(frozen=True, slots=True)
class Usage:
    """Decayed usage by queue, normalised to decayed capacity.

    ``parts`` is int64 ``(R, Q)`` in parts per billion: quantised, so that no float noise of a
    source reaches a decision.
    """

    parts: IntVec
    age_s: float
    coverage: float
    """Share of the window that the samples cover, 0 to 1."""
