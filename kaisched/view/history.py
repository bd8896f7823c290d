"""History beside the live view: decisions by job, times of cycles, samples of queues, frames.

It is bounded in number. What is in it are values that other parts of the turn have made anyway.
Frames are views of earlier cycles of a simulation, so that it can be played back. They are kept
packed: as arrays, each would hold as much as a snapshot of its own.
"""

from __future__ import annotations

import io
import pickle
import zlib
from bisect import bisect_right
from collections import deque
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, Generic, NamedTuple, TypeVar

import numpy as np

from kaisched.core.axis import CPU, GPU, GPU_UNIT
from kaisched.framework.report.result import ShareTable

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from kaisched.core.axis import CodeVec, IntVec
    from kaisched.core.snapshot import Snapshot
    from kaisched.framework.intents import Bind, Evict, Nominate
    from kaisched.framework.report.result import CycleResult
    from kaisched.view.live import LiveView, Waiting

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
    lost_s: Sequence[float] = ()
    """GPU-seconds that each evicted pod has worked since its job started."""

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


def _lost_s(snapshot: Snapshot, evict: Evict, now_s: float) -> float:
    """Return the GPU-seconds of an evicted pod; none where its start is not known."""
    tasks = snapshot.tasks
    gpus = int(snapshot.shapes.charge[GPU, tasks.shape_of_task[evict.task]]) / GPU_UNIT
    ran_s = now_s - float(snapshot.jobs.last_start_s[tasks.job_of_task[evict.task]])
    return gpus * ran_s if ran_s > 0 else 0.0


class DecisionLog:
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
        self.last = Decisions(0, 0.0, (), (), (), {})
        """Those of the last cycle."""

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
            [_lost_s(snapshot, it, times.time_s) for it in result.evictions[-self._most :]],
        )
        self.last = decided
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


class Sample(NamedTuple):
    """Amounts ``(Q,)`` of one resource at the end of a cycle."""

    time_s: float
    resource: str
    """GPUs where there are any, else CPU."""
    queues: Sequence[str]
    fair: IntVec
    held: IntVec
    usage: IntVec | None
    """In parts of the capacity, as :class:`kaisched.core.usage.Usage` has it."""


MOST_SAMPLES: Final = 240
SAMPLE_S: Final = 1.0
"""Shortest time between two samples."""


def sample_of(view: LiveView) -> Sample | None:
    """Return what queues hold in a view beside their fair shares; None of a policy's own list."""
    if not isinstance(view.shares, ShareTable):
        return None
    row = GPU if view.snapshot.total[GPU] > 0 else CPU
    return Sample(
        view.time_s,
        view.snapshot.axis.names[row],
        view.snapshot.queues.name,
        view.shares.fair_share[row].copy(),
        view.shares.allocated[row].copy(),
        None if view.usage is None else view.usage.parts[row].copy(),
    )


MOST_FRAMES: Final = 120
FRAME_S: Final = 60.0
"""Shortest virtual time between two frames."""
_FAST: Final = 1


class Frame(NamedTuple):
    """The view of one cycle, packed, without the history."""

    cycle: int
    time_s: float
    packed: bytes

    @classmethod
    def of(cls, view: LiveView) -> Frame:
        """Pack a view. Its history would keep decisions that are forgotten otherwise."""
        plain = io.BytesIO()
        _Pickler(plain, pickle.HIGHEST_PROTOCOL).dump(replace(view, history=NO_HISTORY))
        return cls(view.cycle, view.time_s, zlib.compress(plain.getbuffer(), _FAST))

    def view(self) -> LiveView:
        """Return the view again."""
        found: LiveView = pickle.loads(zlib.decompress(self.packed))  # noqa: S301 - our own bytes
        return found


_T = TypeVar("_T", bound="Sample | Frame")


class Thinned(Generic[_T]):
    """Values that are kept at growing distances of time, in the thread that adds them.

    When they are too many, every other one goes, and the time between two doubles: they always
    reach back to the start, in bounded memory. Any thread may read the list.
    """

    def __init__(self, most: int, least_s: float) -> None:
        """Start with none, to keep so many at most; 0 keeps none."""
        self._most, self._gap_s = most, least_s
        self.kept: tuple[_T, ...] = ()

    def is_due(self, time_s: float) -> bool:
        """Tell whether it is time for one more; so it is where the clock was set back."""
        if not self._most or not self.kept:
            return bool(self._most)
        return not 0 <= time_s - self.kept[-1].time_s < self._gap_s

    def add(self, value: _T) -> None:
        """Keep a value."""
        kept = (*self.kept, value)
        if len(kept) > self._most:
            kept, self._gap_s = kept[::2], self._gap_s * 2
        self.kept = kept


class _Pickler(pickle.Pickler):
    """Pickler that knows views of dicts."""

    def reducer_override(self, obj: object) -> Any:
        if isinstance(obj, MappingProxyType):
            return _read_only, (dict(obj),)
        return NotImplemented


def _read_only(items: Mapping[Any, Any]) -> Mapping[Any, Any]:
    return MappingProxyType(items)


def view_at(kept: Sequence[Frame], cycle: int, now: LiveView) -> LiveView:
    """Return the last view up to a cycle, else the first, with the history up to there.

    ``now`` is the latest view; history goes back as far as it does there.
    """
    every = [*(it.cycle for it in kept), now.cycle]
    at = max(bisect_right(every, cycle) - 1, 0)
    if at == len(kept):
        return now
    end, end_s = kept[at].cycle, kept[at].time_s
    history = History(
        tuple(it for it in now.history.decisions if it.cycle <= end),
        tuple(it for it in now.history.cycles if it.cycle <= end),
        tuple(it for it in now.history.samples if it.time_s <= end_s),
    )
    return replace(kept[at].view(), history=history)
