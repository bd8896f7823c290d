"""Opening hours: the spans of virtual time in which jobs arrive."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from kaisched.core.axis import FloatVec

DAY_S: Final = 86_400.0
_DAYS: Final = 7


class OpenTime:
    """Spans of time, put end to end, which map open time to virtual time."""

    def __init__(self, spans: Sequence[tuple[float, float]]) -> None:
        """Take spans in seconds, in order and without overlaps."""
        self._begin = np.array([begin for begin, _ in spans], np.float64)
        lengths = np.array([end - begin for begin, end in spans], np.float64)
        self._upto = np.cumsum(lengths)

    @property
    def length_s(self) -> float:
        """Length of all spans together."""
        return float(self._upto[-1]) if len(self._upto) else 0.0

    def lay_out(self, open_s: FloatVec) -> FloatVec:
        """Return the instants at which this much open time has passed, each below the length."""
        span = np.searchsorted(self._upto, open_s, side="right")
        before = np.concatenate(([0.0], self._upto[:-1]))
        instants: FloatVec = self._begin[span] + (open_s - before[span])
        return instants


def always(begin_s: float, end_s: float) -> OpenTime:
    """Return the time from begin to end."""
    return OpenTime([(begin_s, end_s)] if end_s > begin_s else [])


def weekly(
    begin_s: float,
    end_s: float,
    *,
    days: Sequence[int],
    opens_s: float,
    closes_s: float,
    first_day: int,
) -> OpenTime:
    """Return the opening hours of some weekdays between begin and end.

    ``days`` and ``first_day``, the weekday at time 0, count from 0. Hours are in seconds of the
    day.
    """
    spans = []
    for day in range(int(begin_s // DAY_S), int(end_s // DAY_S) + 1):
        if (first_day + day) % _DAYS in days:
            opens = max(day * DAY_S + opens_s, begin_s)
            closes = min(day * DAY_S + closes_s, end_s)
            if closes > opens:
                spans.append((opens, closes))
    return OpenTime(spans)
