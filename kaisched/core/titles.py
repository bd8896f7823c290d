"""Titles: what a job is called where people read, by the object that a person has made.

A job's own name is that of its pod group, which a controller may have made up.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, overload


class TopOwner(NamedTuple):
    """What a person has made that a job comes from: the topmost owner of its pods.

    As text it is the title of the job, such as ``Job nlp/train``.
    """

    kind: str
    namespace: str
    name: str
    part: str = ""
    """Which of several jobs of this owner it is, such as the name of a pod; empty for the only one.
    """
    user: str = ""
    """Who submitted it, where its objects say so."""

    def __str__(self) -> str:
        """Return the title of the job."""
        part = f" ({self.part})" if self.part else ""
        return f"{self.kind} {self.namespace}/{self.name}{part}"


class Titles(Sequence[str]):
    """What each job is called where people read, made when it is read."""

    __slots__ = ("_names", "_owners")

    def __init__(self, names: Sequence[str], owners: Sequence[TopOwner | None]) -> None:
        """Keep the columns of the table."""
        self._names, self._owners = names, owners

    def __len__(self) -> int:
        return len(self._names)

    @overload
    def __getitem__(self, at: int) -> str: ...
    @overload
    def __getitem__(self, at: slice) -> Sequence[str]: ...
    def __getitem__(self, at: int | slice) -> Any:
        if isinstance(at, slice):
            return Titles(self._names[at], self._owners[at])
        return title_of(self._names[at], self._owners[at] if self._owners else None)


def title_of(name: str, owner: TopOwner | None) -> str:
    """Return what a job is called where people read: its own name if it comes from no object."""
    return name if owner is None else str(owner)


def workload_document(owner: TopOwner | None) -> dict[str, str | None] | None:
    """Return what a job comes from, for documents; None where it is not to be named."""
    if owner is None:
        return None
    named = {"kind": owner.kind, "namespace": owner.namespace, "name": owner.name}
    return {**named, "part": owner.part or None}


def title_in(entry: Mapping[str, Any], name: str = "podGroup", workload: str = "workload") -> str:
    """Return what a job of a document is called; empty where the document does not name it."""
    of = entry[workload]
    if of is None:
        return entry[name] or ""
    return str(TopOwner(of["kind"], of["namespace"], of["name"], of["part"] or ""))
