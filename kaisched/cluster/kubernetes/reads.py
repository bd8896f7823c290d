"""Versions of pods that were read outside their watch, to ignore older events of the watch."""

from __future__ import annotations

from kaisched.cluster.kubernetes.change import Change
from kaisched.objects.wire import ObjectMeta


class Reads:
    """The last read version of each pod whose watch has not reached it yet."""

    def __init__(self) -> None:
        """Begin without reads."""
        self._ahead: dict[str, tuple[str, int]] = {}  # (UID, version)
        self._put_off: dict[str, Change] = {}

    def note(self, meta: ObjectMeta) -> None:
        """Keep the version of a pod that was read and taken in."""
        if meta.resource_version.isdecimal():
            self._ahead[_key(meta)] = meta.uid, int(meta.resource_version)

    def are_ahead_of(self, change: Change) -> bool:
        """Tell whether an event of the watch is older than the last read of its pod."""
        meta = change.obj.metadata
        found = self._ahead.get(_key(meta))
        if found is None:
            return False
        uid, version = found
        is_comparable = meta.resource_version.isdecimal()
        if uid == meta.uid and is_comparable and int(meta.resource_version) < version:
            self._put_off[_key(meta)] = change
            return True
        self.drop(meta)
        return False

    def drop(self, meta: ObjectMeta) -> None:
        """Forget the read of a pod: the watch has reached it, or the pod is gone."""
        self._ahead.pop(_key(meta), None)
        self._put_off.pop(_key(meta), None)

    def forget(self) -> list[Change]:
        """Forget all reads; return the changes that were ignored because of them.

        The server's store was restored from a backup, and its versions begin anew.
        """
        put_off = list(self._put_off.values())
        self._ahead.clear()
        self._put_off.clear()
        return put_off


def is_older(meta: ObjectMeta, known: tuple[str, str]) -> bool:
    """Tell whether a pod that was read outside its watch is older than its known state.

    The known state is a UID and a version. A pod without one is gone: only known pods are read.
    """
    uid, version = known
    is_comparable = version.isdecimal() and meta.resource_version.isdecimal()
    return not uid or (is_comparable and int(meta.resource_version) < int(version))


def _key(meta: ObjectMeta) -> str:
    return f"{meta.namespace}/{meta.name}"
