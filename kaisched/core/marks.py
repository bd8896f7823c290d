"""Marks of columns, to find what has changed from one snapshot to a later one."""

from __future__ import annotations

from functools import lru_cache
from operator import attrgetter
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

    from kaisched.core.axis import RowVec

    Column = NDArray[Any]


class Mark(NamedTuple):
    """Columns of one snapshot, to find what has changed in a later one.

    A source of snapshots never writes to rows that a snapshot shows: it appends rows, or writes
    into a copy of the column. So rows of the same buffer are unchanged and need no comparison.
    """

    names: tuple[str, ...]
    """Names of the columns, such as ``jobs.pending``."""
    get: Callable[[object], Any]
    """Returns the columns of a snapshot: a tuple, or the only one."""
    columns: tuple[Column, ...]

    def unchanged_in(self, snapshot: object) -> int:
        """Return how many first rows are unchanged in every column.

        Return 0 if that would need a comparison row by row.
        """
        found = self.get(snapshot)
        if found is self.columns[0]:  # the only one, as nearly always: a tuple is none of them
            return len(self.columns[0])
        now = found if len(self.columns) > 1 else (found,)
        for old, new in zip(self.columns, now, strict=True):
            if not _is_same_buffer(old, new) or len(old) > len(new):
                return 0
        return min(len(old) for old in self.columns)

    def changed_in(self, snapshot: object) -> Iterator[tuple[str, RowVec]]:
        """Yield the columns with changed rows, and those rows.

        New rows are not included.
        """
        found = self.get(snapshot)
        now = found if len(self.columns) > 1 else (found,)
        for name, old, new in zip(self.names, self.columns, now, strict=True):
            if not _is_same_buffer(old, new):
                rows: RowVec = (old != new[: len(old)]).nonzero()[0]
                if rows.size:
                    yield name, rows


def mark_of(snapshot: object, *names: str) -> Mark:
    """Return a mark of some columns of a snapshot."""
    get = _getter(names)
    found = get(snapshot)
    return Mark(names, get, found if len(names) > 1 else (found,))


@lru_cache(maxsize=64)
def _getter(names: tuple[str, ...]) -> Callable[[object], Any]:
    return attrgetter(*names)


def _is_same_buffer(old: Column, new: Column) -> bool:
    """Tell whether two columns are views of one buffer; rows are only ever appended to it."""
    return old is new or (old.base is not None and old.base is new.base)
