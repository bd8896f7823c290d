"""Sources of the jobs of a replay, tick by tick."""

from __future__ import annotations

from itertools import groupby
from typing import Final, Protocol

from kaisched.sim.grid import NEVER

_NO_MORE: Final = (NEVER, 0, 0)


class Source(Protocol):
    """Source of jobs. It may add jobs to the workload, and is told of each job that starts."""

    @property
    def next_tick(self) -> int:
        """The earliest tick at which jobs arrive, :data:`NEVER` without any."""
        ...

    def take(self, tick: int) -> range:
        """Return the jobs that arrive at this tick, which is the next one with jobs."""
        ...

    def note_start(self, job: int, tick: int) -> None:
        """Note that a job starts for the first time."""
        ...


class Listed:
    """Source that lists the jobs of a workload known as a whole."""

    def __init__(self, arrival: list[int]) -> None:
        """Take the arrival tick of each job, in order."""
        self._batches = iter(_batches(arrival))
        self.next_tick, self._first, self._last = next(self._batches, _NO_MORE)

    def take(self, tick: int) -> range:  # noqa: ARG002 - always the next
        """Return the jobs that arrive next."""
        jobs = range(self._first, self._last)
        self.next_tick, self._first, self._last = next(self._batches, _NO_MORE)
        return jobs

    def note_start(self, job: int, tick: int) -> None:
        """Do nothing: no arrival depends on a start."""


def _batches(arrival: list[int]) -> list[tuple[int, int, int]]:
    """Return (tick, first job, end of the range) of the jobs that arrive together."""
    batches = []
    first = 0
    for tick, same in groupby(arrival):
        last = first + sum(1 for _ in same)
        batches.append((tick, first, last))
        first = last
    return batches
