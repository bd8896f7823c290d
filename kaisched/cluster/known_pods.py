"""The pods that a store was told of, each as it was last taken in and with the job it is in."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kaisched.cluster.grouping import Membership
    from kaisched.cluster.translate import PodRow
    from kaisched.objects.wire import ObjectMeta


class KnownPods:
    """Keeps the pods that have a task, and apart from them those of others on unknown nodes."""

    def __init__(self) -> None:
        """Know none."""
        self._pods: dict[str, tuple[PodRow, Membership | None]] = {}
        self._strangers: dict[str, PodRow] = {}

    def __contains__(self, key: str) -> bool:
        """Tell whether a pod has a task."""
        return key in self._pods

    def __len__(self) -> int:
        """Return how many pods have a task."""
        return len(self._pods)

    def put(self, pod: PodRow, member: Membership | None) -> None:
        """Keep a pod as it is now, and what it is a member of; None for a pod of others."""
        self._pods[pod.key] = (pod, member)

    def take(self, key: str) -> tuple[PodRow, Membership | None]:
        """Keep a pod no longer, and return it."""
        return self._pods.pop(key)

    def find(self, key: str) -> tuple[PodRow, Membership | None] | None:
        """Return a pod as it was last taken in, with its membership; None for none."""
        return self._pods.get(key)

    def pod(self, key: str) -> PodRow | None:
        """Return a pod as it was last taken in; None for none."""
        found = self._pods.get(key)
        return None if found is None else found[0]

    def of_others(self) -> list[PodRow]:
        """Return the pods that are not ours and hold room on our nodes."""
        return [pod for pod, member in self._pods.values() if member is None]

    # -- pods of others on nodes that are not known ----------------------------------------------

    def put_stranger(self, pod: PodRow) -> None:
        """Keep a pod of others until its node comes."""
        self._strangers[pod.key] = pod

    def drop_stranger(self, key: str, uid: str = "") -> None:
        """Keep it no longer; with a UID, only if it is still that one."""
        pod = self._strangers.get(key)
        if pod is not None and uid in {"", pod.uid}:
            del self._strangers[key]

    def stranger(self, key: str) -> PodRow | None:
        """Return a pod of others whose node is not known; None for none."""
        return self._strangers.get(key)

    def strangers(self) -> list[PodRow]:
        """Return all of them."""
        return list(self._strangers.values())

    # -- questions -------------------------------------------------------------------------------

    def meta_of(self, key: str) -> ObjectMeta | None:
        """Return the metadata of a pod, which may own others; None for none."""
        found = self._pods.get(key)
        return None if found is None else found[0].meta

    def version_of(self, key: str) -> tuple[str, str]:
        """Return (UID, resource version) of a pod as it was last taken in; empty for none."""
        found = self._pods.get(key)
        return (found[0].uid, found[0].meta.resource_version) if found is not None else ("", "")

    def is_waiting(self, key: str) -> bool:
        """Tell whether a pod had no node when it was last heard of, whatever is assumed of it."""
        found = self._pods.get(key)
        return found is not None and not found[0].node

    def is_told(self, key: str, node: str) -> bool:
        """Tell whether a pod's own status names the node that is promised to it."""
        found = self._pods.get(key)
        return found is not None and found[0].nominated == node
