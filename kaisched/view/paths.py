"""Paths of the live view's API; importing them costs a client nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

if TYPE_CHECKING:
    from collections.abc import Sequence

ROOT: Final = "/api/v1"
CHANGES: Final = f"{ROOT}/changes"
WHATIF: Final = f"{ROOT}/whatif"
OPENAPI: Final = f"{ROOT}/openapi.json"


_T = TypeVar("_T")

USUAL: Final = 100
MOST: Final = 1000
"""Entries of one answer at most."""


class Part(NamedTuple):
    """A part of a list."""

    offset: int = 0
    limit: int = USUAL

    def of(self, entries: Sequence[_T]) -> Sequence[_T]:
        """Return the entries of this part."""
        return entries[self.offset : self.offset + self.limit]

    def document(self, total: int) -> dict[str, Any]:
        """Return the fields that say which part an answer is, and where the next one begins."""
        end = self.offset + self.limit
        return {
            "total": total,
            "offset": self.offset,
            "limit": self.limit,
            "next": end if end < total else None,
        }
