"""Jobs as they arrive: drawn by chance in opening hours, listed by a trace, or from a backlog."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final
from zlib import crc32

import numpy as np

from kaisched.core.axis import FloatVec
from kaisched.sim.ticks import FOREVER, NEVER, run_ticks, tick_at
from kaisched.sim.workload import Gpus, JobKind, Workload


class Chance:
    """Makes streams."""

    def __init__(self, seed: int) -> None:
        """Take the seed of the run, at least 0."""
        self._seed = seed

    def stream(self, purpose: str, name: str) -> np.random.Generator:
        """Return the stream of a purpose and a name, from its beginning."""
        keys = [self._seed, crc32(purpose.encode()), crc32(name.encode())]
        return np.random.Generator(np.random.PCG64(np.random.SeedSequence(keys)))


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


MOST_JOBS: Final = 2_000_000
"""Most jobs of one group; a larger number is probably a wrong unit."""
_CHUNK: Final = 256


@dataclass(frozen=True, slots=True)
class JobSize:
    """One size of the jobs of a group."""

    kind: JobKind
    gpus: Gpus
    """In all."""
    share: float


@dataclass(frozen=True, slots=True)
class Length:
    """Run times in seconds: exponential with ``mean_s``, else lognormal with a median and sigma."""

    fixed_s: float | None = None
    """Upper bound; infinite for jobs that never end."""
    mean_s: float | None = None
    median_s: float = 0.0
    sigma: float = 0.0
    least_s: float = 0.0
    most_s: float = math.inf

    def draw(self, stream: np.random.Generator, count: int) -> FloatVec:
        """Draw this many run times."""
        if self.fixed_s is not None:
            return np.full(count, self.fixed_s)
        if self.mean_s is not None:
            drawn = stream.exponential(self.mean_s, count)
        else:
            drawn = stream.lognormal(math.log(self.median_s), self.sigma, count)
        return np.clip(drawn, self.least_s, self.most_s)


@dataclass(frozen=True, slots=True)
class Job:
    """A job before its arrival."""

    submitted_s: float
    ticks: int
    queue: int
    gpus: Gpus
    kind: JobKind
    group: str


class Bodies:
    """Sequence of the sizes and run times of a group's jobs."""

    def __init__(
        self,
        name: str,
        queue: int,
        sizes: Sequence[JobSize],
        length: Length,
        chance: Chance,
        step_s: float,
    ) -> None:
        """Start the random streams of this group."""
        self.name, self.queue, self.sizes = name, queue, sizes
        self._length = length
        self._step_s = step_s
        self._size_stream = chance.stream("sizes", name)
        self._length_stream = chance.stream("lengths", name)
        shares = np.array([size.share for size in sizes])
        self._upto = np.cumsum(shares) / shares.sum()
        self._drawn: list[tuple[JobSize, int]] = []
        """Jobs that were drawn and not made yet, the next one last."""

    def make(self, submitted_s: float) -> Job:
        """Return the next job."""
        if not self._drawn:
            self._drawn = self._draw()
        size, ticks = self._drawn.pop()
        return Job(submitted_s, ticks, self.queue, size.gpus, size.kind, self.name)

    def _draw(self) -> list[tuple[JobSize, int]]:
        sizes = self.sizes
        if len(sizes) > 1:
            rolls = self._size_stream.random(_CHUNK)
            which = np.searchsorted(self._upto, rolls, side="right")
            chosen = np.minimum(which, len(sizes) - 1).tolist()
        else:
            chosen = [0] * _CHUNK
        lengths = self._length.draw(self._length_stream, _CHUNK)
        endless = np.isinf(lengths)
        ticks = run_ticks(np.where(endless, 0.0, lengths), self._step_s)
        ticks[endless] = FOREVER
        drawn = list(zip((sizes[at] for at in chosen), ticks.tolist(), strict=True))
        drawn.reverse()
        return drawn


def poisson(rate_per_s: float, when: OpenTime, most: int, stream: np.random.Generator) -> FloatVec:
    """Draw instants of a Poisson process in open time, at most ``most``."""
    instants: list[float] = []
    now_s = 0.0
    while now_s < when.length_s and len(instants) < most:
        steps = now_s + np.cumsum(stream.exponential(1.0 / rate_per_s, _CHUNK))
        now_s = float(steps[-1])
        instants += steps[steps < when.length_s].tolist()
    return when.lay_out(np.array(instants[:most], np.float64))


def evenly(every_s: float, when: OpenTime, most: int) -> FloatVec:
    """Return instants at equal distances of open time, from its beginning."""
    count = min(math.ceil(when.length_s / every_s), most)
    offsets: FloatVec = np.arange(count, dtype=np.float64) * every_s
    return when.lay_out(offsets)


class Listed:
    """Jobs of a workload that is known as a whole."""

    def __init__(self, arrival: Sequence[int]) -> None:
        """Take the arrival tick of each job, in order."""
        self._arrival = arrival
        self._at = 0

    @property
    def next_tick(self) -> int:
        """The earliest tick at which jobs arrive, :data:`NEVER` without any."""
        return self._arrival[self._at] if self._at < len(self._arrival) else NEVER

    def take(self, tick: int) -> range:
        """Return the jobs that arrive at this tick, which is the next one with jobs."""
        first, self._at = self._at, bisect_right(self._arrival, tick, self._at)
        return range(first, self._at)

    def note_start(self, job: int, tick: int) -> None:
        """Do nothing: no arrival depends on a start."""


@dataclass(frozen=True, slots=True)
class Backlog:
    """Jobs of a group of which a fixed number always waits between two instants."""

    bodies: Bodies
    depth: int
    most: int
    begin_tick: int
    end_tick: int

    @property
    def is_endless(self) -> bool:
        """Tell whether the backlog never runs out of jobs."""
        return self.most >= MOST_JOBS and self.end_tick == NEVER


class Drawn:
    """Adds jobs to an initially empty workload as they arrive."""

    def __init__(
        self, workload: Workload, planned: Sequence[Job], backlogs: Sequence[Backlog], step_s: float
    ) -> None:
        """Take planned jobs in any order; jobs submitted at one instant keep their order."""
        self._work = workload
        self._step_s = step_s
        self._planned = sorted(planned, key=lambda job: job.submitted_s)
        self._at = 0
        self._backlogs = backlogs
        self._made = [0] * len(backlogs)
        self._due: dict[int, dict[int, int]] = {}
        """Number of jobs that each backlog lacks, by tick."""
        self._backlog_of_job: dict[int, int] = {}
        for at, backlog in enumerate(backlogs):
            self._want(at, backlog.depth, backlog.begin_tick)
        self.groups: list[str] = []
        """Origin of each job of the workload."""

    @property
    def next_tick(self) -> int:
        """The earliest tick at which jobs arrive, :data:`NEVER` without any."""
        planned = NEVER
        if self._at < len(self._planned):
            planned = tick_at(self._planned[self._at].submitted_s, self._step_s)
        return min(planned, min(self._due, default=NEVER))

    def take(self, tick: int) -> range:
        """Return the jobs that arrive at this tick."""
        first = len(self._work)
        planned = self._planned
        while self._at < len(planned):
            job = planned[self._at]
            if tick_at(job.submitted_s, self._step_s) > tick:
                break
            self._add(job, tick)
            self._at += 1
        for at, count in sorted(self._due.pop(tick, {}).items()):
            for _ in range(count):
                self._backlog_of_job[len(self._work)] = at
                self._add(self._backlogs[at].bodies.make(tick * self._step_s), tick)
        return range(first, len(self._work))

    def note_start(self, job: int, tick: int) -> None:
        """Refill a backlog at the next tick after one of its jobs starts."""
        at = self._backlog_of_job.pop(job, None)
        if at is not None:
            self._want(at, 1, tick + 1)

    def _want(self, at: int, count: int, tick: int) -> None:
        backlog = self._backlogs[at]
        count = min(count, backlog.most - self._made[at])
        if count > 0 and tick < backlog.end_tick:
            self._made[at] += count
            due = self._due.setdefault(tick, {})
            due[at] = due.get(at, 0) + count

    def _add(self, job: Job, tick: int) -> None:
        work = self._work
        work.submitted_s.append(job.submitted_s)
        work.arrival.append(tick)
        work.ticks.append(job.ticks)
        work.gpus.append(job.gpus)
        work.queue.append(job.queue)
        work.kind.append(job.kind)
        self.groups.append(job.group)
