"""Kueue's objects of a live cluster, replaced by what they mean here before the store sees them.

Rules K1 to K7 of docs/reference/kueue-objects.md. The store, its recordings and its redaction know
only our own objects.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, TypeAlias

from msgspec.structs import replace

from kaisched.cluster.kubernetes.reflector import Change
from kaisched.cluster.kubernetes.resources import Seen
from kaisched.objects import labels
from kaisched.objects.decode import faults_of
from kaisched.objects.faults import Source, to_error
from kaisched.objects.kueue import (
    KINDS,
    PRIORITY_CLASS,
    QUEUE_NAME,
    ClusterQueue,
    Cohort,
    KueueObject,
    LocalQueue,
    ResourceFlavor,
    WorkloadPriorityClass,
)
from kaisched.objects.kueue_queues import tree_of
from kaisched.objects.kueue_work import class_name, held_queue
from kaisched.objects.load import identity_of
from kaisched.objects.pod import Pod
from kaisched.objects.queue import Queue
from kaisched.objects.wire import ObjectMeta
from kaisched.objects.workloads import PriorityClass

_Identity: TypeAlias = tuple[str, str]
_NO_FLAVOR: Final = (
    "ResourceFlavor {} is named by quotas, but is not in the cluster: it has the nodes that no"
    " other flavor of its queue has"
)


class KueueTranslator:
    """Turns changes of Kueue's objects, and of all that names a LocalQueue, into ours.

    Used by one thread at a time.
    """

    def __init__(self, gpu_resources: Sequence[str]) -> None:
        """Know no objects."""
        self._gpu_resources = gpu_resources
        self._theirs: dict[_Identity, KueueObject] = {}
        self._own_queues: set[str] = set()
        self._users: dict[_Identity, Seen] = {}
        """All that names a LocalQueue, as it was read."""
        self._made: dict[str, Queue] = {}
        self._pools: set[str] = set()
        """ClusterQueues whose LocalQueues are queues of their own (K10)."""
        self._classes: set[int] = set()
        self._is_stale = False
        self._are_labels_stale = False
        self.warnings: tuple[str, ...] = ()
        """What is wrong with the tree, or has no equivalent."""

    def translated(self, change: Change) -> Iterator[Change]:
        """Return what a change means for the store at once; see also :meth:`settled`."""
        obj = change.obj
        if isinstance(obj, KINDS):
            self._take_in(obj, is_gone=change.is_gone)
            return
        if isinstance(obj, Queue):
            self._is_stale = True
            self._own_queues.discard(obj.name)
            if not change.is_gone:
                self._own_queues.add(obj.name)
                self._made.pop(obj.name, None)
        said = obj.metadata.labels
        is_user = QUEUE_NAME in said and labels.QUEUE not in said
        if is_user and not change.is_gone:
            self._users[identity_of(obj)] = obj
        else:
            self._users.pop(identity_of(obj), None)
        if is_user:
            yield from self._class_of(obj)
            yield change._replace(obj=self._labelled(obj))
        else:
            yield change

    def _take_in(self, obj: KueueObject, *, is_gone: bool) -> None:
        """Keep an object of Kueue, and note what else it changes."""
        self._theirs.pop(identity_of(obj), None)
        if not is_gone:
            self._theirs[identity_of(obj)] = obj
        self._is_stale = True
        self._are_labels_stale |= isinstance(obj, LocalQueue | WorkloadPriorityClass)
        if isinstance(obj, ClusterQueue):
            is_pool = obj.spec.is_by_usage and not is_gone
            self._are_labels_stale |= is_pool != (obj.name in self._pools)
            (self._pools.add if is_pool else self._pools.discard)(obj.name)

    def settled(self) -> Iterator[Change]:
        """Return the changes that follow from Kueue's objects since the last call."""
        if not self._is_stale:
            return
        self._is_stale = False
        now = {queue.name: queue for queue in self._queues()}
        for name in sorted(self._made.keys() - now.keys() - self._own_queues):
            yield Change(self._made[name], is_gone=True)
        for name, queue in now.items():
            if self._made.get(name) != queue:
                yield Change(queue)
        self._made = now
        if self._are_labels_stale:
            self._are_labels_stale = False
            for obj in self._users.values():
                yield from self._class_of(obj)
                yield Change(self._labelled(obj))

    def _queues(self) -> Iterable[Queue]:
        good = [it for it in self._theirs.values() if all(f.is_warning for f in faults_of(it))]
        local = [it for it in good if isinstance(it, LocalQueue)]
        flavors = [it for it in good if isinstance(it, ResourceFlavor)]
        tree = tree_of(
            [it for it in good if isinstance(it, ClusterQueue)],
            [it for it in good if isinstance(it, Cohort)],
            local,
            taken=self._own_queues,
            gpu_resources=self._gpu_resources,
            flavors=flavors or None,  # without any, they may be not served, or not readable
        )
        ignored = [
            to_error(fault, Source(), it.KIND, it.key)
            for it in self._theirs.values()
            for fault in faults_of(it)
            if fault.is_warning
        ]
        missing = set().union(*tree.flavors_of.values()) - {it.name for it in flavors}
        self.warnings = (
            *map(str, (*ignored, *tree.problems, *tree.warnings)),
            *map(_NO_FLAVOR.format, sorted(missing)),
        )
        held = [it for it in local if it.spec.stop_policy != "None"]
        own = tree.local_queues
        return [*tree.queues, *(held_queue(it) for it in held if it.key not in own)]

    def _labelled(self, obj: Seen) -> Seen:
        """Return an object with its queue and priority in our labels."""
        meta = obj.metadata
        said = dict(meta.labels)
        said[labels.QUEUE] = self._queue_of(obj)
        said.setdefault(labels.PREEMPTIBILITY, labels.PREEMPTIBLE)
        value = self._priority_of(obj)
        if value is not None:
            said[labels.PRIORITY_CLASS] = class_name(value)
        return replace(obj, metadata=replace(meta, labels=said))

    def _queue_of(self, obj: Seen) -> str:
        key = f"{obj.metadata.namespace}/{obj.metadata.labels[QUEUE_NAME]}"
        local = self._theirs.get((LocalQueue.KIND, key))
        if not isinstance(local, LocalQueue):
            return key  # there is no such queue, so that its jobs wait
        if local.spec.cluster_queue in self._pools:
            return key
        policy = local.spec.stop_policy
        is_placed = isinstance(obj, Pod) and bool(obj.spec.node_name)
        is_held = policy == "HoldAndDrain" or (policy == "Hold" and not is_placed)
        return key if is_held and isinstance(obj, Pod) else local.spec.cluster_queue

    def _priority_of(self, obj: Seen) -> int | None:
        name = obj.metadata.labels.get(PRIORITY_CLASS, "")
        cls = self._theirs.get((WorkloadPriorityClass.KIND, name))
        if isinstance(cls, WorkloadPriorityClass):
            return cls.value
        return (obj.spec.priority or 0) if isinstance(obj, Pod) else None

    def _class_of(self, obj: Seen) -> Iterator[Change]:
        """Return the class of an object's priority, if it is the first with that."""
        value = self._priority_of(obj)
        if value is not None and value not in self._classes:
            self._classes.add(value)
            yield Change(PriorityClass(metadata=ObjectMeta(name=class_name(value)), value=value))
