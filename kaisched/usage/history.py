"""History within a window, summed in process.

A sample holds until the next one, at most :data:`HOLD_S`, and is added at once to sums that fade.
To be removed when they leave the window, and to be saved, samples are merged into stretches of at
most 1/720 of the window, or the granularity that is set, within which use counts as even. A sample
and an answer cost one pass over the queues, however long the window.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final

import numpy as np

from kaisched.usage.port import Sample
from kaisched.usage.sums import Stretch, Sums
from kaisched.usage.window import STRETCHES, weighed_s, weighed_since, weight

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kaisched.usage.window import Window

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
