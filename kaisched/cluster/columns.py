"""Growing columns that are shared with snapshots and copied only when a shared row must change.

A snapshot gets read-only views of the live buffers. Appending writes behind what any snapshot can
see, so it costs no copy; the first change of a row after a snapshot replaces the buffer by a copy,
and the snapshot keeps the old one. A column that did not change is handed out again as it was.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any, Final, Generic, TypeVar, overload

import numpy as np
from numpy.typing import DTypeLike, NDArray

T = TypeVar("T")

_FIRST_CAPACITY: Final = 64


def _larger(capacity: int, needed: int) -> int:
    """Return a capacity with room for ``needed`` rows, a quarter more each time."""
    return max(needed, capacity + capacity // 4, _FIRST_CAPACITY)


class Column:
    """A 1-D buffer. Rows behind the used ones hold ``fill``."""

    __slots__ = ("_base", "_is_shared", "_view", "data", "fill")

    data: NDArray[Any]
    """The live buffer, longer than what is in use. Read it freely; write through :meth:`own`,
    or directly into rows that no snapshot has seen."""
    _base: NDArray[Any] | None
    _is_shared: bool
    _view: NDArray[Any] | None

    def __init__(self, dtype: DTypeLike, fill: float) -> None:
        """Make an empty column."""
        self.fill = fill
        self.replace(np.full(_FIRST_CAPACITY, fill, dtype))

    def own(self) -> NDArray[Any]:
        """Return the buffer for writing to any row."""
        if self._is_shared:  # what replace() does, without the call: this is the hottest line here
            self.data = self.data.copy()
            self._is_shared = False
            self._view = self._base = None
        return self.data

    def grow(self, needed: int) -> None:
        """Make room for ``needed`` rows in all."""
        old = self.data
        if needed > len(old):
            grown = np.full(_larger(len(old), needed), self.fill, old.dtype)
            grown[: len(old)] = old
            self.replace(grown)

    def replace(self, data: NDArray[Any]) -> None:
        """Take another buffer; snapshots keep what they have."""
        self.data = data
        self._is_shared = False
        self._view = None
        self._base = None

    def keep(self, rows: NDArray[np.int64]) -> None:
        """Keep only these rows, in this order."""
        kept = np.full(max(len(rows), _FIRST_CAPACITY), self.fill, self.data.dtype)
        kept[: len(rows)] = self.data[rows]
        self.replace(kept)

    def frozen(self, size: int) -> NDArray[Any]:
        """Return the first ``size`` rows, unwritable; the same object while nothing changed."""
        view = self._view
        if view is None or len(view) != size:
            base = self._base
            if base is None:
                base = self._base = self.data.view()
                base.setflags(write=False)
            view = self._view = base[:size]  # a view of an unwritable view is unwritable
            self._is_shared = True
        return view


class Block:
    """A 2-D buffer ``(R, capacity)`` of int64 amounts."""

    __slots__ = ("_base", "_is_shared", "_view", "data")

    data: NDArray[np.int64]
    _base: NDArray[np.int64] | None
    _is_shared: bool
    _view: NDArray[np.int64] | None

    def __init__(self, resources: int, size: int = _FIRST_CAPACITY) -> None:
        """Make a block of zeros."""
        self.replace(np.zeros((resources, size), np.int64))

    def own(self) -> NDArray[np.int64]:
        """Return the buffer for writing to any column."""
        if self._is_shared:
            self.data = self.data.copy()
            self._is_shared = False
            self._view = self._base = None
        return self.data

    def grow(self, needed: int) -> None:
        """Make room for ``needed`` columns in all."""
        resources, capacity = self.data.shape
        if needed > capacity:
            grown = np.zeros((resources, _larger(capacity, needed)), np.int64)
            grown[:, :capacity] = self.data
            self.replace(grown)

    def replace(self, data: NDArray[np.int64]) -> None:
        """Take another buffer; snapshots keep what they have."""
        self.data = data
        self._is_shared = False
        self._view = None
        self._base = None

    def spread(self, resources: int, rows: NDArray[np.int64]) -> None:
        """Move the resources to ``rows`` of a block of ``resources`` rows; new ones are zero."""
        wider = np.zeros((resources, self.data.shape[1]), np.int64)
        wider[rows] = self.data
        self.replace(wider)

    def frozen(self, size: int) -> NDArray[np.int64]:
        """Return the first ``size`` columns, unwritable; the same object while nothing changed."""
        view = self._view
        if view is None or view.shape[1] != size:
            base = self._base
            if base is None:
                base = self._base = self.data.view()
                base.setflags(write=False)
            view = self._view = base[:, :size]  # a view of an unwritable view is unwritable
            self._is_shared = True
        return view


class Prefix(Sequence[T], Generic[T]):
    """The first rows of a list that only ever grows, so that later rows do not show."""

    __slots__ = ("_rows", "_size")

    def __init__(self, rows: list[T], size: int) -> None:
        """See ``rows[:size]`` without copying it."""
        self._rows = rows
        self._size = size

    def __len__(self) -> int:
        return self._size

    @overload
    def __getitem__(self, index: int) -> T: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[T]: ...

    def __getitem__(self, index: int | slice) -> T | Sequence[T]:
        if isinstance(index, slice):
            return [self._rows[row] for row in range(*index.indices(self._size))]
        if not -self._size <= index < self._size:
            raise IndexError(index)
        return self._rows[index if index >= 0 else index + self._size]

    def __iter__(self) -> Iterator[T]:
        return islice(self._rows, self._size)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Sequence):
            return NotImplemented
        return len(self) == len(other) and all(a == b for a, b in zip(self, other, strict=True))

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"Prefix({list(self)!r})"


class ListColumn(Generic[T]):
    """A column of Python objects, shared and copied like a :class:`Column`."""

    __slots__ = ("_is_shared", "_view", "data")

    data: list[T]

    def __init__(self) -> None:
        """Make an empty column."""
        self.replace([])

    def own(self) -> list[T]:
        """Return the list for writing to any row; appending needs no owning."""
        if self._is_shared:
            self.replace(self.data.copy())
        return self.data

    def replace(self, data: list[T]) -> None:
        """Take another list; snapshots keep what they have."""
        self.data = data
        self._is_shared = False
        self._view: Prefix[T] | None = None

    def frozen(self) -> Prefix[T]:
        """Return all rows there are now; the same object while nothing changed."""
        view = self._view
        if view is None or len(view) != len(self.data):
            view = self._view = Prefix(self.data, len(self.data))
            self._is_shared = True
        return view
