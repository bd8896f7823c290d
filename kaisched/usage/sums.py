"""Decayed amounts by queue and resource, updated as stretches of time are added and removed."""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kaisched.core.axis import FloatVec, RowVec

_MOST_KNOWN: Final = 1024


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


class Axis:
    """Positions of names; only grows."""

    def __init__(self) -> None:
        """Start without names."""
        self.at: dict[str, int] = {}
        self._known: dict[tuple[str, ...], RowVec] = {}
        self._found: tuple[tuple[str, ...], int, RowVec] = ((), 0, np.empty(0, np.int64))
        """The last names looked up, the number of names at that time, and their positions."""
        self._all: tuple[str, ...] = ()
        """All names in the order of their positions, if they were ever given as one tuple."""

    def __len__(self) -> int:
        """Return how many names there are."""
        return len(self.at)

    def is_all(self, names: Sequence[str]) -> bool:
        """Tell whether this very tuple is known to be all names in the order of their positions."""
        return names is self._all and len(names) == len(self.at)

    def positions(self, names: tuple[str, ...]) -> RowVec:
        """Return the positions of names, adding new names first."""
        found = self._known.get(names)
        if found is None:
            for name in names:
                self.at.setdefault(name, len(self.at))
            if len(self._known) >= _MOST_KNOWN:
                self._known.clear()
            found = np.array([self.at[name] for name in names], np.int64)
            self._known[names] = found
        if len(found) == len(self.at) and names is not self._all and names == tuple(self.at):
            self._all = names
        return found

    def lookup(self, names: Sequence[str]) -> RowVec:
        """Return the positions of names, -1 for unknown ones; the last answer is kept."""
        asked, size, found = self._found
        if asked is not names or size != len(self.at):
            found = np.array([self.at.get(name, -1) for name in names], np.int64)
            if isinstance(names, tuple):  # a list may change
                self._found = (names, len(self.at), found)
        return found


class Sums:
    """Weighted sums of stretches."""

    def __init__(self) -> None:
        """Start at zero."""
        self._queues, self._resources = Axis(), Axis()
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
        rows = self._resources.positions(stretch.resources)
        columns = self._queues.positions(stretch.queues)
        shape = (len(self._resources), len(self._queues))
        if self._used.shape != shape:
            self._grow(shape)
        factor = weighed_s / stretch.span_s
        if self._stand_as(stretch.resources, stretch.queues):
            self._used += stretch.used * factor  # a fifth of the time of the general case
        elif len(columns):
            self._used[rows[:, None], columns] += stretch.used * factor
        self._capacity[rows] += stretch.capacity * factor
        self.seen_s += seen_s

    def _stand_as(self, resources: Sequence[str], queues: Sequence[str]) -> bool:
        """Tell whether the sums are of exactly these names, in this order.

        Copies share positions, so one may know names without having sums for them.
        """
        return (
            self._used.shape == (len(resources), len(queues))
            and self._resources.is_all(resources)
            and self._queues.is_all(queues)
        )

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
        if self._stand_as(resources, queues):
            return np.maximum(self._used, 0.0)
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
        if len(self._capacity) == len(resources) and self._resources.is_all(resources):
            return np.maximum(self._capacity, 0.0)
        padded = np.zeros(len(self._resources) + 1)
        np.maximum(self._capacity, 0.0, out=padded[: len(self._capacity)])
        answer: FloatVec = padded[self._resources.lookup(resources)]
        return answer
