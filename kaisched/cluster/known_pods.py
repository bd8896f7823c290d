"""Known pods: each pod as the store last took it in, with its membership."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kaisched.cluster.grouping import Membership
    from kaisched.cluster.translate import PodRow
    from kaisched.objects.wire import ObjectMeta


class KnownPods:
    """Pods that have a task, and strangers: pods of other schedulers on unknown nodes."""

    def __init__(self) -> None:
        """Start without pods."""
        self._pods: dict[str, tuple[PodRow, Membership | None]] = {}
        self._strangers: dict[str, PodRow] = {}

    def __contains__(self, key: str) -> bool:
        """Tell whether a pod has a task."""
        return key in self._pods

    def __len__(self) -> int:
        """Return how many pods have a task."""
        return len(self._pods)

    def put(self, pod: PodRow, member: Membership | None) -> None:
        """Keep a pod and its membership, None for a pod of another scheduler."""
        self._pods[pod.key] = (pod, member)

    def take(self, key: str) -> tuple[PodRow, Membership | None]:
        """Remove a pod and return it with its membership."""
        return self._pods.pop(key)

    def find(self, key: str) -> tuple[PodRow, Membership | None] | None:
        """Return a pod with its membership; None if there is no such pod."""
        return self._pods.get(key)

    def is_ours(self, key: str) -> bool:
        """Tell whether a pod is one that is placed here."""
        return (pod := self.pod(key)) is not None and pod.is_ours

    def pod(self, key: str) -> PodRow | None:
        """Return a pod; None if there is no such pod."""
        found = self._pods.get(key)
        return None if found is None else found[0]

    def members(self) -> Iterator[tuple[PodRow, Membership | None]]:
        """Yield each pod with its membership; None for a pod of another scheduler."""
        yield from self._pods.values()

    def of_others(self) -> list[PodRow]:
        """Return the pods of other schedulers that hold room on our nodes."""
        return [pod for pod, member in self._pods.values() if member is None]

    # -- strangers -------------------------------------------------------------------------------

    def put_stranger(self, pod: PodRow) -> None:
        """Keep a stranger until its node is known."""
        self._strangers[pod.key] = pod

    def drop_stranger(self, key: str, uid: str = "") -> None:
        """Remove a stranger; with a UID, only the pod of that UID."""
        pod = self._strangers.get(key)
        if pod is not None and uid in {"", pod.uid}:
            del self._strangers[key]

    def stranger(self, key: str) -> PodRow | None:
        """Return a stranger; None if there is no such pod."""
        return self._strangers.get(key)

    def strangers(self) -> list[PodRow]:
        """Return all strangers."""
        return list(self._strangers.values())

    # -- questions -------------------------------------------------------------------------------

    def meta_of(self, key: str) -> ObjectMeta | None:
        """Return the metadata of a pod, which may own pods; None if there is no such pod."""
        found = self._pods.get(key)
        return None if found is None else found[0].meta

    def version_of(self, key: str) -> tuple[str, str]:
        """Return (UID, resource version) of a pod; both empty if there is no such pod."""
        found = self._pods.get(key)
        return (found[0].uid, found[0].meta.resource_version) if found is not None else ("", "")

    def is_waiting(self, key: str) -> bool:
        """Tell whether the object of a pod names no node, whatever binds are unconfirmed."""
        found = self._pods.get(key)
        return found is not None and not found[0].node

    def is_told(self, key: str, node: str) -> bool:
        """Tell whether the status of a pod names the node that is promised to it."""
        found = self._pods.get(key)
        return found is not None and found[0].nominated == node
