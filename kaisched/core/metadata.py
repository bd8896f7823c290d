"""Labels and annotations of rows, read from the objects when they are asked for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, NamedTuple, Protocol, overload


class Metadata(Protocol):
    """The labels and annotations of an object."""

    @property
    def labels(self) -> Mapping[str, str]:
        """Labels, by key."""
        ...

    @property
    def annotations(self) -> Mapping[str, str]:
        """Annotations, by key."""
        ...


class _Nothing(NamedTuple):
    labels: Mapping[str, str] = MappingProxyType({})
    annotations: Mapping[str, str] = MappingProxyType({})


NO_METADATA: Final[Metadata] = _Nothing()
"""The metadata of rows that were made without an object."""


def is_same(one: Metadata, other: Metadata) -> bool:
    """Tell whether two objects have the same labels and annotations."""
    return one.labels == other.labels and one.annotations == other.annotations


class PartOfEach(Sequence[Mapping[str, str]]):
    """The labels, or the annotations, of each row: read from the metadata of the rows asked for."""

    __slots__ = ("_name", "_rows")

    def __init__(self, rows: Sequence[Metadata], name: str) -> None:
        """Keep the metadata of every row and the name of the part."""
        self._rows = rows
        self._name = name

    def __len__(self) -> int:
        return len(self._rows)

    @overload
    def __getitem__(self, at: int) -> Mapping[str, str]: ...
    @overload
    def __getitem__(self, at: slice) -> Sequence[Mapping[str, str]]: ...
    def __getitem__(self, at: int | slice) -> Any:
        if isinstance(at, slice):
            return PartOfEach(self._rows[at], self._name)
        return getattr(self._rows[at], self._name)
