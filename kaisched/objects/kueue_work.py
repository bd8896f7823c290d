"""Jobs and Pods of Kueue's LocalQueues, with queue, priority and size in our labels.

The rules (K6 to K9) are in docs/reference/kueue-objects.md.
"""

from __future__ import annotations

from collections.abc import Collection, Container, Iterable, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Final, NamedTuple, TypeAlias

from msgspec.structs import replace

from kaisched.errors import ObjectError
from kaisched.objects import labels
from kaisched.objects.faults import Fault, Source, did_you_mean, to_error
from kaisched.objects.kueue import (
    GROUP,
    PRIORITY_CLASS,
    QUEUE_NAME,
    LocalQueue,
    WorkloadPriorityClass,
)
from kaisched.objects.kueue_queues import FlavorNodes
from kaisched.objects.pod import Pod, PodSpec
from kaisched.objects.queue import Queue, QueueSpec
from kaisched.objects.wire import KubernetesObject, ObjectMeta, OwnerReference
from kaisched.objects.workloads import MOST, Job, PartialObject, PriorityClass

# -- batch Jobs ------------------------------------------------------------------------------------

_ENDED: Final = ("Complete", "Failed", "SuccessCriteriaMet", "FailureTarget")


def with_uid(job: Job) -> Job:
    """Return a Job with a UID: one that was written by hand has none, and pods name it by that."""
    if job.metadata.uid:
        return job
    uid = sha256(job.key.encode()).hexdigest()[:8]
    return replace(job, metadata=replace(job.metadata, uid=uid))


def pods_at_once(job: Job) -> int:
    """Return how many pods of a Job run together: what is left to do, up to its parallelism.

    0 for a Job that is over, and for numbers that make no sense.
    """
    spec, status = job.spec, job.status
    if any(it.type in _ENDED and it.status == "True" for it in status.conditions):
        return 0
    pods = 1 if spec.parallelism is None else spec.parallelism
    if spec.completions is not None:
        pods = min(pods, spec.completions - max(status.succeeded, 0))
    return pods if 0 <= pods <= MOST else 0


def missing_pods(job: Job, taken: Container[str]) -> list[Pod]:
    """Return the pods of a Job that has none; Kueue makes none before it admits the Job.

    Args:
        job: with a UID.
        taken: keys of other pods.

    """
    meta, template = job.metadata, job.spec.template
    owner = OwnerReference(
        api_version=job.API_VERSION, kind=job.KIND, name=job.name, uid=meta.uid, controller=True
    )
    pods: list[Pod] = []
    number = 0
    while len(pods) < pods_at_once(job):
        name = f"{job.name}-{number}"
        number += 1
        if f"{meta.namespace}/{name}" not in taken:
            pod = ObjectMeta(
                name=name,
                namespace=meta.namespace,
                labels=template.metadata.labels,
                annotations=template.metadata.annotations,
                creation_timestamp=meta.creation_timestamp,
                owner_references=[owner],
            )
            pods.append(Pod(metadata=pod, spec=template.spec))
    return pods


# -- pods ------------------------------------------------------------------------------------------

Sources: TypeAlias = Mapping[tuple[str, str], Source]
_Any: TypeAlias = KubernetesObject | PartialObject
_MAX_CHAIN: Final = 10


@dataclass(slots=True)
class Work:
    """Pods as our scheduler shall see them, what they need besides, and what was wrong."""

    pods: list[Pod] = field(default_factory=list)
    classes: list[PriorityClass] = field(default_factory=list)
    queues: list[Queue] = field(default_factory=list)
    """Of LocalQueues that are stopped."""
    problems: list[ObjectError] = field(default_factory=list)
    warnings: list[ObjectError] = field(default_factory=list)


class _Wish(NamedTuple):
    """What names a LocalQueue: a pod itself, or the outermost of its owners that does."""

    kind: str
    meta: ObjectMeta

    @property
    def identity(self) -> tuple[str, str]:
        """Kind and key."""
        return self.kind, f"{self.meta.namespace}/{self.meta.name}"

    @property
    def local_queue(self) -> str:
        """The key of the LocalQueue."""
        return f"{self.meta.namespace}/{self.meta.labels[QUEUE_NAME]}"


class Translator:
    """Translates into each pod what Kueue's objects say of it."""

    def __init__(
        self,
        objects: Iterable[_Any],
        queues: Iterable[str],
        own: Collection[str],
        nodes: FlavorNodes,
        scheduler: str,
        sources: Sources,
    ) -> None:
        """Look at the objects.

        Args:
            objects: of all kinds; Jobs have UIDs.
            queues: names of the ClusterQueues.
            own: keys of the LocalQueues that are queues of their own (K10).
            nodes: where their pods may go.
            scheduler: gets the pods of LocalQueues, whoever places them until now.
            sources: where objects were read, for messages.

        """
        self._scheduler, self._sources, self._nodes = scheduler, sources, nodes
        self._queues, self._own = frozenset(queues), own
        self._objects = list(objects)
        self._pods = [it for it in self._objects if isinstance(it, Pod)]
        self._local = {it.key: it for it in self._objects if isinstance(it, LocalQueue)}
        self._owner = {
            it.metadata.uid: it
            for it in self._objects
            if it.metadata.uid and not isinstance(it, Pod)
        }
        self._priority = _Priorities(self._objects)
        self._told: set[tuple[str, str]] = set()
        self._stopped: set[str] = set()
        self._work = Work()

    def translate(self) -> Work:
        """Return the pods, those of Jobs without any included."""
        for queue in self._local.values():
            if queue.spec.cluster_queue not in self._queues:
                path, name = ("spec", "clusterQueue"), queue.spec.cluster_queue
                fix = did_you_mean(name, sorted(self._queues))
                self._add((queue.KIND, queue.key), Fault(path, "no such ClusterQueue", name, fix))
        pods = [*self._pods, *self._missing()]
        wishes = [self._wish(pod) for pod in pods]
        pairs = list(zip(pods, wishes, strict=True))
        placed = {wish.identity for pod, wish in pairs if wish and pod.spec.node_name}
        self._work.pods = [
            pod if wish is None else self._labelled(pod, wish, wish.identity in placed)
            for pod, wish in pairs
        ]
        self._work.classes = self._priority.classes()
        self._work.queues = [held_queue(self._local[key]) for key in sorted(self._stopped)]
        return self._work

    def _missing(self) -> list[Pod]:
        """Return the pods of the Jobs of LocalQueues that have none."""
        taken = {pod.key for pod in self._pods}
        owning = {it.uid for pod in self._pods for it in pod.metadata.owner_references}
        made: list[Pod] = []
        for job in self._objects:
            is_meant = isinstance(job, Job) and job.metadata.uid not in owning
            if not is_meant or not isinstance(job, Job) or self._wish_of(job) is None:
                continue
            if job.status.active:
                message = f"{job.status.active} pods run, but are not among the files"
                fault = Fault(("status", "active"), message, fix="they count as waiting")
                self._add((job.KIND, job.key), fault._replace(is_warning=True))
            made += missing_pods(job, taken)
            taken |= {pod.key for pod in made[-pods_at_once(job) :]}
        return made

    def _wish_of(self, obj: _Any) -> _Wish | None:
        """Return the wish of a pod or a workload: its own, or that of the outermost owner."""
        found, at = None, obj
        for _ in range(_MAX_CHAIN):
            kind = at.kind if isinstance(at, PartialObject) else at.KIND
            if labels.QUEUE in at.metadata.labels:
                return None  # it says it in our words
            if QUEUE_NAME in at.metadata.labels:
                found = _Wish(kind, at.metadata)
            reference = next((it for it in at.metadata.owner_references if it.controller), None)
            owner = None if reference is None else self._owner.get(reference.uid)
            if owner is None or owner.metadata.namespace != at.metadata.namespace:
                break
            at = owner
        return found

    def _wish(self, pod: Pod) -> _Wish | None:
        return None if labels.pod_group_of(pod.metadata) is not None else self._wish_of(pod)

    def _labelled(self, pod: Pod, wish: _Wish, is_placed: bool) -> Pod:
        """Return a pod with queue (K6), priority (K7), size (K8), nodes (K4), scheduler (K9)."""
        queue = self._queue_of(wish, is_placed)
        meta, (spec, added) = pod.metadata, self._nodes.kept(queue, pod.spec)
        said = dict(meta.labels)
        said[labels.QUEUE] = queue
        said.setdefault(labels.PREEMPTIBILITY, labels.PREEMPTIBLE)
        said[labels.PRIORITY_CLASS] = self._class_of(wish, spec)
        notes = dict(meta.annotations)
        if added:
            notes[labels.FLAVOR_KEYS] = ",".join(added)
        size = self._size_of(meta)
        if size:
            notes.setdefault(labels.BATCH_MIN_MEMBER, str(size))
        gates = [it for it in spec.scheduling_gates if not it.name.startswith(f"{GROUP}/")]
        return replace(
            pod,
            metadata=replace(meta, labels=said, annotations=notes),
            spec=replace(spec, scheduler_name=self._scheduler, scheduling_gates=gates),
        )

    def _queue_of(self, wish: _Wish, is_placed: bool) -> str:
        local = self._local.get(wish.local_queue)
        if local is None:
            where, name = wish.meta.namespace, wish.meta.labels[QUEUE_NAME]
            known = [it.name for it in self._local.values() if it.metadata.namespace == where]
            fix = did_you_mean(name, sorted(known)) or f"write a LocalQueue in {where}"
            path = ("metadata", "labels", QUEUE_NAME)
            message = "no such LocalQueue, so its pods wait"
            self._add(wish.identity, Fault(path, message, name, fix, is_warning=True))
            return wish.local_queue
        if local.key in self._own:
            return local.key  # which says itself whether it is stopped
        policy = local.spec.stop_policy
        if policy == "HoldAndDrain" or (policy == "Hold" and not is_placed):
            self._stopped.add(local.key)
            return local.key
        return local.spec.cluster_queue

    def _class_of(self, wish: _Wish, spec: PodSpec) -> str:
        name = wish.meta.labels.get(PRIORITY_CLASS)
        if name is not None and name not in self._priority:
            fix = did_you_mean(name, self._priority.names) or "add the WorkloadPriorityClass"
            path = ("metadata", "labels", PRIORITY_CLASS)
            message = "no such WorkloadPriorityClass, so that of the pods counts"
            self._add(wish.identity, Fault(path, message, name, fix, is_warning=True))
        return self._priority.class_of(name, spec)

    def _size_of(self, meta: ObjectMeta) -> int:
        """Return how many pods start together, where the pod's own Job says it."""
        reference = next((it for it in meta.owner_references if it.controller), None)
        job = None if reference is None else self._owner.get(reference.uid)
        if not isinstance(job, Job) or job.metadata.owner_references:
            return 0  # of a JobSet, say: the workload above knows
        if labels.BATCH_MIN_MEMBER in job.metadata.annotations:
            return 0
        return pods_at_once(job)

    def _add(self, identity: tuple[str, str], fault: Fault) -> None:
        kind, key = identity
        error = to_error(fault, self._sources.get(identity, Source()), kind, key)
        mark = (f"{kind} {key}", error.path)
        if mark not in self._told:  # each pod of a Job would say it
            self._told.add(mark)
            (self._work.warnings if fault.is_warning else self._work.problems).append(error)


class _Priorities:
    """The priorities of work, and classes of our own for those that are used."""

    def __init__(self, objects: Iterable[_Any]) -> None:
        self._of_work: dict[str, int] = {}
        self._of_pods: dict[str, int] = {}
        defaults: list[int] = []
        for obj in objects:
            if isinstance(obj, WorkloadPriorityClass):
                self._of_work[obj.name] = obj.value
            elif isinstance(obj, PriorityClass):
                self._of_pods[obj.name] = obj.value
                defaults += [obj.value] if obj.global_default else []
        self._default = min(defaults, default=0)
        self._used: set[int] = set()

    def __contains__(self, name: str) -> bool:
        return name in self._of_work

    @property
    def names(self) -> list[str]:
        """Names of the WorkloadPriorityClasses."""
        return sorted(self._of_work)

    def class_of(self, name: str | None, spec: PodSpec) -> str:
        """Return our class of work: by its own class, else by that of its pods, else 0."""
        value = self._of_work.get(name or "")
        if value is None:
            value = self._of_pods.get(spec.priority_class_name)
        if value is None:
            value = self._default if spec.priority is None else spec.priority
        self._used.add(value)
        return class_name(value)

    def classes(self) -> list[PriorityClass]:
        """Return the classes that are used."""
        return [
            PriorityClass(metadata=ObjectMeta(name=class_name(value)), value=value)
            for value in sorted(self._used)
        ]


def class_name(value: int) -> str:
    """Return the name of our class of a priority."""
    return f"{GROUP}/{value}"  # no object can have this name


def held_queue(local: LocalQueue) -> Queue:
    """Return the queue of work that waits because its LocalQueue is stopped."""
    pool = local.metadata.labels.get(labels.NODE_POOL)
    meta = ObjectMeta(name=local.key, labels={} if pool is None else {labels.NODE_POOL: pool})
    return Queue(metadata=meta, spec=QueueSpec(stop_policy=local.spec.stop_policy))


def jobs_with_uids(objects: Iterable[_Any]) -> list[_Any]:
    """Return the objects, each Job with a UID."""
    return [with_uid(it) if isinstance(it, Job) else it for it in objects]
