"""History beside the live view: the last decisions by job, evictions, and the times of cycles.

It is bounded in number. What is in it are values that other parts of the turn have made anyway.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from kaisched.core.axis import CodeVec
    from kaisched.core.snapshot import Snapshot
    from kaisched.framework.intents import Bind, Evict, Nominate
    from kaisched.framework.report.records import CycleResult
    from kaisched.view.rows import Waiting
    from kaisched.view.samples import Sample

MOST_DECISIONS: Final = 20_000
"""Decisions that are kept, of all jobs together."""
MOST_CYCLES: Final = 300
"""Cycles whose times are kept."""


class Decisions(NamedTuple):
    """What one cycle decided on jobs."""

    cycle: int
    time_s: float
    binds: Sequence[Bind]
    evictions: Sequence[Evict]
    nominations: Sequence[Nominate]
    """Promises that are new."""
    waits: Mapping[str, int]
    """The code of the reason of each job that waits for another one than before."""

    @property
    def number(self) -> int:
        """How many decisions these are."""
        return sum(map(len, (self.binds, self.evictions, self.nominations, self.waits)))


class CycleTimes(NamedTuple):
    """How long one cycle took, and how much it did."""

    cycle: int
    time_s: float
    duration_s: float
    by_action: Mapping[str, float]
    by_plugin: Mapping[str, float]
    pending: int
    """Jobs that stay pending."""
    binds: int
    evictions: int
    nominations: int


@dataclass(frozen=True, slots=True)
class History:
    """What is kept of earlier cycles, the oldest first."""

    decisions: tuple[Decisions, ...] = ()
    cycles: tuple[CycleTimes, ...] = ()
    samples: tuple[Sample, ...] = ()

    def evictions(self) -> Iterator[tuple[Decisions, Evict]]:
        """Yield the evictions with their cycle, the latest first."""
        for decided in reversed(self.decisions):
            for evict in reversed(decided.evictions):
                yield decided, evict


NO_HISTORY: Final = History()


class Keeper:
    """Keeps the history from cycle to cycle, in the loop's thread."""

    def __init__(self, most: int = MOST_DECISIONS) -> None:
        """Start without a history that may have so many decisions."""
        self._most, self._count = most, 0
        self._decisions: deque[Decisions] = deque()
        self._cycles: deque[CycleTimes] = deque(maxlen=MOST_CYCLES)
        self._kept: tuple[Decisions, ...] = ()
        self._codes: CodeVec = np.zeros(0, np.int16)
        """``(J,)`` the code of each waiting job of the last cycle; 0 for the others."""
        self._names: Sequence[str] = ()
        self._generation = -1
        self._promised: frozenset[tuple[str, str]] = frozenset()

    def add(
        self, snapshot: Snapshot, waiting: Waiting, result: CycleResult, times: CycleTimes
    ) -> History:
        """Take in a cycle, and return the history with it."""
        new = [it for it in result.nominations if (it.pod, it.node) not in self._promised]
        self._promised = frozenset((it.pod, it.node) for it in result.nominations)
        decided = Decisions(
            times.cycle,
            times.time_s,
            result.binds[-self._most :],
            result.evictions[-self._most :],
            new[-self._most :],
            self._changed(snapshot, waiting),
        )
        self._cycles.append(times)
        if decided.number:
            self._decisions.append(decided)
            self._count += decided.number
            while self._count > self._most and len(self._decisions) > 1:
                self._count -= self._decisions.popleft().number
            self._kept = tuple(self._decisions)
        return History(self._kept, tuple(self._cycles))

    def _changed(self, snapshot: Snapshot, waiting: Waiting) -> dict[str, int]:
        """Return the jobs that wait for another reason than in the last cycle."""
        names = snapshot.jobs.name
        codes: CodeVec = np.zeros(len(names), np.int16)
        codes[waiting.rows] = waiting.codes
        old = np.zeros_like(codes)
        if snapshot.generation == self._generation:
            old[: len(self._codes)] = self._codes
        else:  # rows may have moved
            waited = np.flatnonzero(self._codes)
            known, now = list(self._names), list(names)  # lists are read faster, 20,000 times
            before = dict(
                zip(
                    [known[row] for row in waited.tolist()],
                    self._codes[waited].tolist(),
                    strict=True,
                )
            )
            old[waiting.rows] = [before.get(now[row], 0) for row in waiting.rows.tolist()]
        rows = np.flatnonzero((codes != 0) & (codes != old))[: self._most]
        self._codes, self._names, self._generation = codes, names, snapshot.generation
        return {names[row]: int(codes[row]) for row in rows.tolist()}
