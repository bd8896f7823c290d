"""Amounts that change at ticks and are constant in between."""

from __future__ import annotations

import numpy as np

from kaisched.core.axis import FloatVec, IntVec


class Steps:
    """One amount over time, 0 before its first change. Ticks only grow."""

    __slots__ = ("ticks", "values")

    ticks: list[int]
    values: list[float]
    """Values from each tick on."""

    def __init__(self) -> None:
        """Start without changes."""
        self.ticks = []
        self.values = []

    def set(self, tick: int, value: float) -> None:
        """Set the amount from a tick on; the last value for a tick counts."""
        if self.ticks and self.ticks[-1] == tick:
            self.values[-1] = value
        elif not self.values or self.values[-1] != value:
            self.ticks.append(tick)
            self.values.append(value)

    def integral(self, at: IntVec) -> FloatVec:
        """Return the sum of the amount over all ticks before each of these ticks."""
        if not self.ticks:
            return np.zeros(len(at))
        ticks = np.array(self.ticks, np.int64)
        values = np.array(self.values, np.float64)
        before = np.concatenate(([0.0], np.cumsum(values[:-1] * np.diff(ticks))))
        row = np.searchsorted(ticks, at, side="right") - 1
        known = row >= 0
        row = np.maximum(row, 0)
        total: FloatVec = np.where(known, before[row] + values[row] * (at - ticks[row]), 0.0)
        return total

    def means(self, edges: IntVec) -> FloatVec:
        """Return the exact mean between each two edges, which loses no peak to thinning."""
        means: FloatVec = np.diff(self.integral(edges)) / np.diff(edges)
        return means

    def at(self, ticks: IntVec) -> FloatVec:
        """Return the amount at each tick."""
        if not self.ticks:
            return np.zeros(len(ticks))
        row = np.searchsorted(np.array(self.ticks, np.int64), ticks, side="right") - 1
        values: FloatVec = np.where(row >= 0, np.array(self.values)[np.maximum(row, 0)], 0.0)
        return values


def edges_between(first: int, last: int, most: int) -> IntVec:
    """Return the edges of at most ``most`` equal spans of ticks; the last span may be shorter."""
    ticks = max(last - first, 1)
    width = -(-ticks // most)
    edges = np.arange(first, first + ticks + width, width, dtype=np.int64)
    edges[-1] = first + ticks
    return np.unique(edges)
