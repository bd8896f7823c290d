"""Where objects are kept: as bytes, encoded once, with the changes of the recent past.

An object is encoded when it is written and never again: lists, watches and single answers send the
same bytes. That makes a watch event cheap for any number of watchers, and 50,000 pods take the room
of their JSON.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal, NamedTuple

import msgspec

from kaisched_apiserver.fields import Paths, fields_of, paths_of

HISTORY_LENGTH: Final = 20_000
"""So many changes of a kind are kept; a watch from before them is told 410."""

decode: Final = msgspec.json.Decoder().decode
encode: Final = msgspec.json.Encoder().encode

ChangeType = Literal["ADDED", "MODIFIED", "DELETED"]


@dataclass(frozen=True, slots=True)
class Record:
    """One object as it was at a version; never changed."""

    key: str
    """``namespace/name``, or the name of what belongs to no namespace."""
    uid: str
    version: int
    labels: Mapping[str, str]
    fields: Mapping[str, str]
    """What field selectors may ask for, without name and namespace."""
    body: bytes

    @property
    def namespace(self) -> str:
        """The namespace, empty for none."""
        return self.key.rpartition("/")[0]

    @property
    def name(self) -> str:
        """The name."""
        return self.key.rpartition("/")[2]

    def object(self) -> dict[str, Any]:
        """Return a copy that may be changed."""
        return decode(self.body)  # type: ignore[no-any-return]


class Change(NamedTuple):
    """What happened to an object; ``before`` is None for a new one."""

    type: ChangeType
    version: int
    record: Record
    before: Record | None


@dataclass(slots=True)
class Collection:
    """The objects of one kind."""

    key: tuple[str, str]
    floor: int
    """Changes up to this version are forgotten."""
    paths: Paths
    """What field selectors may name."""
    records: dict[str, Record] = field(default_factory=dict)
    names: list[str] = field(default_factory=list)
    """The keys in order, as lists show them."""
    history: deque[Change] = field(default_factory=deque)

    def within(self, namespace: str) -> list[str]:
        """Return the keys of a namespace in order; of all for an empty one."""
        if not namespace:
            return self.names
        start = bisect_left(self.names, f"{namespace}/")
        return self.names[start : bisect_left(self.names, f"{namespace}0")]  # "0" follows "/"

    def since(self, version: int) -> Iterable[Change]:
        """Return the changes after a version, the oldest first."""
        later: list[Change] = []
        for change in reversed(self.history):
            if change.version <= version:
                break
            later.append(change)
        return reversed(later)

    def as_of(self, version: int) -> dict[str, Record]:
        """Return the records as they were at a version that is not before ``floor``."""
        records = dict(self.records)
        for change in reversed(self.history):
            if change.version <= version:
                break
            if change.before is None:
                records.pop(change.record.key, None)
            else:
                records[change.record.key] = change.before
        return records


class Storage:
    """All objects and the one version that counts their changes.

    Used by one thread only. Whoever listens is told of each change at once.
    """

    def __init__(self) -> None:
        """Be empty."""
        self.version = 1
        self.listeners: list[Callable[[Collection, Change], None]] = []
        self._floor = 0
        self._collections: dict[tuple[str, str], Collection] = {}

    def collection(self, key: tuple[str, str]) -> Collection:
        """Return the objects of a kind."""
        found = self._collections.get(key)
        if found is None:
            found = self._collections[key] = Collection(key, self._floor, paths_of(key))
        return found

    def collections(self) -> list[Collection]:
        """Return all kinds that ever had an object."""
        return list(self._collections.values())

    def get(self, key: tuple[str, str], name: str) -> Record | None:
        """Return an object by its ``namespace/name``."""
        return self.collection(key).records.get(name)

    def put(self, key: tuple[str, str], obj: dict[str, Any]) -> Record:
        """Keep a new or changed object, which is given its version."""
        collection = self.collection(key)
        record = _record(collection, obj, self.version + 1)
        self.version += 1
        before = collection.records.get(record.key)
        collection.records[record.key] = record
        if before is None:
            insort(collection.names, record.key)
        type_: ChangeType = "ADDED" if before is None else "MODIFIED"
        self._note(collection, Change(type_, self.version, record, before))
        return record

    def remove(self, key: tuple[str, str], before: Record) -> Record:
        """Forget an object; return how it was last, with the version of its end."""
        collection = self.collection(key)
        self.version += 1
        record = _record(collection, before.object(), self.version)
        del collection.records[before.key]
        del collection.names[bisect_left(collection.names, before.key)]
        self._note(collection, Change("DELETED", self.version, record, before))
        return record

    def forget_history(self) -> None:
        """Forget every change, as a server does that starts again."""
        self.version += 1
        self._floor = self.version
        for collection in self._collections.values():
            collection.history.clear()
            collection.floor = self._floor

    def _note(self, collection: Collection, change: Change) -> None:
        collection.history.append(change)
        if len(collection.history) > HISTORY_LENGTH:
            collection.floor = collection.history.popleft().version
        for listener in self.listeners:
            listener(collection, change)


def _record(collection: Collection, obj: dict[str, Any], version: int) -> Record:
    meta = obj["metadata"]
    meta["resourceVersion"] = str(version)
    namespace = meta.get("namespace")
    key = f"{namespace}/{meta['name']}" if namespace else meta["name"]
    labels = meta.get("labels") or {}
    fields = fields_of(collection.paths, obj)
    return Record(key, meta.get("uid", ""), version, labels, fields, encode(obj))
