"""Times of jobs that lie in the future, because some clock is wrong: they count as now.

*Now* is when such a time is first seen, so that nobody is protected for longer than by a start at
that moment. What was in the future only by our own clock counts as it is once that is right again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from kaisched.core.tables import EVICTED

if TYPE_CHECKING:
    from kaisched.cluster.rowstore import RowStore
    from kaisched.core.axis import FloatVec

_START, _EVICTION = _KINDS = range(2)


class FutureTimes:
    """The last starts and evictions of jobs in the future, each with when it was first seen."""

    def __init__(self, rows: RowStore) -> None:
        """Know of none."""
        self._rows = rows
        self._seen_s: dict[tuple[int, str, float], float] = {}
        """By kind, job and the time as it was given."""

    def turn(self, now_s: float) -> None:
        """Let no start or eviction lie in the future; before every snapshot."""
        rows_of = self._rows.jobs.row_of_name
        for (kind, job, given_s), seen_s in list(self._seen_s.items()):
            row = rows_of.get(job, -1)
            if row < 0 or given_s <= now_s:
                del self._seen_s[kind, job, given_s]
                if row >= 0 and self._column(kind)[row] == seen_s:
                    self._put(kind, row, given_s)
        for kind in _KINDS:
            column = self._column(kind)
            for row in np.flatnonzero(column > now_s).tolist():
                key = kind, self._rows.jobs.name.data[row], float(column[row])
                self._put(kind, row, self._seen_s.setdefault(key, now_s))

    def _column(self, kind: int) -> FloatVec:
        jobs, size = self._rows.jobs, self._rows.jobs.size
        found: FloatVec = jobs.last_start_s.data if kind == _START else jobs.rare.data[:, EVICTED]
        return found[:size]

    def _put(self, kind: int, row: int, at_s: float) -> None:
        self._rows.touch()
        if kind == _START:
            self._rows.jobs.last_start_s.own()[row] = at_s
        else:
            self._rows.jobs.set_rare(row, EVICTED, at_s)
