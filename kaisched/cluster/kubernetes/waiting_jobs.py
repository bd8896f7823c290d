"""The order in which waiting jobs are reported: new reasons first, then all in turn."""

from __future__ import annotations

from collections.abc import Callable, KeysView
from typing import Final

import numpy as np

from kaisched.core.axis import IntVec, RowVec
from kaisched.core.snapshot import Snapshot
from kaisched.framework.report.result import Records

_NONE: Final = np.zeros(0, np.int64)
_SHARE: Final = 4
"""One of so many places in a round is for jobs without a new reason."""


class WaitingJobs:
    """The waiting jobs, kept from one cycle to the next. Rows last for one generation only."""

    def __init__(self, is_declared: Callable[[str], bool]) -> None:
        """Begin without jobs.

        Args:
            is_declared: tells whether a job has a pod group; such jobs have a line of their own.

        """
        self._is_declared = is_declared
        self._row_of_name: dict[str, int] = {}
        """Rows of the jobs that wait."""
        self._sign: IntVec = _NONE
        """``(J,)`` a number that changes with a job's reason or pod count; 0 if not waiting."""
        self._generation = -1
        self._rows: RowVec = _NONE
        self._urgent: tuple[dict[int, None], ...] = ({}, {})
        """Rows with a new reason: of jobs without, and of jobs with a pod group."""
        self._cursor = 0

    def update(self, snapshot: Snapshot, records: Records) -> list[str]:
        """Take in the waiting jobs of a cycle; return those that wait no longer."""
        jobs, rows = snapshot.jobs, records.rows
        sign = np.zeros(len(jobs.name), np.int64)
        # Most reasons name the number of pods.
        alive = jobs.pending[rows] + jobs.active[rows]
        sign[rows] = (alive.astype(np.int64) << 16) + records.codes + 1
        if snapshot.generation != self._generation:
            old, gone = self._carried(snapshot, rows, len(sign))
        else:
            gone, old = [], np.zeros(len(sign), np.int64)
            old[: len(self._sign)] = self._sign
        gone += [jobs.name[row] for row in np.flatnonzero((old != 0) & (sign == 0)).tolist()]
        for job in gone:
            self._row_of_name.pop(job, None)
        for row in np.flatnonzero((sign != old) & (sign != 0)).tolist():
            name = jobs.name[row]
            self._row_of_name[name] = row
            self._urgent[self._is_declared(name)][row] = None
        self._generation, self._rows, self._sign = snapshot.generation, rows, sign
        return gone

    def _carried(self, snapshot: Snapshot, rows: RowVec, count: int) -> tuple[IntVec, list[str]]:
        """Return the old numbers by the new rows, and the jobs that wait no longer."""
        names, before, was = snapshot.jobs.name, self._row_of_name, self._sign
        old = np.zeros(count, np.int64)
        urgent = {*self._urgent[0], *self._urgent[1]}
        self._urgent, self._row_of_name = ({}, {}), {}
        for row in rows.tolist():
            name = names[row]
            if (then := before.pop(name, -1)) >= 0:
                old[row] = was[then]
                self._row_of_name[name] = row
                if then in urgent:
                    self._urgent[self._is_declared(name)][row] = None
        self._cursor = 0
        return old, list(before)

    @property
    def names(self) -> KeysView[str]:
        """The jobs that waited in the last cycle taken in."""
        return self._row_of_name.keys()

    def next_rows(self, most: int, *, with_old: bool = True) -> list[int]:
        """Return the rows of the waiting jobs to report next; all have their turn.

        Args:
            most: how many rows at most.
            with_old: include jobs without a new reason.

        """
        found: list[int] = []
        lines = [it for it in self._urgent if it]
        while lines and len(found) < most - most // _SHARE:
            for news in lines:
                row = next(iter(news))
                del news[row]
                if self._sign[row]:
                    found.append(row)
            lines = [it for it in lines if it]
        if not with_old:
            return found
        start = int(np.searchsorted(self._rows, self._cursor))
        line = np.concatenate([self._rows[start:], self._rows[:start]])[: most - len(found)]
        if line.size:
            self._cursor = int(line[-1]) + 1
        taken = set(found)
        return found + [row for row in line.tolist() if row not in taken]
