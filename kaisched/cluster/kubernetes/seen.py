"""What objects say of themselves already, as the server has it: from watches, and from its answers.

An answer to a write is newer than what the watch has told by then. What the watch tells later of
the time before it is left out, or we would write once more what is there.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple, TypeAlias

import msgspec

from kaisched.cluster.store import StateStore
from kaisched.objects.pod import Pod
from kaisched.objects.podgroup import PodGroup
from kaisched.objects.queue import Queue

Reported: TypeAlias = Pod | PodGroup | Queue
SCHEDULED: Final = "PodScheduled"
UNSCHEDULABLE: Final = "Unschedulable"


class Seen(NamedTuple):
    """One object."""

    uid: str
    version: str
    status: Any
    """Of a pod only the message of its condition; None where it says nothing of waiting."""
    is_placed: bool = False
    """A pod has a node; it is known here only because it still says that it waits."""
    is_answer: bool = False
    """The server's answer told us, and the watch has not yet."""


def key_of(obj: Reported) -> str:
    """Return the key of an object, unlike that of any other of any kind."""
    if isinstance(obj, Pod):
        return f"pods/{obj.key}"
    return f"queues/{obj.name}" if isinstance(obj, Queue) else f"podgroups/{obj.key}"


class SeenObjects:
    """Pods that wait or wrongly say so, pod groups and queues. For one thread at a time."""

    def __init__(self, store: StateStore, node_pool: str) -> None:
        """Have seen none.

        Args:
            store: knows which pods are ours.
            node_pool: ours, as conditions of pod groups name it.

        """
        self._store, self._node_pool = store, node_pool
        self._objects: dict[str, Seen] = {}
        self.marked: dict[str, None] = {}
        """Pod groups that say that our nodes could not take them, by job."""
        self.fresh: dict[str, None] = {}
        """Pod groups that have come, by job; whoever looks at them takes them out."""
        self.misled: dict[str, None] = {}
        """Pods of ours that have a node and say that they wait."""

    def get(self, key: str) -> Seen | None:
        """Return what is known of an object; None for nothing."""
        return self._objects.get(key)

    def drop(self, key: str) -> None:
        """Forget an object: it is gone."""
        self._objects.pop(key, None)
        self.misled.pop(key, None)
        kind, _, job = key.partition("/")
        if kind == "podgroups":  # a pod may have the name of one
            self.marked.pop(job, None)
            self.fresh.pop(job, None)

    def doubt(self, key: str) -> None:
        """Believe the watch again, whatever it says: the server has refused what we know."""
        seen = self._objects.get(key)
        if seen is not None:
            self._objects[key] = seen._replace(is_answer=False)

    def note(self, obj: Reported, *, is_answer: bool = False) -> bool:
        """Take in an object as it is, or was; False where more is known of it already."""
        key, meta = key_of(obj), obj.metadata
        before = self._objects.get(key)
        if before is not None and _is_older(meta.resource_version, before, meta.uid, is_answer):
            return False
        if isinstance(obj, Pod):
            self._note_pod(key, obj, is_answer=is_answer)
            return True
        if isinstance(obj, PodGroup):
            if before is None:
                self.fresh[obj.key] = None
            said = obj.status.scheduling_conditions
            if any(it.node_pool == self._node_pool for it in said):
                self.marked[obj.key] = None
            else:
                self.marked.pop(obj.key, None)
        status = msgspec.to_builtins(obj.status)
        self._objects[key] = Seen(meta.uid, meta.resource_version, status, is_answer=is_answer)
        return True

    def _note_pod(self, key: str, pod: Pod, *, is_answer: bool) -> None:
        said = next((it for it in pod.status.conditions if it.type == SCHEDULED), None)
        says_so = said is not None and said.status == "False" and said.reason == UNSCHEDULABLE
        message = said.message if said is not None and says_so else None
        is_placed = bool(pod.spec.node_name)
        is_misled = is_placed and says_so and self._store.may_place(pod)
        if is_misled:
            self.misled[key] = None
        else:
            self.misled.pop(key, None)
        if is_misled or not (is_placed or pod.status.phase in {"Succeeded", "Failed"}):
            meta = pod.metadata
            self._objects[key] = Seen(
                meta.uid, meta.resource_version, message, is_placed, is_answer
            )
        else:
            self._objects.pop(key, None)


def _is_older(version: str, seen: Seen, uid: str, is_answer: bool) -> bool:
    """Tell whether something was so before what is known, of the same object."""
    if uid != seen.uid or not (seen.is_answer or is_answer):
        return False
    is_told = version.isdecimal() and seen.version.isdecimal()
    return is_told and int(version) < int(seen.version)
