"""Pods that were read aside of their watch: what is older than that, the watch tells in vain."""

from __future__ import annotations

from kaisched.cluster.kubernetes.change import Change
from kaisched.objects.wire import ObjectMeta


class Reads:
    """What was read last of pods of which the watch has not told as much yet."""

    def __init__(self) -> None:
        """Nothing was read."""
        self._ahead: dict[str, tuple[str, int]] = {}  # (UID, version)
        self._put_off: dict[str, Change] = {}

    def note(self, meta: ObjectMeta) -> None:
        """Note a pod that was read and taken in."""
        if meta.resource_version.isdecimal():
            self._ahead[_key(meta)] = meta.uid, int(meta.resource_version)

    def are_ahead_of(self, change: Change) -> bool:
        """Tell whether what the watch tells of a pod is older than what was read of it."""
        meta = change.obj.metadata
        found = self._ahead.get(_key(meta))
        if found is None:
            return False
        uid, version = found
        is_told = meta.resource_version.isdecimal()
        if uid == meta.uid and is_told and int(meta.resource_version) < version:
            self._put_off[_key(meta)] = change
            return True
        self.drop(meta)
        return False

    def drop(self, meta: ObjectMeta) -> None:
        """Forget what was read of a pod: the watch has caught up, or the pod is gone."""
        self._ahead.pop(_key(meta), None)
        self._put_off.pop(_key(meta), None)

    def forget(self) -> list[Change]:
        """Believe the watch alone, and return what it has told in vain.

        The server's store was put back, and its versions begin anew.
        """
        put_off = list(self._put_off.values())
        self._ahead.clear()
        self._put_off.clear()
        return put_off


def is_older(meta: ObjectMeta, known: tuple[str, str]) -> bool:
    """Tell whether a pod that was read aside of its watch is older than what is known of it.

    Known are a UID and a version. A pod that is not known is gone: who is read was known once.
    """
    uid, version = known
    is_told = version.isdecimal() and meta.resource_version.isdecimal()
    return not uid or (is_told and int(meta.resource_version) < int(version))


def _key(meta: ObjectMeta) -> str:
    return f"{meta.namespace}/{meta.name}"
