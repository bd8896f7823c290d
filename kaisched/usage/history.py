"""Usage history: samples go in, one usage vector comes out; summed in process within a window.

A moment at age ``a`` weighs ``0.5 ** (a / half_life)`` (rule U2 of docs/explanation/usage.md), or 1
without a half-life. The window says from which moment on the past counts (rule U3). A sample holds
until the next one, at most :data:`HOLD_S`, and is added at once to sums that fade. To be removed
when they leave the window, and to be saved, samples are merged into stretches of at most 1/720 of
the window, or the granularity that is set, within which use counts as even. A sample and an answer
cost one pass over the queues, however long the window.
"""

from __future__ import annotations

import math
from collections import deque
from copy import copy
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, Literal, NamedTuple, Protocol

import numpy as np

from kaisched.core.tree import roll_up
from kaisched.core.usage import PARTS, Usage, UsageState

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from kaisched.core.axis import Amounts, BoolVec, FloatVec, IntVec, RowVec
    from kaisched.core.snapshot import Snapshot
    from kaisched.objects.usage import Cron


# -- the port --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Sample:
    """Amounts that every queue held at one moment, with its descendants, and the capacity.

    A sample holds until the next one, but for no more than
    :data:`~kaisched.usage.history.HOLD_S`.
    """

    time_s: float
    resources: tuple[str, ...]
    queues: tuple[str, ...]
    allocated: Amounts
    """``(R, Q)`` base units."""
    capacity: Amounts
    """``(R,)`` base units."""


class ServerHealth(NamedTuple):
    """Whether the server of a usage store answers."""

    is_reachable: bool
    message: str
    """What it answers, or why it does not; without credentials."""


class UsageStore(Protocol):
    """Keeps samples and answers with the usage they add up to.

    Neither method waits: a store that asks a server does so in a thread of its own. Neither raises:
    failures are a state and a reason of the answer.
    """

    def record(self, sample: Sample) -> None:
        """Add a sample of the present. Samples come in the order of their times."""
        ...

    def usage(self, now_s: float, queues: Sequence[str], resources: Sequence[str]) -> Usage:
        """Return decayed usage over decayed capacity, parts ``(R, Q)`` in the order asked.

        A queue or resource without history has used nothing.
        """
        ...

    def is_ready(self) -> bool:
        """Tell whether there is an answer better than "absent", or none is to be expected."""
        ...

    def close(self) -> None:
        """Write what is still unwritten, and release files and threads."""
        ...


def sample_of(snapshot: Snapshot, now_s: float) -> Sample:
    """Return the sample of a snapshot: held amounts at every level, and the divided total."""
    return Sample(
        now_s,
        snapshot.axis.names,
        snapshot.queues.name,
        roll_up(snapshot.allocated, snapshot.queues.tree),
        snapshot.total,
    )


# -- the window ------------------------------------------------------------------------------------

WindowType = Literal["sliding", "tumbling", "cron"]

WEEK_S: Final = 604_800.0
STRETCHES: Final = 720
"""Stretches in a window unless a granularity is set: a week in steps of 14 minutes."""
FAINT_HALF_LIVES: Final = 32
"""Beyond this age a moment weighs less than 2^-32, below one part per billion: it is left out."""


@dataclass(frozen=True, slots=True)
class Window:
    """A window and a half-life; the defaults are KAI-Scheduler's."""

    type: WindowType = "sliding"
    size_s: float = WEEK_S
    half_life_s: float | None = None
    """None for no decay."""
    anchor_s: float = 0.0
    """Begin of the first tumbling window."""
    cron: Cron | None = None
    """Begins of windows, for type ``cron``."""
    granularity_s: float | None = None
    """Longest stretch of time within which use counts as even; None for a part of the window."""

    @property
    def faint_s(self) -> float:
        """The age beyond which moments weigh nothing."""
        return math.inf if self.half_life_s is None else FAINT_HALF_LIVES * self.half_life_s

    def start(self, now_s: float) -> float:
        """Return the moment from which on the past counts at ``now_s``.

        A tumbling window that has not begun yet is empty: its start is ``now_s``.
        """
        return max(self.edge(now_s), now_s - self.faint_s)

    def edge(self, now_s: float) -> float:
        """Return the begin of the window itself, whatever the decay."""
        if self.type == "cron" and self.cron is not None:
            return self.cron.before(now_s)
        if self.type == "tumbling":
            if now_s < self.anchor_s:
                return now_s
            return self.anchor_s + (now_s - self.anchor_s) // self.size_s * self.size_s
        return now_s - self.size_s

    def length_s(self, now_s: float) -> float:
        """Return how long the window at ``now_s`` is from begin to end, whatever the decay."""
        if self.type == "cron" and self.cron is not None:
            return self.cron.after(now_s) - self.cron.before(now_s)
        return self.size_s

    def grain_s(self, now_s: float) -> float:
        """Return the longest stretch of time within which use counts as even."""
        if self.granularity_s is not None:
            return self.granularity_s
        return min(self.length_s(now_s), self.faint_s) / STRETCHES

    @property
    def has_edges(self) -> bool:
        """Tell whether windows follow one another instead of sliding."""
        return self.type != "sliding"


def weight(age_s: float, half_life_s: float | None) -> float:
    """Return the weight of a moment of this age, 0 to 1; a moment in the future weighs 1."""
    if half_life_s is None or age_s <= 0:
        return 1.0
    return float(0.5 ** (age_s / half_life_s))


def weighed_s(start_s: float, end_s: float, now_s: float, half_life_s: float | None) -> float:
    """Return the seconds from ``start_s`` to ``end_s``, weighed at ``now_s``.

    This is the integral of :func:`weight` over that time.
    """
    span_s = end_s - start_s
    if half_life_s is None:
        return span_s
    # expm1 keeps the digits that 1 - 0.5 ** x would lose for a span far below the half-life.
    grown = -math.expm1(-math.log(2) * span_s / half_life_s)
    return half_life_s / math.log(2) * grown * weight(now_s - end_s, half_life_s)


def weighed_since(window: Window, first_s: float | None, now_s: float) -> float:
    """Return the whole weighed seconds of a window, from ``first_s`` on at the earliest."""
    start_s = max(window.start(now_s), now_s if first_s is None else first_s)
    return float(round(weighed_s(start_s, max(now_s, start_s), now_s, window.half_life_s)))


# -- sums ------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Stretch:
    """Amounts times seconds between two moments without a gap."""

    start_s: float
    end_s: float
    resources: tuple[str, ...]
    queues: tuple[str, ...]
    used: FloatVec
    """``(R, Q)`` base units times seconds, not decayed."""
    capacity: FloatVec
    """``(R,)`` likewise."""

    @property
    def span_s(self) -> float:
        """Length in seconds."""
        return self.end_s - self.start_s

    def part(self, start_s: float, end_s: float) -> Stretch | None:
        """Return what lies between two moments, as use is even; None if nothing does."""
        start_s, end_s = max(start_s, self.start_s), min(end_s, self.end_s)
        if start_s >= end_s:
            return None
        factor = (end_s - start_s) / self.span_s
        amounts = self.used * factor, self.capacity * factor
        return Stretch(start_s, end_s, self.resources, self.queues, *amounts)

    def copy(self) -> Stretch:
        """Return an independent copy."""
        return replace(self, used=self.used.copy(), capacity=self.capacity.copy())

    def of_active(self) -> Stretch:
        """Return the stretch without idle queues; most queues hold nothing most of the time."""
        active = self.used.any(axis=0)
        if active.all():
            return self
        rows = np.flatnonzero(active).tolist()
        return Stretch(
            self.start_s,
            self.end_s,
            self.resources,
            tuple(self.queues[row] for row in rows),
            self.used[:, rows],
            self.capacity,
        )


class _Names:
    """Positions of names; only grows."""

    def __init__(self) -> None:
        self._at: dict[str, int] = {}
        self._last: tuple[Sequence[str], int, RowVec] = ((), 0, np.empty(0, np.int64))
        """The names looked up last, how many were known then, and their positions."""

    def __len__(self) -> int:
        return len(self._at)

    def add(self, names: tuple[str, ...]) -> RowVec:
        """Return the positions of names, adding new ones first."""
        found = self.lookup(names)
        if found.size and found.min() < 0:
            for name in names:
                self._at.setdefault(name, len(self._at))
            found = self.lookup(names)
        return found

    def lookup(self, names: Sequence[str]) -> RowVec:
        """Return the positions of names, -1 for unknown ones; the last answer is kept."""
        asked, size, found = self._last
        if asked is not names or size != len(self._at):
            found = np.array([self._at.get(name, -1) for name in names], np.int64)
            if isinstance(names, tuple):  # a list may change
                self._last = (names, len(self._at), found)
        return found


class Sums:
    """Weighted sums of stretches."""

    def __init__(self) -> None:
        """Start at zero."""
        self._queues, self._resources = _Names(), _Names()
        self._used: FloatVec = np.zeros((0, 0))
        self._capacity: FloatVec = np.zeros(0)
        self.seen_s = 0.0
        """Seconds added, not decayed."""

    def faded(self, factor: float) -> Sums:
        """Return an independent copy that weighs less; it shares the positions of names."""
        twin = copy(self)
        twin.fade(factor)
        return twin

    def add(self, stretch: Stretch, weighed_s: float, seen_s: float) -> None:
        """Add ``seen_s`` of a stretch, weighed as ``weighed_s``; negative values remove it.

        Within a stretch, use counts as even.
        """
        rows = self._resources.add(stretch.resources)
        columns = self._queues.add(stretch.queues)
        shape = (len(self._resources), len(self._queues))
        if self._used.shape != shape:
            self._grow(shape)
        factor = weighed_s / stretch.span_s
        self._used[rows[:, None], columns] += stretch.used * factor
        self._capacity[rows] += stretch.capacity * factor
        self.seen_s += seen_s

    def _grow(self, shape: tuple[int, int]) -> None:
        used, capacity = self._used, self._capacity
        self._used, self._capacity = np.zeros(shape), np.zeros(shape[0])
        self._used[: used.shape[0], : used.shape[1]] = used
        self._capacity[: len(capacity)] = capacity

    def fade(self, factor: float) -> None:
        """Reduce the weight of all that was added."""
        self._used = self._used * factor
        self._capacity = self._capacity * factor

    def used(self, queues: Sequence[str], resources: Sequence[str]) -> FloatVec:
        """Return sums ``(R, Q)`` in the order asked; 0 for unknown names."""
        padded = np.zeros((len(self._resources) + 1, len(self._queues) + 1))
        known = padded[: self._used.shape[0], : self._used.shape[1]]
        # Rounding errors of amounts added and removed may be below zero.
        np.maximum(self._used, 0.0, out=known)
        answer: FloatVec = padded[
            self._resources.lookup(resources)[:, None], self._queues.lookup(queues)
        ]
        return answer

    def capacity(self, resources: Sequence[str]) -> FloatVec:
        """Return the capacity ``(R,)`` in the order asked."""
        padded = np.zeros(len(self._resources) + 1)
        np.maximum(self._capacity, 0.0, out=padded[: len(self._capacity)])
        answer: FloatVec = padded[self._resources.lookup(resources)]
        return answer


# -- history ---------------------------------------------------------------------------------------

HOLD_S: Final = 300.0
"""How long a sample holds without a next one: Prometheus' look-back, so that stores agree."""


class History:
    """Usage history of all queues. Times are seconds since 1970 of one clock."""

    def __init__(self, window: Window, hold_s: float = HOLD_S) -> None:
        """Start with an empty past; a sample holds for ``hold_s`` at most."""
        self.window, self._hold_s = window, hold_s
        self.first_s: float | None = None
        """Time of the first sample ever."""
        self.last: Sample | None = None
        self.open: Stretch | None = None
        """The stretch to which samples are being added."""
        self._kept: deque[Stretch] = deque()
        self._sums, self._at_s = Sums(), 0.0
        self._taken_away = 0

    def add(self, sample: Sample) -> list[Stretch]:
        """Add a sample; return the stretches that it completed.

        If the clock was set back, nothing is added for the time between (rule U6).
        """
        last, self.last = self.last, sample
        if self.first_s is None:
            self.first_s = sample.time_s
        if last is None:
            return []
        if sample.time_s <= last.time_s:
            return self._close() if sample.time_s < last.time_s else []
        done: list[Stretch] = []
        start_s, end_s = last.time_s, min(sample.time_s, last.time_s + self._hold_s)
        if self.window.has_edges:
            # No stretch crosses an edge: its earlier part must not leak into the new window.
            edge_s = self.window.edge(end_s)
            if start_s < edge_s < end_s:
                done += self._extend(last, start_s, edge_s)
                start_s = edge_s
            if self.open is not None and self.open.start_s < edge_s:
                done += self._close()
        done += self._extend(last, start_s, end_s)
        if end_s < sample.time_s:
            done += self._close()
        self._expire(sample.time_s)
        return done

    def restore(self, stretches: Iterable[Stretch], first_s: float | None) -> None:
        """Restore a saved history, oldest stretch first.

        The amounts of the last stretch hold on, as after any sample, so that a short restart leaves
        no gap.
        """
        for stretch in stretches:
            self._keep(stretch)
        self.first_s = first_s
        if self._kept:
            self.first_s = self._kept[0].start_s if first_s is None else first_s
            self.last = _end_of(self._kept[-1])

    def sums(self, now_s: float) -> Sums:
        """Return the decayed sums of the window that ends now.

        The time since the last sample is included, as far as that sample holds.
        """
        self._expire(now_s)
        sums = self._sums.faded(weight(now_s - self._at_s, self.window.half_life_s))
        start_s = self.window.start(now_s)
        for stretch in (self._kept[0] if self._kept else None, self.open):
            if stretch is not None and stretch.start_s < start_s:
                end_s = min(stretch.end_s, start_s)
                self._count(sums, stretch, stretch.start_s, end_s, now_s, -1)
        held = self._held(now_s)
        if held is not None and start_s < held.end_s:
            self._count(sums, held, max(held.start_s, start_s), held.end_s, now_s, 1)
        return sums

    @property
    def newest_s(self) -> float | None:
        """Time of the newest sample; None without any."""
        return None if self.last is None else self.last.time_s

    def coverage(self, now_s: float, seen_s: float) -> float:
        """Return the part of the window that was seen, from the first sample ever on (rule U5)."""
        if self.first_s is None:
            return 0.0
        due_s = now_s - max(self.window.start(now_s), self.first_s)
        return min(max(seen_s / due_s, 0.0), 1.0) if due_s > 0 else 1.0

    def weighed_s(self, now_s: float) -> float:
        """Return the window's length since the first sample ever, in whole seconds after decay."""
        return weighed_since(self.window, self.first_s, now_s)

    # -- stretches -----------------------------------------------------------------------------

    def _extend(self, sample: Sample, start_s: float, end_s: float) -> list[Stretch]:
        """Add the time for which a sample held, and return the stretches that became complete.

        A sample that is too long for the open stretch is cut at its end. Otherwise the number of
        stretches in a window, and with it memory and file, would depend on how long samples are.
        """
        self._add_up(_constant(sample, start_s, end_s))
        done: list[Stretch] = []
        if self.open is not None and not _has_names_of(self.open, sample):
            done = self._close()
        full_s = end_s if self.open is None else self.open.start_s + self.window.grain_s(start_s)
        if end_s > full_s:
            if full_s > start_s:
                self._join(sample, start_s, full_s)
                start_s = full_s
            done += self._close()
        self._join(sample, start_s, end_s)
        return done

    def _join(self, sample: Sample, start_s: float, end_s: float) -> None:
        """Add the time of a sample to the end of the open stretch, or begin one."""
        part = _constant(sample, start_s, end_s)
        if self.open is None:
            self.open = part
        else:
            self.open.used += part.used
            self.open.capacity += part.capacity
            self.open.end_s = end_s

    def _held(self, now_s: float) -> Stretch | None:
        """Return the time since the last sample as a stretch, as long as the sample holds."""
        last = self.last
        if last is None or now_s <= last.time_s:
            return None
        return _constant(last, last.time_s, min(now_s, last.time_s + self._hold_s))

    def _close(self) -> list[Stretch]:
        stretch, self.open = self.open, None
        if stretch is None:
            return []
        stretch = stretch.of_active()
        self._kept.append(stretch)
        return [stretch]

    def _keep(self, stretch: Stretch) -> None:
        self._kept.append(stretch)
        self._add_up(stretch)

    def _add_up(self, stretch: Stretch) -> None:
        if stretch.end_s > self._at_s:
            self._sums.fade(weight(stretch.end_s - self._at_s, self.window.half_life_s))
            self._at_s = stretch.end_s
        self._count(self._sums, stretch, stretch.start_s, stretch.end_s, self._at_s, 1)

    def _expire(self, now_s: float) -> None:
        start_s = self.window.start(now_s)
        while self._kept and self._kept[0].end_s <= start_s:
            gone = self._kept.popleft()
            self._count(self._sums, gone, gone.start_s, gone.end_s, self._at_s, -1)
            self._taken_away += 1
        if self._taken_away and (not self._kept or self._taken_away > STRETCHES):
            self._sum_anew()

    def _sum_anew(self) -> None:
        """Sum again, without queues that left the window and without rounding errors."""
        kept, self._kept = self._kept, deque()
        self._sums, self._at_s = Sums(), 0.0
        self._taken_away = 0
        for stretch in kept:
            self._keep(stretch)
        if self.open is not None:
            self._add_up(self.open)

    def _count(
        self, sums: Sums, stretch: Stretch, start_s: float, end_s: float, now_s: float, sign: int
    ) -> None:
        seconds = weighed_s(start_s, end_s, now_s, self.window.half_life_s)
        sums.add(stretch, sign * seconds, sign * (end_s - start_s))


def _has_names_of(stretch: Stretch, sample: Sample) -> bool:
    """Tell whether a stretch has the queues and resources of a sample."""
    return stretch.queues == sample.queues and stretch.resources == sample.resources


def _constant(sample: Sample, start_s: float, end_s: float) -> Stretch:
    span_s = end_s - start_s
    return Stretch(
        start_s,
        end_s,
        sample.resources,
        sample.queues,
        np.asarray(sample.allocated * span_s, np.float64),
        np.asarray(sample.capacity * span_s, np.float64),
    )


def _end_of(stretch: Stretch) -> Sample:
    """Return a stretch's amounts as a sample at its end."""
    return Sample(
        stretch.end_s,
        stretch.resources,
        stretch.queues,
        np.rint(stretch.used / stretch.span_s).astype(np.int64),
        np.rint(stretch.capacity / stretch.span_s).astype(np.int64),
    )


# -- what decisions see ----------------------------------------------------------------------------

MOST_USAGE: Final = 2.0
"""Usage above twice the capacity is a mix-up of units: the whole resource is distrusted.

Slightly above 1 is possible: nodes may vanish under pods that still hold them.
"""


def quantise(
    used: FloatVec, capacity: FloatVec, queues: Sequence[str], resources: Sequence[str]
) -> tuple[IntVec, BoolVec, tuple[str, ...]]:
    """Return parts ``(R, Q)``, distrusted resources ``(R,)``, and the reasons.

    Args:
        used: ``(R, Q)`` decayed amounts times seconds.
        capacity: ``(R,)`` likewise.
        queues: names, for the reasons.
        resources: names, for the reasons.

    A value that is no finite number of at least 0, or a queue above :data:`MOST_USAGE`, makes the
    whole resource distrusted: its parts are 0.

    """
    is_number = np.isfinite(used) & (used >= 0)
    has_capacity = np.isfinite(capacity) & (capacity > 0)
    share = np.divide(
        np.where(is_number, used, 0.0),
        np.where(has_capacity, capacity, 1.0)[:, None],
    )
    bad_capacity = ~has_capacity & ((used != 0).any(axis=1) | (capacity != 0))
    absurd = (share > MOST_USAGE) & has_capacity[:, None]
    unbelievable = bad_capacity | ~is_number.all(axis=1) | absurd.any(axis=1)
    reasons = []
    for row in np.flatnonzero(unbelievable).tolist():
        name = resources[row]
        if bad_capacity[row]:
            reasons.append(f"{name}: used, but its capacity is {capacity[row]:g}")
        elif not is_number[row].all():
            queue = queues[int(np.argmin(is_number[row]))]
            reasons.append(f"{name}: the usage of queue {queue} is no number")
        else:
            worst = int(np.argmax(share[row]))
            reasons.append(
                f"{name}: queue {queues[worst]} used {share[row, worst]:.3g} times the capacity;"
                " do both count in the same unit?"
            )
    believed = has_capacity & ~unbelievable
    parts = np.rint(np.where(believed[:, None], share, 0.0) * PARTS).astype(np.int64)
    return parts, unbelievable, tuple(reasons)


class MemoryStore:
    """Usage store that keeps samples in the process."""

    def __init__(
        self, window: Window, *, staleness_s: float = math.inf, hold_s: float = HOLD_S
    ) -> None:
        """Start empty; a newest sample older than ``staleness_s`` is stale.

        A sample holds for ``hold_s`` at most; callers that report every change may hold it longer.
        """
        self.history = History(window, hold_s)
        self._staleness_s = staleness_s

    def record(self, sample: Sample) -> None:
        """Add a sample of the present."""
        self.history.add(sample)

    def usage(self, now_s: float, queues: Sequence[str], resources: Sequence[str]) -> Usage:
        """Return decayed usage over decayed capacity, parts ``(R, Q)`` in the order asked."""
        history = self.history
        sums = history.sums(now_s)
        parts, _, reasons = quantise(
            sums.used(queues, resources), sums.capacity(resources), queues, resources
        )
        state = UsageState.PARTIAL if reasons else UsageState.FRESH
        newest_s = history.newest_s
        age_s = math.inf if newest_s is None else max(now_s - newest_s, 0.0)
        if newest_s is None:
            state, reasons = UsageState.ABSENT, ("no sample has been taken yet",)
        elif age_s > self._staleness_s:
            state, reasons = UsageState.STALE, (*reasons, f"the last sample is {age_s:.0f} s old")
        coverage, weighed_s = history.coverage(now_s, sums.seen_s), history.weighed_s(now_s)
        return Usage(parts, age_s, coverage, state, reasons, weighed_s)

    def is_ready(self) -> bool:
        """Return True: there is nothing to wait for."""
        return True

    def close(self) -> None:
        """Do nothing."""
