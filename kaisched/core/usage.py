"""The usage vector: what each queue consumed lately, in the form that the division uses."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from kaisched.core.axis import IntVec

PARTS: Final = 1_000_000_000
"""Usage 1.0 (the whole capacity over the window) in parts."""


class UsageState(StrEnum):
    """How reliable a usage vector is."""

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
    """Age of the newest sample; infinite when there is none."""
    coverage: float
    """Share of the window that the samples cover, 0 to 1, from the first sample ever. So a new
    installation has full coverage."""
    state: UsageState = UsageState.FRESH
    reasons: tuple[str, ...] = ()
    """Problems and notes, one line each; empty without any."""
    weighed_s: float = math.inf
    """Whole seconds that the parts cover, old ones weighing less; infinite if the first sample's
    time is unknown."""
