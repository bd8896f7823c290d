"""Makes jobs: when they come, how large they are and how long they run, by plan or by chance."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from kaisched.core.axis import FloatVec
from kaisched.sim.chance import Chance
from kaisched.sim.grid import FOREVER, run_ticks
from kaisched.sim.hours import OpenTime
from kaisched.sim.workload import JobKind

MOST_JOBS: Final = 2_000_000
"""Of one group: more is a slip of unit."""
_CHUNK: Final = 256


@dataclass(frozen=True, slots=True)
class JobSize:
    """One size of the jobs of a group."""

    kind: JobKind
    gpus: int
    """In all."""
    share: float


@dataclass(frozen=True, slots=True)
class Length:
    """How long jobs run, in seconds. ``mean_s`` of an exponential, else a median and sigma."""

    fixed_s: float | None = None
    """Infinite for jobs that do not end."""
    mean_s: float | None = None
    median_s: float = 0.0
    sigma: float = 0.0
    least_s: float = 0.0
    most_s: float = math.inf

    def draw(self, stream: np.random.Generator, count: int) -> FloatVec:
        """Return so many run times."""
        if self.fixed_s is not None:
            return np.full(count, self.fixed_s)
        if self.mean_s is not None:
            drawn = stream.exponential(self.mean_s, count)
        else:
            drawn = stream.lognormal(math.log(self.median_s), self.sigma, count)
        return np.clip(drawn, self.least_s, self.most_s)


@dataclass(frozen=True, slots=True)
class Makings:
    """What the jobs of one group are made from."""

    name: str
    queue: int
    sizes: Sequence[JobSize]
    length: Length
    most: int = MOST_JOBS


@dataclass(frozen=True, slots=True)
class Job:
    """A job before it comes."""

    submitted_s: float
    ticks: int
    queue: int
    gpus: int
    kind: JobKind
    group: str


class Bodies:
    """The sizes and run times of the jobs of a group, one after the other."""

    def __init__(self, makings: Makings, chance: Chance, step_s: float) -> None:
        """Begin the streams of this group."""
        self._makings = makings
        self._step_s = step_s
        self._size_stream = chance.stream("sizes", makings.name)
        self._length_stream = chance.stream("lengths", makings.name)
        shares = np.array([size.share for size in makings.sizes])
        self._upto = np.cumsum(shares) / shares.sum()
        self._bodies = self._drawn()

    @property
    def queue(self) -> int:
        """Where its jobs go."""
        return self._makings.queue

    def make(self, submitted_s: float) -> Job:
        """Return the next job."""
        size, ticks = next(self._bodies)
        makings = self._makings
        return Job(submitted_s, ticks, makings.queue, size.gpus, size.kind, makings.name)

    def _drawn(self) -> Iterator[tuple[JobSize, int]]:
        sizes = self._makings.sizes
        while True:
            if len(sizes) > 1:
                rolls = self._size_stream.random(_CHUNK)
                which = np.searchsorted(self._upto, rolls, side="right")
                chosen = np.minimum(which, len(sizes) - 1).tolist()
            else:
                chosen = [0] * _CHUNK
            lengths = self._makings.length.draw(self._length_stream, _CHUNK)
            endless = np.isinf(lengths)
            ticks = run_ticks(np.where(endless, 0.0, lengths), self._step_s)
            ticks[endless] = FOREVER
            yield from zip((sizes[at] for at in chosen), ticks.tolist(), strict=True)


def poisson(rate_per_s: float, when: OpenTime, most: int, stream: np.random.Generator) -> FloatVec:
    """Return instants by chance, so many a second of open time on average, up to a number."""
    instants: list[float] = []
    now_s = 0.0
    while now_s < when.length_s and len(instants) < most:
        steps = now_s + np.cumsum(stream.exponential(1.0 / rate_per_s, _CHUNK))
        now_s = float(steps[-1])
        instants += steps[steps < when.length_s].tolist()
    return when.lay_out(np.array(instants[:most], np.float64))


def evenly(every_s: float, when: OpenTime, most: int) -> FloatVec:
    """Return instants at equal distances of open time, the first at its beginning."""
    count = min(math.ceil(when.length_s / every_s), most)
    offsets: FloatVec = np.arange(count, dtype=np.float64) * every_s
    return when.lay_out(offsets)
