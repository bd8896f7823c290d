"""Marks of columns, to find what has changed from one snapshot to a later one."""

from __future__ import annotations

from functools import lru_cache
from operator import attrgetter
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

    from kaisched.core.axis import RowVec
    from kaisched.core.snapshot import Snapshot

    Column = NDArray[Any]


class Mark(NamedTuple):
    """Columns of one snapshot, to find what has changed in a later one.

    A source of snapshots never writes to rows that a snapshot shows: it appends rows, or writes
    into a copy of the column. So rows of the same buffer are unchanged and need no comparison.
    """

    names: tuple[str, ...]
    """Names of the columns, such as ``jobs.pending``."""
    columns: tuple[Column, ...]

    def unchanged_in(self, snapshot: Snapshot) -> int:
        """Return how many first rows are unchanged in every column.

        Return 0 if that would need a comparison row by row.
        """
        count = -1
        for old, new in zip(self.columns, _columns(snapshot, self.names), strict=True):
            if not _is_same_buffer(old, new) or len(old) > len(new):
                return 0
            count = len(old) if count < 0 else min(count, len(old))
        return max(count, 0)

    def changed_in(self, snapshot: Snapshot) -> Iterator[tuple[str, RowVec]]:
        """Yield the columns with changed rows, and those rows.

        New rows are not included.
        """
        columns = _columns(snapshot, self.names)
        for name, old, new in zip(self.names, self.columns, columns, strict=True):
            if not _is_same_buffer(old, new):
                rows: RowVec = (old != new[: len(old)]).nonzero()[0]
                if rows.size:
                    yield name, rows


def mark_of(snapshot: Snapshot, *names: str) -> Mark:
    """Return a mark of some columns of a snapshot."""
    return Mark(names, _columns(snapshot, names))


def _columns(snapshot: Snapshot, names: tuple[str, ...]) -> tuple[Column, ...]:
    found: Any = _getter(names)(snapshot)
    return found if len(names) > 1 else (found,)


@lru_cache(maxsize=64)
def _getter(names: tuple[str, ...]) -> Callable[[Snapshot], Any]:
    return attrgetter(*names)


def _is_same_buffer(old: Column, new: Column) -> bool:
    """Tell whether two columns are views of one buffer; rows are only ever appended to it."""
    return old is new or (old.base is not None and old.base is new.base)
