"""The usage vector: what each queue consumed lately, as the division sees it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from kaisched.core.axis import IntVec

PARTS: Final = 1_000_000_000
"""Usage 1.0 (the whole capacity over the window) in parts."""


class UsageState(StrEnum):
    """How far a usage vector can be trusted."""

    FRESH = "fresh"
    PARTIAL = "partial"
    """Recent, but something is missing or was refused; the reasons say what."""
    STALE = "stale"
    """Older than the staleness period."""
    ABSENT = "absent"
    """Nothing is known yet: all parts are 0."""


@dataclass(frozen=True, slots=True)
class Usage:
    """Decayed usage by queue, normalised to decayed capacity.

    ``parts`` is int64 ``(R, Q)`` in parts per billion: quantised, so that no float noise of a
    source reaches a decision.
    """

    parts: IntVec
    age_s: float
    """Since the newest sample; infinite when there is none."""
    coverage: float
    """Share of the window that the samples cover, 0 to 1, counted from the first sample ever: a new
    installation has covered all there was to cover."""
    state: UsageState = UsageState.FRESH
    reasons: tuple[str, ...] = ()
    """What is wrong or worth knowing, one line each; empty when nothing is."""
    weighed_s: float = math.inf
    """How many whole seconds the parts stand for, old ones weighing less; infinite where nobody
    knows since when there are samples."""
