"""The current status of objects on the server, as seen in watches and in answers to writes.

An answer to a write is newer than the watch at that time. Later events of older versions are
left out; otherwise a status that is there already would be written once more.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple, TypeAlias

import msgspec

from kaisched.cluster.kubernetes.group_conditions import pool_of, pools_known
from kaisched.cluster.store import StateStore
from kaisched.objects.pod import Pod
from kaisched.objects.podgroup import PodGroup
from kaisched.objects.queue import Queue

Reported: TypeAlias = Pod | PodGroup | Queue
SCHEDULED: Final = "PodScheduled"
UNSCHEDULABLE: Final = "Unschedulable"


class Seen(NamedTuple):
    """The current status of one object."""

    uid: str
    version: str
    status: Any
    """For a pod only the message of its condition; None if the pod has no condition of waiting."""
    is_placed: bool = False
    """A pod has a node; it is kept only because its condition still says that it waits."""
    is_answer: bool = False
    """From the server's answer to a write, which the watch has not reached yet."""


def key_of(obj: Reported) -> str:
    """Return the key of an object, unique among all kinds."""
    if isinstance(obj, Pod):
        return f"pods/{obj.key}"
    return f"queues/{obj.name}" if isinstance(obj, Queue) else f"podgroups/{obj.key}"


class SeenObjects:
    """Pods that wait or wrongly say so, pod groups and queues. For one thread at a time."""

    def __init__(self, store: StateStore, node_pool: str) -> None:
        """Begin without objects.

        Args:
            store: tells which pods are ours.
            node_pool: name of our node pool in the conditions of pod groups.

        """
        self._store, self._node_pool = store, node_pool
        self._objects: dict[str, Seen] = {}
        self.with_condition: dict[str, None] = {}
        """Pod groups with a condition that nodes of a pool known to us could not take them."""
        self.fresh: dict[str, None] = {}
        """New pod groups, by job; the reporter takes them out."""
        self.wrongly_waiting: dict[str, None] = {}
        """Pods of ours that have a node and a condition that says that they wait."""

    def get(self, key: str) -> Seen | None:
        """Return the current status of an object; None if it is not known."""
        return self._objects.get(key)

    def drop(self, key: str) -> None:
        """Forget an object: it is gone."""
        self._objects.pop(key, None)
        self.wrongly_waiting.pop(key, None)
        kind, _, job = key.partition("/")
        if kind == "podgroups":  # a pod may have the name of a pod group
            self.with_condition.pop(job, None)
            self.fresh.pop(job, None)

    def trust_watch(self, key: str) -> None:
        """Accept any event of the watch again: the server has refused the version that we know."""
        seen = self._objects.get(key)
        if seen is not None:
            self._objects[key] = seen._replace(is_answer=False)

    def observe(self, obj: Reported, *, is_answer: bool = False) -> bool:
        """Take in a version of an object; return False if a newer one is known."""
        key, meta = key_of(obj), obj.metadata
        before = self._objects.get(key)
        if before is not None and _is_older(meta.resource_version, before, meta.uid, is_answer):
            return False
        if isinstance(obj, Pod):
            self._observe_pod(key, obj, is_answer=is_answer)
            return True
        if isinstance(obj, PodGroup):
            if before is None:
                self.fresh[obj.key] = None
            said = obj.status.scheduling_conditions
            if said and not pools_known(self._store, self._node_pool).isdisjoint(
                map(pool_of, said)
            ):
                self.with_condition[obj.key] = None
            else:
                self.with_condition.pop(obj.key, None)
        status = msgspec.to_builtins(obj.status)
        self._objects[key] = Seen(meta.uid, meta.resource_version, status, is_answer=is_answer)
        return True

    def _observe_pod(self, key: str, pod: Pod, *, is_answer: bool) -> None:
        said = next((it for it in pod.status.conditions if it.type == SCHEDULED), None)
        says_so = said is not None and said.status == "False" and said.reason == UNSCHEDULABLE
        message = said.message if said is not None and says_so else None
        is_placed = bool(pod.spec.node_name)
        is_wrong = is_placed and says_so and self._store.ours.may_place(pod)
        if is_wrong:
            self.wrongly_waiting[key] = None
        else:
            self.wrongly_waiting.pop(key, None)
        if is_wrong or not (is_placed or pod.status.phase in {"Succeeded", "Failed"}):
            meta = pod.metadata
            self._objects[key] = Seen(
                meta.uid, meta.resource_version, message, is_placed, is_answer
            )
        else:
            self._objects.pop(key, None)


def _is_older(version: str, seen: Seen, uid: str, is_answer: bool) -> bool:
    """Tell whether a version of an object is older than the known one."""
    if uid != seen.uid or not (seen.is_answer or is_answer):
        return False
    is_comparable = version.isdecimal() and seen.version.isdecimal()
    return is_comparable and int(version) < int(seen.version)
