"""Exported files as single items: objects of Kubernetes, and entries of lists of a REST API."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

from kaisched.engine.migration.parts import Part, Reasons, Told
from kaisched.errors import Collector
from kaisched.objects.faults import Path as Steps
from kaisched.objects.faults import Source
from kaisched.objects.load import read_values

_OF_LISTS: Final = ("next", "count", "total", "offset", "limit", "metadata", "apiVersion", "kind")
"""Keys beside the entries of a list, which say how it was read."""


class Item(NamedTuple):
    """One object or entry of an export."""

    kind: str
    raw: dict[str, Any]
    at: Steps
    source: Source

    def part(self, told: Told, *, inside: str = "") -> Part:
        """Return a cursor over the item, or over the map under a key of it."""
        if not inside:
            return Part(self.raw, self.at, self.source, told)
        return Part(self.raw.get(inside) or {}, (*self.at, inside), self.source, told)

    def entry(self, told: Told, about: Reasons) -> Part:
        """Return a cursor over an entry of a list, or over the spec and the name of an object.

        What else an object has is told of, with the reasons of ``about``.
        """
        if "spec" not in self.raw:
            return self.part(told)
        whole = self.part(told)
        for key in ("apiVersion", "kind", "spec", "metadata"):
            whole.raw(key)
        whole.rest(about)
        meta, spec = self.raw.get("metadata"), self.raw["spec"]
        name = meta.get("name") if isinstance(meta, dict) else None
        raw = {"name": name, **spec} if isinstance(spec, dict) else spec
        return Part(raw, (*self.at, "spec"), self.source, told)


def items(files: list[Path], lists: Mapping[str, str], told: Told) -> list[Item]:
    """Return all items of some files; ``lists`` gives the kind of the entries of each list by key.

    Raises:
        ObjectError: files cannot be read; it holds all further errors of files.

    """
    found: list[Item] = []
    errors = Collector()
    for file in files:
        with errors.collecting():
            for value, source in read_values(file):
                found += _items(value, (), source, lists, told)
    errors.stop_if_any()
    return found


def _items(
    raw: object, at: Steps, source: Source, lists: Mapping[str, str], told: Told
) -> Iterator[Item]:
    if raw is None:
        return
    part = Part(raw, at, source, told)
    if not isinstance(raw, dict):
        return
    kind, entries = raw.get("kind"), raw.get("items")
    if isinstance(kind, str) and kind.endswith("List") and isinstance(entries, list):
        for number, entry in enumerate(entries):
            one = kind.removesuffix("List")
            typed = {"kind": one, **entry} if one and isinstance(entry, dict) else entry
            yield from _items(typed, (*at, "items", number), source, lists, told)
        return
    if isinstance(kind, str) and kind:
        yield Item(kind, raw, at, source)
        return
    known = [key for key in raw if key in lists]
    if not known:
        lists_too = f", or a map with {', '.join(sorted(lists))}" if lists else ""
        fix = f"give objects, as kubectl get -o yaml does{lists_too}"
        part.wrong("", "no object with a kind", sorted(raw)[:5], fix)
        return
    for key in known:
        part.parts(key)  # says what is no list of maps
        for number, entry in enumerate(raw[key] if isinstance(raw[key], list) else ()):
            if isinstance(entry, dict):
                yield Item(lists[key], entry, (*at, key, number), source)
    part.rest(dict.fromkeys(_OF_LISTS, "it says how the list was read"))
