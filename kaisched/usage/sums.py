"""Decayed amounts by queue and resource, kept up to date as time is added and taken away."""

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
        """How long it is."""
        return self.end_s - self.start_s

    def copy(self) -> Stretch:
        """Return one that does not change when this one is added to."""
        return replace(self, used=self.used.copy(), capacity=self.capacity.copy())

    def of_active(self) -> Stretch:
        """Return it without the queues that held nothing; most hold nothing most of the time."""
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
    """Names to positions; only grows."""

    def __init__(self) -> None:
        """Start without names."""
        self.at: dict[str, int] = {}
        self._known: dict[tuple[str, ...], RowVec] = {}
        self._found: tuple[tuple[str, ...], int, RowVec] = ((), 0, np.empty(0, np.int64))
        """What was looked for last, how many names there were then, and where they stand."""
        self._all: tuple[str, ...] = ()
        """All names in the order of their positions, if they were ever given so."""

    def __len__(self) -> int:
        """Return how many names there are."""
        return len(self.at)

    def is_all(self, names: Sequence[str]) -> bool:
        """Tell whether these are known to be all names in the order of their positions."""
        return names is self._all and len(names) == len(self.at)

    def positions(self, names: tuple[str, ...]) -> RowVec:
        """Return where the names stand, after those that are new have been added."""
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
        """Return where the names stand, -1 for those that are unknown; who asks, asks again."""
        asked, size, found = self._found
        if asked is not names or size != len(self.at):
            found = np.array([self.at.get(name, -1) for name in names], np.int64)
            if isinstance(names, tuple):  # a list may change
                self._found = (names, len(self.at), found)
        return found


class Sums:
    """What stretches add up to, each with a weight."""

    def __init__(self) -> None:
        """Start at zero."""
        self._queues, self._resources = Axis(), Axis()
        self._used: FloatVec = np.zeros((0, 0))
        self._capacity: FloatVec = np.zeros(0)
        self.seen_s = 0.0
        """Time that was added, not decayed."""

    def faded(self, factor: float) -> Sums:
        """Return sums of their own that weigh less and know the same names."""
        twin = copy(self)
        twin.fade(factor)
        return twin

    def add(self, stretch: Stretch, weighed_s: float, seen_s: float) -> None:
        """Add use of ``seen_s`` of a stretch that weighs ``weighed_s``; negative takes it away.

        Within a stretch use is taken for even.
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
        """Tell whether there are sums of just these, in this order.

        Twins know the same names, and one may have learned some that the other has no sums of.
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
        """Let all that was added weigh less."""
        self._used = self._used * factor
        self._capacity = self._capacity * factor

    def used(self, queues: Sequence[str], resources: Sequence[str]) -> FloatVec:
        """Return ``(R, Q)`` in the order asked; 0 for what is unknown."""
        if self._stand_as(resources, queues):
            return np.maximum(self._used, 0.0)
        padded = np.zeros((len(self._resources) + 1, len(self._queues) + 1))
        known = padded[: self._used.shape[0], : self._used.shape[1]]
        # What rounding leaves of amounts that were added and taken away may be below zero.
        np.maximum(self._used, 0.0, out=known)
        answer: FloatVec = padded[
            self._resources.lookup(resources)[:, None], self._queues.lookup(queues)
        ]
        return answer

    def capacity(self, resources: Sequence[str]) -> FloatVec:
        """Return ``(R,)`` in the order asked."""
        if len(self._capacity) == len(resources) and self._resources.is_all(resources):
            return np.maximum(self._capacity, 0.0)
        padded = np.zeros(len(self._resources) + 1)
        np.maximum(self._capacity, 0.0, out=padded[: len(self._capacity)])
        answer: FloatVec = padded[self._resources.lookup(resources)]
        return answer
