"""Who owns what, kept up to date so that nobody has to search for it."""

from __future__ import annotations

from typing import Any

from kaisched_apiserver.storage import Change, Collection, Record, Storage


class Owners:
    """The objects that name an owner, by the owner's identity."""

    def __init__(self, storage: Storage) -> None:
        """Know of nothing yet."""
        self._storage = storage
        self._owned: dict[str, dict[tuple[tuple[str, str], str], None]] = {}

    def hear(self, collection: Collection, change: Change) -> None:
        """Note an object that came or went. Owners are named at creation."""
        if change.type == "MODIFIED":
            return
        place = (collection.key, change.record.key)
        for owner in owners_of(change.record):
            mine = self._owned.setdefault(owner["uid"], {})
            if change.type == "ADDED":
                mine[place] = None
            else:
                mine.pop(place, None)
                if not mine:
                    del self._owned[owner["uid"]]

    def owned(self, uid: str) -> list[tuple[tuple[str, str], Record]]:
        """Return what an owner has, the oldest first, with where it is kept."""
        places = self._owned.get(uid, ())
        return [
            (key, record)
            for key, name in places
            if (record := self._storage.get(key, name)) is not None
        ]


def owners_of(record: Record) -> list[dict[str, Any]]:
    """Return the ownerReferences of an object."""
    if b'"ownerReferences"' not in record.body:
        return []
    return record.object()["metadata"].get("ownerReferences") or []
