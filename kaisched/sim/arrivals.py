"""Where the jobs of a replay come from, one tick after the other."""

from __future__ import annotations

from itertools import groupby
from typing import Final, Protocol

from kaisched.sim.grid import NEVER

_NO_MORE: Final = (NEVER, 0, 0)


class Source(Protocol):
    """Says when jobs come. It may add jobs to the workload, and hears of each job that starts."""

    @property
    def next_tick(self) -> int:
        """The earliest tick at which jobs come, :data:`NEVER` without any."""
        ...

    def take(self, tick: int) -> range:
        """Return the jobs that come at this tick, which is the next."""
        ...

    def note_start(self, job: int, tick: int) -> None:
        """Take note that a job starts for the first time."""
        ...


class Listed:
    """The jobs of a workload that is known as a whole."""

    def __init__(self, arrival: list[int]) -> None:
        """Jobs stand in order of arrival."""
        self._batches = iter(_batches(arrival))
        self.next_tick, self._first, self._last = next(self._batches, _NO_MORE)

    def take(self, tick: int) -> range:  # noqa: ARG002 - always the next
        """Return the jobs that come next."""
        jobs = range(self._first, self._last)
        self.next_tick, self._first, self._last = next(self._batches, _NO_MORE)
        return jobs

    def note_start(self, job: int, tick: int) -> None:
        """Nothing depends on what starts."""


def _batches(arrival: list[int]) -> list[tuple[int, int, int]]:
    """Return (tick, first job, behind the last job) of the jobs that come together."""
    batches = []
    first = 0
    for tick, same in groupby(arrival):
        last = first + sum(1 for _ in same)
        batches.append((tick, first, last))
        first = last
    return batches
