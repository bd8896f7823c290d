"""Jobs of a group: their arrivals, sizes and run times, by plan or by chance."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from kaisched.core.axis import FloatVec
from kaisched.sim.chance import Chance
from kaisched.sim.grid import FOREVER, run_ticks
from kaisched.sim.hours import OpenTime
from kaisched.sim.workload import Gpus, JobKind

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
class Makings:
    """Parameters of the jobs of one group."""

    name: str
    queue: int
    sizes: Sequence[JobSize]
    length: Length
    most: int = MOST_JOBS


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

    def __init__(self, makings: Makings, chance: Chance, step_s: float) -> None:
        """Start the random streams of this group."""
        self._makings = makings
        self._step_s = step_s
        self._size_stream = chance.stream("sizes", makings.name)
        self._length_stream = chance.stream("lengths", makings.name)
        shares = np.array([size.share for size in makings.sizes])
        self._upto = np.cumsum(shares) / shares.sum()
        self._drawn: list[tuple[JobSize, int]] = []
        """Jobs that were drawn and not made yet, the next one last."""

    @property
    def queue(self) -> int:
        """The queue of the jobs."""
        return self._makings.queue

    def make(self, submitted_s: float) -> Job:
        """Return the next job."""
        if not self._drawn:
            self._drawn = self._draw()
        size, ticks = self._drawn.pop()
        makings = self._makings
        return Job(submitted_s, ticks, makings.queue, size.gpus, size.kind, makings.name)

    def _draw(self) -> list[tuple[JobSize, int]]:
        sizes = self._makings.sizes
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
