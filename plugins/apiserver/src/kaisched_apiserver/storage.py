"""Where objects are kept, as bytes, and how selectors find them."""

from __future__ import annotations

import re
from bisect import bisect_left, insort
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal, NamedTuple

import msgspec

from kaisched_apiserver.statuses import bad_request

# Which fields of each kind a field selector may name, and where they are.


_INVOLVED: Final = (
    "kind",
    "namespace",
    "name",
    "uid",
    "apiVersion",
    "resourceVersion",
    "fieldPath",
)
# Label of the selector to the path in the object, as it is kept.
_PATHS: Final[dict[tuple[str, str], dict[str, tuple[str, ...]]]] = {
    ("", "pods"): {
        "spec.nodeName": ("spec", "nodeName"),
        "spec.restartPolicy": ("spec", "restartPolicy"),
        "spec.schedulerName": ("spec", "schedulerName"),
        "spec.serviceAccountName": ("spec", "serviceAccountName"),
        "spec.hostNetwork": ("spec", "hostNetwork"),
        "status.phase": ("status", "phase"),
        "status.podIP": ("status", "podIP"),
        "status.nominatedNodeName": ("status", "nominatedNodeName"),
    },
    ("", "nodes"): {"spec.unschedulable": ("spec", "unschedulable")},
    ("", "namespaces"): {"status.phase": ("status", "phase")},
    ("", "secrets"): {"type": ("type",)},
    ("", "events"): {
        **{f"involvedObject.{name}": ("involvedObject", name) for name in _INVOLVED},
        **{f"regarding.{name}": ("involvedObject", name) for name in _INVOLVED},
        "reason": ("reason",),
        "reportingComponent": ("reportingComponent",),
        "reportingController": ("reportingComponent",),
        "source": ("source", "component"),
        "type": ("type",),
    },
    ("apps", "replicasets"): {"status.replicas": ("status", "replicas")},
    ("batch", "jobs"): {"status.successful": ("status", "succeeded")},
}
_FALSE_IF_ABSENT: Final = ("spec.unschedulable", "spec.hostNetwork")
_NOTHING: Final[Mapping[str, str]] = {}


Paths = Mapping[str, tuple[str, ...]]


def paths_of(key: tuple[str, str]) -> Paths:
    """Return what selectors of a built-in kind may name beside name and namespace, and where."""
    return _PATHS.get(key, {})


def fields_of(paths: Paths, obj: dict[str, Any]) -> Mapping[str, str]:
    """Return the selectable fields of an object and their values as text, empty if absent."""
    if not paths:
        return _NOTHING
    return {label: _text(obj, path, label) for label, path in paths.items()}


def _text(obj: Any, path: tuple[str, ...], label: str) -> str:
    for step in path:
        obj = obj.get(step) if isinstance(obj, dict) else None
    if isinstance(obj, bool):
        return "true" if obj else "false"
    if obj is None:
        return "false" if label in _FALSE_IF_ABSENT else ""
    return str(obj)


# Where objects are kept: as bytes, encoded once, with the changes of the recent past.
#
# An object is encoded when it is written and never again: lists, watches and single answers send
# the same bytes. That makes a watch event cheap for any number of watchers, and 50,000 pods take
# the room of their JSON.


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


# Label and field selectors: a text in, a question about a record out.


Matches = Callable[[Record], bool]
_HasLabels = Callable[[Mapping[str, str]], bool]

_KEY: Final = r"[A-Za-z0-9](?:[-A-Za-z0-9_./]*[A-Za-z0-9])?"
_SET: Final = re.compile(rf"({_KEY})\s+(in|notin)\s*\(([^()]*)\)")
_EQUAL: Final = re.compile(rf"({_KEY})\s*(==|=|!=)\s*([-A-Za-z0-9_.]*)")
_EXISTS: Final = re.compile(rf"(!?)\s*({_KEY})")
_COMMA: Final = re.compile(r",(?![^(]*\))")


def matcher_of(label_selector: str, field_selector: str, paths: Paths) -> Matches | None:
    """Return what tells whether a record is selected; None if all are.

    Args:
        label_selector: as ``a=b,c!=d,e in (f,g),h,!i``.
        field_selector: as ``spec.nodeName=n1,status.phase!=Failed``.
        paths: the fields that may be named, beside name and namespace.

    Raises:
        ApiError: 400, a selector cannot be read or names a field that cannot be selected by.

    """
    asks_labels = labels_matcher(label_selector)
    asks_fields = _fields_matcher(field_selector, paths)
    if asks_labels is None:
        return asks_fields
    if asks_fields is None:
        return lambda record: asks_labels(record.labels)
    return lambda record: asks_labels(record.labels) and asks_fields(record)


def labels_matcher(text: str) -> _HasLabels | None:
    """Return what tells whether labels fit a selector; None if all do.

    Raises:
        ApiError: 400, the selector cannot be read.

    """
    terms = [_label_term(part.strip()) for part in _COMMA.split(text)] if text.strip() else []
    if not terms:
        return None
    return lambda labels: all(term(labels) for term in terms)


def selected_by(selector: object) -> _HasLabels:
    """Return what tells whether labels fit an object's ``selector``; an empty one fits all."""
    selector = selector if isinstance(selector, dict) else {}
    equal = selector.get("matchLabels") or {}
    terms = [_equal(key, value) for key, value in equal.items()]
    terms += [
        _expression(it["key"], it["operator"], frozenset(it.get("values") or ()))
        for it in selector.get("matchExpressions") or []
    ]
    return lambda labels: all(term(labels) for term in terms)


def _equal(key: str, value: str) -> _HasLabels:
    return lambda labels: labels.get(key) == value


def _expression(key: str, operator: str, values: frozenset[str]) -> _HasLabels:
    if operator == "In":
        return lambda labels: labels.get(key) in values
    if operator == "NotIn":
        return lambda labels: labels.get(key) not in values
    if operator == "Exists":
        return lambda labels: key in labels
    return lambda labels: key not in labels


def _label_term(text: str) -> _HasLabels:
    if found := _SET.fullmatch(text):
        values = frozenset(value.strip() for value in found[3].split(","))
        return _expression(found[1], "In" if found[2] == "in" else "NotIn", values)
    if found := _EQUAL.fullmatch(text):
        return _expression(found[1], "NotIn" if found[2] == "!=" else "In", frozenset({found[3]}))
    if found := _EXISTS.fullmatch(text):
        return _expression(found[2], "DoesNotExist" if found[1] else "Exists", frozenset())
    raise bad_request(
        f'unable to parse requirement: found "{text}", expected: a key, =, ==, !=, in or notin'
    )


def _fields_matcher(text: str, paths: Paths) -> Matches | None:
    terms = [_field_term(part, paths) for part in text.split(",") if part.strip()]
    if not terms:
        return None
    if len(terms) == 1:
        return terms[0]
    return lambda record: all(term(record) for term in terms)


def _field_term(text: str, paths: Paths) -> Matches:
    found = re.fullmatch(r"\s*([^=!]+?)(==|=|!=)(.*)", text)
    if found is None:
        raise bad_request(f"invalid selector: '{text}'; can't understand '{text}'")
    label, is_equal, value = found[1], found[2] != "!=", found[3].replace("\\", "")
    if label == "metadata.name":
        return lambda record: (record.name == value) is is_equal
    if label == "metadata.namespace":
        return lambda record: (record.namespace == value) is is_equal
    if label not in paths:
        raise bad_request(f"field label not supported: {label}")
    return lambda record: (record.fields[label] == value) is is_equal
