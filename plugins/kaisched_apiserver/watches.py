"""Open watches: who is told of a change, in which words, each encoded once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from kaisched_apiserver.answers import WatchAnswer
from kaisched_apiserver.statuses import ApiError, expired
from kaisched_apiserver.storage import Change, Collection, Record, encode
from kaisched_apiserver.tables import row_of, table_of
from kaisched_apiserver.views import metadata_only, seen

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

    def tell(self, change: Change, words: _Words) -> None:
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

    def tell(self, collection: Collection, change: Change) -> None:
        """Tell all streams of a kind."""
        words: _Words = {}
        for watch in self._open.get(collection.key, ()):
            watch.tell(change, words)

    def all(self, plural: str = "") -> list[Watch]:
        """Return the open streams; those of kinds with a plural, if one is given."""
        return [it for key, mine in self._open.items() if plural in {"", key[1]} for it in mine]

    def expire(self, plural: str = "") -> None:
        """End streams with 410, as a server does that has lost track."""
        for watch in self.all(plural):
            watch.fail(expired(f"too old resource version: {watch.asked.version}"))


def _event(type_: str, body: bytes) -> bytes:
    return b'{"type":"' + type_.encode() + b'","object":' + body + b"}\n"
