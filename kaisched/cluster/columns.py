"""Growing columns that are shared with snapshots and copied only when a shared row must change.

A snapshot gets read-only views of the live buffers. Appending writes behind what any snapshot can
see, so it costs no copy; the first change of a row after a snapshot replaces the buffer by a copy,
and the snapshot keeps the old one. A column that did not change is handed out again as it was.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, Generic, TypeVar

import numpy as np
from numpy.typing import DTypeLike, NDArray

T = TypeVar("T")
K = TypeVar("K")

_FIRST_CAPACITY: Final = 64


def set_or_drop(known: dict[K, T], key: K, value: T | None) -> None:
    """Set the value of a key; None drops it."""
    if value is None:
        known.pop(key, None)
    else:
        known[key] = value


class Column:
    """A buffer of one number a row, or of several. Rows behind the used ones hold ``fill``."""

    __slots__ = ("_is_shared", "_view", "data", "fill")

    data: NDArray[Any]
    """The live buffer, longer than what is in use. Read it freely; write through :meth:`own`,
    or directly into rows that no snapshot has seen."""
    _view: NDArray[Any] | None
    """What the last snapshot got; None once anything of it may have changed."""

    def __init__(self, dtype: DTypeLike, fill: float | tuple[float, ...]) -> None:
        """Make an empty column; a tuple is a row, which then has as many cells."""
        self.fill = fill
        width = (len(fill),) if isinstance(fill, tuple) else ()
        self.replace(np.full((_FIRST_CAPACITY, *width), fill, dtype))

    def own(self) -> NDArray[Any]:
        """Return the buffer for writing to any row."""
        if self._is_shared:
            self.replace(self.data.copy())
        self._view = None
        return self.data

    def set(self, cell: int | tuple[int, ...], value: float) -> None:
        """Set one cell, a row or (row, number), unless it has the value already; NaN is NaN."""
        old = self.data[cell]
        if old != value and not (math.isnan(old) and math.isnan(value)):
            self.own()[cell] = value

    def grow(self, needed: int) -> None:
        """Make room for ``needed`` rows in all."""
        old = self.data
        if needed > len(old):
            larger = max(needed, len(old) + len(old) // 4)
            grown = np.full((larger, *old.shape[1:]), self.fill, old.dtype)
            grown[: len(old)] = old
            self.replace(grown)

    def replace(self, data: NDArray[Any]) -> None:
        """Take another buffer; snapshots keep what they have."""
        self.data = data
        self._is_shared = False
        self._view = None

    def keep(self, rows: NDArray[np.int64]) -> None:
        """Keep only these rows, in this order."""
        shape = (max(len(rows), _FIRST_CAPACITY), *self.data.shape[1:])
        kept = np.full(shape, self.fill, self.data.dtype)
        kept[: len(rows)] = self.data[rows]
        self.replace(kept)

    def frozen(self, size: int) -> NDArray[Any]:
        """Return the first ``size`` rows, unwritable; the same object while nothing changed."""
        view = self._view
        if view is None or len(view) != size:
            view = self._view = self.data[:size]
            view.setflags(write=False)
            self._is_shared = True
        return view


class ListColumn(Generic[T]):
    """A column of Python objects. A snapshot gets a copy, one for as long as nothing changes."""

    __slots__ = ("_view", "data")

    data: list[T]
    """The live rows. Read and append freely; write through :meth:`own`."""
    _view: list[T] | None

    def __init__(self) -> None:
        """Make an empty column."""
        self.replace([])

    def own(self) -> list[T]:
        """Return the list for writing to any row."""
        self._view = None
        return self.data

    def replace(self, data: list[T]) -> None:
        """Take another list."""
        self.data = data
        self._view = None

    def keep(self, rows: NDArray[np.int64]) -> None:
        """Keep only these rows, in this order."""
        self.replace([self.data[row] for row in rows.tolist()])

    def frozen(self) -> Sequence[T]:
        """Return all rows there are now; the same object while nothing changed."""
        if self._view is None or len(self._view) != len(self.data):
            self._view = self.data.copy()
        return self._view


class MapColumn(Generic[T]):
    """A few rows of Python objects, by row. A snapshot gets a copy, as of a list."""

    __slots__ = ("_view", "data")

    data: dict[int, T]
    """The live rows. Read freely; write through :meth:`set`."""
    _view: Mapping[int, T] | None

    def __init__(self) -> None:
        """Make an empty column."""
        self.replace({})

    def set(self, row: int, value: T | None) -> None:
        """Set one row, unless it has the value already; None drops it."""
        if value == self.data.get(row):
            return
        self._view = None
        if value is None:
            del self.data[row]
        else:
            self.data[row] = value

    def replace(self, data: dict[int, T]) -> None:
        """Take other rows."""
        self.data = data
        self._view = None

    def frozen(self) -> Mapping[int, T]:
        """Return the rows there are now; the same object while nothing changed."""
        if self._view is None:
            self._view = MappingProxyType(self.data.copy())
        return self._view
