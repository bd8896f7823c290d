"""Get, list and watch."""

from __future__ import annotations

from base64 import urlsafe_b64decode, urlsafe_b64encode
from binascii import Error as Base64Error
from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from msgspec import DecodeError

from kaisched_apiserver.answers import (
    Answer,
    Form,
    WatchAnswer,
    form_of,
    metadata_only,
    row_of,
    seen,
    table_of,
)
from kaisched_apiserver.requests import Request
from kaisched_apiserver.resources import Resource
from kaisched_apiserver.statuses import (
    ApiError,
    bad_request,
    expired,
    not_found,
    too_large_version,
)
from kaisched_apiserver.storage import (
    Change,
    Collection,
    Matches,
    Record,
    Storage,
    decode,
    encode,
    matcher_of,
)

# Get, list and watch.


_LONGEST_WATCH_S: Final = 1_800.0
_TOKEN_VERSION: Final = "meta.k8s.io/v1"  # noqa: S105 - no secret


class Page(NamedTuple):
    """A part of a list."""

    records: Sequence[Record]
    version: int
    resume: str = ""
    left: int = 0
    """How many follow, 0 where that is not known."""


def key_of(request: Request) -> str:
    """Return where the object of a request is kept within its kind."""
    return f"{request.namespace}/{request.name}" if request.namespace else request.name


def must_get(storage: Storage, resource: Resource, request: Request) -> Record:
    """Return the object of a request.

    Raises:
        ApiError: 404, it does not exist.

    """
    record = storage.get(resource.key, key_of(request))
    if record is None:
        raise not_found(resource, request.name)
    return record


def get(storage: Storage, resource: Resource, request: Request, now_s: float) -> Answer:
    """Answer with one object.

    Raises:
        ApiError: 404, it does not exist.

    """
    body = seen(resource, must_get(storage, resource, request).body)
    form = form_of(request.accept)
    if form == "metadata":
        return Answer(200, metadata_only(body))
    if form == "table":
        rows = [row_of(resource, body, request.query.get("includeObject", ""), now_s)]
        meta = {"resourceVersion": decode(body)["metadata"]["resourceVersion"]}
        return Answer(200, encode(table_of(resource, rows, meta, is_titled=True)))
    return Answer(200, body)


def list_objects(storage: Storage, resource: Resource, request: Request, now_s: float) -> Answer:
    """Answer with all objects that are selected, or with a page of them.

    Raises:
        ApiError: 400, a selector, number or token cannot be read; 410, the token or version is too
            old; 504, the version lies in the future.

    """
    collection = storage.collection(resource.key)
    matches = _matcher(collection, request)
    page = _page(storage, collection, request, matches)
    form = form_of(request.accept)
    meta: dict[str, Any] = {"resourceVersion": str(page.version)}
    if page.resume:
        meta["continue"] = page.resume
        if page.left:
            meta["remainingItemCount"] = page.left
    bodies = [seen(resource, record.body) for record in page.records]
    if form == "table":
        include = request.query.get("includeObject", "")
        rows = [row_of(resource, body, include, now_s) for body in bodies]
        return Answer(200, encode(table_of(resource, rows, meta, is_titled=True)))
    if form == "metadata":
        bodies = [metadata_only(body) for body in bodies]
    return Answer(200, list_body(resource, bodies, meta, form))


def list_body(
    resource: Resource, bodies: list[bytes], meta: dict[str, Any], form: Form = "whole"
) -> bytes:
    """Return a list of objects that are encoded already."""
    kind, version = resource.list_kind, resource.api_version
    if form == "metadata":
        kind, version = "PartialObjectMetadataList", "meta.k8s.io/v1"
    head = encode({"kind": kind, "apiVersion": version, "metadata": meta})
    return head[:-1] + b',"items":[' + b",".join(bodies) + b"]}"


def _matcher(collection: Collection, request: Request) -> Matches | None:
    query = request.query
    return matcher_of(
        query.get("labelSelector", ""), query.get("fieldSelector", ""), collection.paths
    )


def selected(storage: Storage, resource: Resource, request: Request) -> list[Record]:
    """Return the objects that a request selects, in order.

    Raises:
        ApiError: 400, a selector cannot be read.

    """
    collection = storage.collection(resource.key)
    matches = _matcher(collection, request)
    found = [collection.records[key] for key in collection.within(request.namespace)]
    return found if matches is None else [it for it in found if matches(it)]


def _page(
    storage: Storage, collection: Collection, request: Request, matches: Matches | None
) -> Page:
    limit = request.number("limit") or 0
    wanted = request.number("resourceVersion") or 0
    is_exact = request.query.get("resourceVersionMatch") == "Exact"
    if wanted > storage.version:
        raise too_large_version(wanted, storage.version)
    start, version = "", storage.version
    if request.query.get("continue"):
        version, start = _place(request.query["continue"])
    elif is_exact:
        version = wanted
    elif request.query.get("resourceVersion") == "0":
        limit = 0  # answered from the cache, which knows no pages
    if version < collection.floor:
        raise expired("The resourceVersion for the provided list is too old.")
    records, names = _at_version(collection, request.namespace, version)
    names = names[bisect_left(names, start) :]
    found: list[Record] = []
    for at, name in enumerate(names):
        if limit and len(found) == limit:
            left = len(names) - at if matches is None else 0
            return Page(found, version, _token(version, name), left)
        if matches is None or matches(records[name]):
            found.append(records[name])
    return Page(found, version)


def _at_version(
    collection: Collection, namespace: str, version: int
) -> tuple[Mapping[str, Record], list[str]]:
    """Return records and their keys in order, as they were at a version."""
    is_present = not collection.history or collection.history[-1].version <= version
    if is_present:
        return collection.records, collection.within(namespace)
    records = collection.as_of(version)
    prefix = f"{namespace}/" if namespace else ""
    return records, sorted(key for key in records if key.startswith(prefix))


def _token(version: int, start: str) -> str:
    place = encode({"v": _TOKEN_VERSION, "rv": version, "start": start})
    return urlsafe_b64encode(place).decode().rstrip("=")


def _place(token: str) -> tuple[int, str]:
    why = "continue key is not valid: "
    try:
        raw = urlsafe_b64decode(token + "=" * (-len(token) % 4))
    except (Base64Error, ValueError) as wrong:
        raise bad_request(f"invalid continue token: {why}{wrong}") from wrong
    try:
        place = decode(raw)
        return int(place["rv"]), str(place["start"])
    except (DecodeError, KeyError, TypeError, ValueError) as wrong:
        first = raw[:1].decode("latin-1")
        raise bad_request(
            f"invalid continue token: {why}invalid character '{first}' looking for beginning of"
            " value"
        ) from wrong


def watch(storage: Storage, resource: Resource, request: Request) -> WatchAnswer:
    """Answer with a stream of changes.

    A version that is too old is no error of the request: the stream says so and ends.

    Raises:
        ApiError: 400, a selector or number cannot be read.

    """
    collection = storage.collection(resource.key)
    query = request.query
    if request.name:
        name = f"metadata.name={request.name}"
        matches: Matches | None = matcher_of("", name, collection.paths)
    else:
        matches = _matcher(collection, request)
    since = request.number("resourceVersion") or 0
    version = max(since, storage.version)
    replay: Sequence[Any] = ()
    error: ApiError | None = None
    is_starting = since == 0 or request.is_set("sendInitialEvents")
    if is_starting and query.get("sendInitialEvents") != "false":
        replay = [collection.records[key] for key in collection.within(request.namespace)]
    elif 0 < since < collection.floor:
        error = expired(f"too old resource version: {since} ({collection.floor})")
    elif since:
        replay = list(collection.since(since))
        version = max(since, storage.version)
    timeout_s = request.number("timeoutSeconds")
    return WatchAnswer(
        resource,
        request.namespace,
        matches,
        form_of(request.accept),
        query.get("includeObject", ""),
        has_bookmarks=request.is_set("allowWatchBookmarks"),
        is_marking_start=request.is_set("sendInitialEvents"),
        timeout_s=float(timeout_s) if timeout_s else _LONGEST_WATCH_S,
        version=version,
        replay=replay,
        error=error,
    )


# Open watches: who is told of a change, in which words, each encoded once.


_Words = dict[tuple[Any, ...], bytes]
_INITIAL_END: Final = "k8s.io/initial-events-end"


@dataclass(eq=False, slots=True)
class Watch:
    """One stream. ``send`` takes lines; ``end`` closes the stream in good order."""

    asked: WatchAnswer
    send: Callable[[bytes], None]
    end: Callable[[], None]
    now_s: Callable[[], float]
    is_mute: bool = False
    """Half-open: the connection stands and nothing comes through it any more."""
    has_titles: bool = True

    def handle(self, change: Change, words: _Words) -> None:
        """Send a change, if it belongs to the stream."""
        if self.is_mute or change.version <= self.asked.version:
            return
        line = self._line(change, words)
        if line:
            self.send(line)

    def replay(self) -> None:
        """Send what the stream begins with."""
        if self.asked.error is not None:
            self.fail(self.asked.error)
            return
        words: _Words = {}
        lines = []
        for it in self.asked.replay:
            words.clear()
            change = Change("ADDED", it.version, it, None) if isinstance(it, Record) else it
            lines.append(self._line(change, words))
        if any(lines):
            self.send(b"".join(lines))
        if self.asked.is_marking_start:
            self.bookmark(self.asked.version, is_start_marked=True)

    def bookmark(self, version: int, *, is_start_marked: bool = False) -> None:
        """Say up to which version the stream has told all."""
        if self.is_mute or not (self.asked.has_bookmarks or is_start_marked):
            return
        resource = self.asked.resource
        meta: dict[str, Any] = {"resourceVersion": str(version), "creationTimestamp": None}
        if is_start_marked:
            meta["annotations"] = {_INITIAL_END: "true"}
        obj = {"kind": resource.kind, "apiVersion": resource.api_version, "metadata": meta}
        body = encode(obj)
        if self.asked.form == "metadata":
            body = metadata_only(body)
        elif self.asked.form == "table":
            row = {"cells": [], "object": obj}
            body = encode(
                table_of(resource, [row], {"resourceVersion": str(version)}, is_titled=False)
            )
        self.send(_event("BOOKMARK", body))

    def fail(self, error: ApiError) -> None:
        """End the stream with an error."""
        if not self.is_mute:
            self.send(_event("ERROR", error.body()))
            self.end()

    def _line(self, change: Change, words: _Words) -> bytes:
        """Return a change as a line, empty if it is none of this stream's."""
        asked = self.asked
        if asked.namespace and change.record.namespace != asked.namespace:
            return b""
        type_: str = change.type
        if asked.matches is not None:
            is_in = type_ != "DELETED" and asked.matches(change.record)
            was_in = change.before is not None and asked.matches(change.before)
            if not is_in and not was_in:
                return b""
            type_ = "MODIFIED" if is_in and was_in else "ADDED" if is_in else "DELETED"
        if asked.form == "table":
            return _event(type_, self._table(change.record))
        key = (type_, asked.form, asked.resource.group, asked.resource.version)
        line = words.get(key)
        if line is None:
            body = seen(asked.resource, change.record.body)
            line = _event(type_, metadata_only(body) if asked.form == "metadata" else body)
            words[key] = line
        return line

    def _table(self, record: Record) -> bytes:
        resource = self.asked.resource
        row = row_of(resource, seen(resource, record.body), self.asked.include, self.now_s())
        meta = {"resourceVersion": str(record.version)}
        table = table_of(resource, [row], meta, is_titled=self.has_titles)
        self.has_titles = False
        return encode(table)


class Watches:
    """All open streams, by kind."""

    def __init__(self) -> None:
        """Have none."""
        self._open: dict[tuple[str, str], list[Watch]] = {}

    def add(self, watch: Watch) -> None:
        """Tell a stream of all changes from now on."""
        self._open.setdefault(watch.asked.resource.key, []).append(watch)

    def discard(self, watch: Watch) -> None:
        """Forget a stream."""
        mine = self._open.get(watch.asked.resource.key, [])
        if watch in mine:
            mine.remove(watch)

    def handle(self, collection: Collection, change: Change) -> None:
        """Send a change to all streams of a kind."""
        words: _Words = {}
        for watch in self._open.get(collection.key, ()):
            watch.handle(change, words)

    def all(self, plural: str = "") -> list[Watch]:
        """Return the open streams; those of kinds with a plural, if one is given."""
        return [it for key, mine in self._open.items() if plural in {"", key[1]} for it in mine]

    def expire(self, plural: str = "") -> None:
        """End streams with 410, as a server does that has lost track."""
        for watch in self.all(plural):
            watch.fail(expired(f"too old resource version: {watch.asked.version}"))


def _event(type_: str, body: bytes) -> bytes:
    return b'{"type":"' + type_.encode() + b'","object":' + body + b"}\n"
