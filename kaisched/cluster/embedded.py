"""The embedded cluster: objects in, snapshots out, intents carried out, on a clock of any kind."""

from __future__ import annotations

import heapq
import math
import uuid
from collections import deque
from collections.abc import Callable, Iterable, Iterator, MutableMapping, Sequence
from dataclasses import dataclass
from enum import Enum
from itertools import chain, count
from typing import Any, Final, Literal

from msgspec.structs import replace

from kaisched.clock import Clock, ManualClock
from kaisched.cluster.claims.conversion import written
from kaisched.cluster.claims.generated import generated_name
from kaisched.cluster.declared import Problem
from kaisched.cluster.facts import STUCK_AFTER_S
from kaisched.cluster.pods import NO_SHARING, OUR_SCHEDULERS, Sharing
from kaisched.cluster.pools.owners import Owners
from kaisched.cluster.state import Kept, StoreState
from kaisched.cluster.store import StateStore, update
from kaisched.core.snapshot import Snapshot
from kaisched.errors import ObjectError, join_path
from kaisched.framework.intents import Bind, Evict, Nominate
from kaisched.objects import labels
from kaisched.objects.devices import (
    ClaimAllocation,
    Consumer,
    ResourceClaim,
    ResourceClaimStatus,
    ResourceClaimTemplate,
)
from kaisched.objects.gangs import KNOWN
from kaisched.objects.labels import RUN_SECONDS, format_time
from kaisched.objects.load import Manifest, identity_of
from kaisched.objects.node import Node
from kaisched.objects.pod import (
    BIND_COMPLETED,
    ClaimReference,
    ClaimStatus,
    PersistentVolume,
    PersistentVolumeClaim,
    Pod,
    PodClaimStatus,
    StorageClass,
)
from kaisched.objects.shard import GPU_RESOURCES
from kaisched.objects.wire import Condition, ObjectMeta, OwnerReference
from kaisched.objects.workloads import Table

HISTORY_LENGTH: Final = 10_000
"""So many happenings are kept, the last ones: a scheduler may run for months on such a cluster."""

What = Literal[
    "created",
    "bound",
    "bind_failed",
    "nominated",
    "started",
    "ended",
    "evicted",
    "eviction_failed",
    "released",
    "deleted",
    "lost",
]


@dataclass(frozen=True, slots=True)
class Happening:
    """One thing that happened to a pod (``namespace/name``)."""

    at_s: float
    what: What
    pod: str
    node: str = ""
    detail: str = ""


class Step(Enum):
    """What is due for a pod."""

    START = "start"
    END = "end"
    RELEASE = "release"


def run_s(pod: Pod) -> float:
    """Return how long a pod runs, infinite for ever.

    Raises:
        ObjectError: the annotation is no number of seconds.

    """
    text = pod.metadata.annotations.get(RUN_SECONDS)
    if text is None:
        return math.inf
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if not seconds >= 0:
        raise ObjectError(
            "no number of seconds",
            kind=pod.KIND,
            name=pod.key,
            path=join_path("metadata", "annotations", RUN_SECONDS),
            value=text,
            fix='write seconds of 0 or more, such as "90"',
        )
    return seconds


_SHARES: Final = uuid.UUID("6f2c8a4e-0d1b-4c39-9a57-3be1f0c4d282")
"""From this and the claim's name come the UUIDs of shares: the same in every run."""


class EmbeddedClaims:
    """Writes claims of pods into the objects of a cluster, and tells the stores."""

    def __init__(
        self, objects: MutableMapping[tuple[str, str], Manifest], stores: Sequence[StateStore]
    ) -> None:
        """Take the objects of a cluster, and the stores that follow them."""
        self._objects, self._stores = objects, stores

    def with_claims(self, pod: Pod) -> Pod:
        """Return a pod with the claims that are made for it from templates."""
        made = {it.name: it for it in pod.status.resource_claim_statuses}
        for ref in pod.spec.resource_claims:
            key = f"{pod.metadata.namespace}/{ref.resource_claim_template_name}"
            template = self._objects.get((ResourceClaimTemplate.KIND, key))
            if ref.name in made or not isinstance(template, ResourceClaimTemplate):
                continue
            meta = pod.metadata
            owner = OwnerReference(
                api_version="v1", kind="Pod", name=pod.name, uid=meta.uid, controller=True
            )
            name = self._name_for(pod, ref.name)
            claim = ResourceClaim(
                metadata=ObjectMeta(name=name, namespace=meta.namespace, owner_references=[owner]),
                spec=template.spec.spec,
            )
            self._put(claim)
            made[ref.name] = PodClaimStatus(name=ref.name, resource_claim_name=name)
        if len(made) == len(pod.status.resource_claim_statuses):
            return pod
        return replace(pod, status=replace(pod.status, resource_claim_statuses=list(made.values())))

    def _name_for(self, pod: Pod, claim: str) -> str:
        """Return a name that no claim of another has: two pods may come to the same one."""
        name = f"{pod.name}-{claim}"
        names = chain([name], (f"{name}-{number}" for number in count(2)))
        return next(it for it in names if self._is_free(it, pod))

    def _is_free(self, name: str, pod: Pod) -> bool:
        known = self._objects.get((ResourceClaim.KIND, f"{pod.metadata.namespace}/{name}"))
        owners = [] if known is None else known.metadata.owner_references
        return known is None or any(it.uid == pod.metadata.uid for it in owners)

    def allocate(self, bind: Bind, pod: Pod) -> None:
        """Write what the claims of a pod get, and that it uses them."""
        for key, allocation in bind.claims:
            known = self._stores[0].device_claims
            claim = known.generated.as_made(key) or known.claim(key)
            if claim is not None:
                given = written(allocation, _shares(key))
                self._put(replace(claim, status=replace(claim.status, allocation=given)))
        user = Consumer(resource="pods", name=pod.name, uid=pod.metadata.uid)
        for claim in self._of(pod):
            users = [*claim.status.reserved_for, user]
            self._put(replace(claim, status=replace(claim.status, reserved_for=users)))

    def release(self, pod: Pod) -> None:
        """Release the claims of a pod: its own are deleted with it."""
        for claim in list(self._of(pod)):
            if any(it.uid == pod.metadata.uid for it in claim.metadata.owner_references):
                self._objects.pop(identity_of(claim), None)
                for store in self._stores:
                    update(store, claim, is_gone=True)
                continue
            users = [it for it in claim.status.reserved_for if it.uid != pod.metadata.uid]
            allocation: ClaimAllocation | None = claim.status.allocation if users else None
            status = ResourceClaimStatus(allocation=allocation, reserved_for=users)
            if status != claim.status:
                self._put(replace(claim, status=status))

    def _of(self, pod: Pod) -> Iterator[ResourceClaim]:
        generated = (
            f"{pod.metadata.namespace}/{generated_name(pod.name, pod.metadata.uid or pod.key)}"
        )
        if (claim := self._stores[0].device_claims.claim(generated)) is not None:
            yield claim
        made = {it.name: it.resource_claim_name for it in pod.status.resource_claim_statuses}
        for ref in pod.spec.resource_claims:
            name = ref.resource_claim_name or made.get(ref.name, "")
            claim = self._stores[0].device_claims.claim(f"{pod.metadata.namespace}/{name}")
            if claim is not None:
                yield claim

    def _put(self, claim: ResourceClaim) -> None:
        self._objects[identity_of(claim)] = claim
        for store in self._stores:
            update(store, claim)


def _shares(key: str) -> Callable[[], str]:
    """Return what gives UUIDs for the shares of one claim."""
    numbers = count(1)
    return lambda: str(uuid.uuid5(_SHARES, f"{key}/{next(numbers)}"))


def why_not_on(stores: Iterable[StateStore], bind: Bind, pod: Pod | None) -> str:
    """Return what API server and kubelet would object to; empty for nothing."""
    if pod is None:
        return "no such pod"
    if pod.spec.node_name:
        return f"already on {pod.spec.node_name}"
    if pod.spec.scheduling_gates:
        return "it has scheduling gates"
    for store in stores:
        rows = store.rows
        row = rows.row_of_node(bind.node)
        if row >= 0:
            short = rows.shortage(rows.row_of_task(pod.key), row)
            return f"out of {rows.axis.names[short]}" if short >= 0 else ""
    return f"no node {bind.node}"


Fails = Callable[[Bind | Evict | Nominate], str]
"""Why an intent shall fail, empty if it shall not."""
_ENDED: Final = ("Succeeded", "Failed")


def _raise(obj: Manifest, error: ObjectError) -> None:
    del obj
    raise error


def never_fails(intent: Bind | Evict | Nominate) -> str:
    """Let every intent through."""
    del intent
    return ""


class EmbeddedCluster:
    """A cluster in memory: a snapshot source and an intent sink.

    It keeps the objects as an API server would and tells its store of every change, so the store
    sees what it would see in a real cluster. On a :class:`~kaisched.clock.ManualClock` nothing
    happens until :meth:`advance_to`; on another clock, what is due happens before each call.
    """

    def __init__(
        self,
        clock: Clock | None = None,
        *,
        schedulers: Iterable[str] = OUR_SCHEDULERS,
        node_pool: str = "",
        gpu_resources: Sequence[str] = GPU_RESOURCES,
        workloads: Table = KNOWN,
        stuck_after_s: float = STUCK_AFTER_S,
        start_delay_s: float = 1.0,
        grace_s: float = 5.0,
        is_recreating: bool = True,
        fails: Fails = never_fails,
        owners: Owners | None = None,
        sharing: Sharing = NO_SHARING,
        checks_queues: bool = False,
    ) -> None:
        """Make an empty cluster.

        Args:
            clock: a new ManualClock at 0 unless given.
            schedulers: as for the store, like the next four and the last three.
            node_pool: see there.
            gpu_resources: see there.
            workloads: see there.
            stuck_after_s: see there.
            start_delay_s: from bind to running.
            grace_s: from eviction to the room being free.
            is_recreating: put a new pending pod in the place of one that was evicted or lost.
            fails: asked before each intent is carried out.
            owners: see there.
            sharing: see there.
            checks_queues: see there.

        """
        self.clock: Clock = ManualClock() if clock is None else clock
        self.store = StateStore(
            schedulers,
            node_pool=node_pool,
            gpu_resources=gpu_resources,
            workloads=workloads,
            stuck_after_s=stuck_after_s,
            offers_shares=True,
            owners=owners,
            sharing=sharing,
            checks_queues=checks_queues,
        )
        self.stores = [self.store]
        """All stores that hear of every change: one for each node pool that is decided about."""
        self.history: deque[Happening] = deque(maxlen=HISTORY_LENGTH)
        """What happened, the oldest first; only the last 10,000 happenings are kept."""
        self.fails = fails
        self._start_delay_s, self._grace_s = start_delay_s, grace_s
        self._is_recreating = is_recreating
        self._due: list[tuple[float, int, Step, Pod]] = []
        """What the kubelets will do, soonest first: time, number of the plan, step and pod."""
        self._planned = count()
        self._objects: dict[tuple[str, str], Manifest] = {}
        self._claims = EmbeddedClaims(self._objects, self.stores)
        self._pods: dict[str, Pod] = {}
        self._to_recreate, self._made = set[str](), 0

    # -- objects ---------------------------------------------------------------------------------

    def load(
        self,
        objects: Iterable[Manifest],
        *,
        on_error: Callable[[Manifest, ObjectError], None] = _raise,
    ) -> None:
        """Create or change objects, as ``kubectl apply`` would.

        A pod that exists already keeps its identity and place. Objects that do not say when they
        were made were all made at one instant, so that names decide between them, on every clock.

        Args:
            objects: what to create or change.
            on_error: told of each object that is left out; raises the error unless given.

        Raises:
            ObjectError: a pod's run time is no number; the objects before it are in.

        """
        now_s = self.clock.now_s()
        for obj in objects:
            try:
                self._load_one(obj, now_s)
            except ObjectError as error:
                on_error(obj, error)

    def _load_one(self, obj: Manifest, now_s: float) -> None:
        if isinstance(obj, Pod):
            self._load_pod(obj, now_s)
        else:
            identity = identity_of(obj)
            stamped = self._stamped(obj, self._objects.get(identity), now_s)
            self._objects[identity] = stamped
            if isinstance(obj, PersistentVolumeClaim | PersistentVolume | StorageClass):
                for store in self.stores:  # else nobody meant to say which there are
                    store.set_volumes_read(is_read=True)
            for store in self.stores:
                update(store, stamped)
            if isinstance(obj, ResourceClaimTemplate):
                for pod in self.pods():
                    self._put(self._claims.with_claims(pod))

    def delete(self, obj: Manifest) -> None:
        """Delete an object: a pod goes after its grace, and the pods on a deleted node are lost."""
        self._catch_up()
        if isinstance(obj, Pod):
            if obj.key in self._pods:
                self._record("deleted", self._pods[obj.key])
                self._let_go(self._pods[obj.key])
            return
        found = self._objects.pop(identity_of(obj), None)
        if found is not None:
            for store in self.stores:
                update(store, found, is_gone=True)
        if isinstance(obj, Node):
            for pod in [pod for pod in self._pods.values() if pod.spec.node_name == obj.name]:
                if not _is_ended(pod):
                    self._record("lost", pod)
                    self._end_of(pod, is_recreated=not pod.metadata.deletion_timestamp)

    def pod(self, key: str) -> Pod | None:
        """Return a pod as it is now."""
        return self._pods.get(key)

    def pods(self) -> list[Pod]:
        """Return all pods, ended ones included, by name."""
        return [self._pods[key] for key in sorted(self._pods)]

    def problems(self) -> list[Problem]:
        """Return what is wrong with the objects."""
        found = [problem for store in self.stores for problem in store.problems()]
        return list(dict.fromkeys(found))

    # -- the ports -------------------------------------------------------------------------------

    def snapshot(self) -> Snapshot:
        """Return the present state."""
        return self.snapshot_of(self.store)

    def snapshot_of(self, store: StateStore) -> Snapshot:
        """Return the present state of one of the stores."""
        self._catch_up()
        now_s = self.clock.now_s()
        store.find_stuck(now_s, now_s)
        found, made = store.snapshot(), list(store.device_claims.shares.wanted(store.pods.is_ours))
        for template in made:
            self._load_one(template, now_s)
        return store.snapshot() if made else found

    def state(self) -> StoreState:
        """Return what the last snapshot was made of."""
        kept = Kept()
        for obj in (*self._objects.values(), *self._pods.values()):
            kept.put(obj)
        return kept.state_of(self.store)

    def apply(
        self, binds: Sequence[Bind], evictions: Sequence[Evict], nominations: Sequence[Nominate]
    ) -> None:
        """Evict, bind, nominate; what fails is in the history and changes nothing."""
        self._catch_up()
        for evict in evictions:
            self._evict(evict)
        for bind in binds:
            self._bind(bind)
        for nominate in nominations:
            pod = self._pods.get(nominate.pod)
            if pod is not None and not (self._refusal(nominate, pod) or pod.spec.node_name):
                self._record("nominated", pod, node=nominate.node)
                self._put(_with_status(pod, nominated_node_name=nominate.node))

    def _bind(self, bind: Bind) -> None:
        pod = self._pods.get(bind.pod)
        why = self._refusal(bind, pod) or why_not_on(self.stores, bind, pod)
        why = why or self._give_volumes(bind)
        if pod is None or why:
            self.history.append(
                Happening(self.clock.now_s(), "bind_failed", bind.pod, bind.node, why)
            )
            return
        now_s = self.clock.now_s()
        scheduled = Condition(
            type="PodScheduled", status="True", last_transition_time=format_time(now_s)
        )
        pod = replace(pod, spec=replace(pod.spec, node_name=bind.node))
        if bind.cards:
            notes = {**pod.metadata.annotations, labels.GPU_GROUPS: ",".join(bind.cards)}
            pod = replace(pod, metadata=replace(pod.metadata, annotations=notes))
        pod = _with_status(pod, conditions=[scheduled], nominated_node_name="")
        self._record("bound", pod)
        self._put(pod)
        self._claims.allocate(bind, pod)
        self._plan(now_s + self._start_delay_s, Step.START, pod)

    def _give_volumes(self, bind: Bind) -> str:
        """Bind the claims of a pod to the volumes they get; return why that cannot be done."""
        given = [it for store in self.stores for it in store.give_volumes(bind.pod, bind.node)]
        if any(it.volume is None and not it.can_be_made for it in given):
            return "no volume that fits a claim is free on the node"
        for claim, volume, _ in given:
            if volume is not None:
                meta, status = claim.metadata, ClaimStatus(phase="Bound")
                notes = {**meta.annotations, BIND_COMPLETED: "yes"}
                ref = ClaimReference(namespace=meta.namespace, name=meta.name, uid=meta.uid)
                taken = replace(volume.spec, claim_ref=ref)
                self._load_one(replace(volume, spec=taken, status=status), self.clock.now_s())
                spec = replace(claim.spec, volume_name=volume.name)
                meta = replace(meta, annotations=notes)
                bound = replace(claim, metadata=meta, spec=spec, status=status)
                self._load_one(bound, self.clock.now_s())
        return ""

    def _evict(self, evict: Evict) -> None:
        pod = self._pods.get(evict.pod)
        why = self._refusal(evict, pod)
        if pod is None or why:
            self.history.append(
                Happening(self.clock.now_s(), "eviction_failed", evict.pod, evict.node, why)
            )
            return
        self._record("evicted", pod, detail=evict.reason)
        for store in self.stores:  # the pod's change tells the rest
            store.record_eviction(pod.key, self.clock.now_s())
        if self._is_recreating:
            self._to_recreate.add(pod.metadata.uid)
        self._let_go(pod)

    def _refusal(self, intent: Bind | Evict | Nominate, pod: Pod | None) -> str:
        if pod is None or _is_ended(pod):
            return "no such pod"
        if pod.metadata.uid != intent.uid:
            return "another pod of that name"
        if pod.metadata.deletion_timestamp:
            return "the pod is being deleted"
        return self.fails(intent)

    # -- time ------------------------------------------------------------------------------------

    def next_event_s(self) -> float | None:
        """Return when something will happen by itself, None for never."""
        return self._due[0][0] if self._due else None

    def advance_to(self, now_s: float) -> None:
        """Let everything happen up to a time, each thing at its own; a real clock is waited for.

        Raises:
            ValueError: a manual clock is past that time already.

        """
        while self._due and self._due[0][0] <= now_s:
            self._wait_until(max(self._due[0][0], self.clock.now_s()))
            self._catch_up()
        self._wait_until(now_s)

    def _wait_until(self, now_s: float) -> None:
        if isinstance(self.clock, ManualClock):
            self.clock.advance_to(now_s)
        while (left_s := now_s - self.clock.now_s()) > 0:
            self.clock.sleep(left_s)

    def _plan(self, at_s: float, step: Step, pod: Pod) -> None:
        """Let a step of a pod happen at a time; never, if that is infinite."""
        if math.isfinite(at_s):
            heapq.heappush(self._due, (at_s, next(self._planned), step, pod))

    def _catch_up(self) -> None:
        """Run the steps that are due; steps of deleted pods have no effect."""
        while self._due and self._due[0][0] <= self.clock.now_s():
            at_s, _, step, planned = heapq.heappop(self._due)
            pod = self._pods.get(planned.key)
            if pod is None or pod.metadata.uid != planned.metadata.uid or _is_ended(pod):
                continue
            if step is Step.RELEASE:
                self._record("released", pod, at_s=at_s)
                self._end_of(pod, is_recreated=pod.metadata.uid in self._to_recreate)
            elif not pod.metadata.deletion_timestamp:
                self._run(pod, step, at_s)

    def _run(self, pod: Pod, step: Step, at_s: float) -> None:
        if step is Step.START:
            pod = _with_status(pod, phase="Running", start_time=format_time(at_s))
            self._plan(at_s + run_s(pod), Step.END, pod)
            self._record("started", pod, at_s=at_s)
        else:
            pod = _with_status(pod, phase="Succeeded")
            self._record("ended", pod, at_s=at_s)
            self._claims.release(pod)
        self._put(pod)

    # -- pods ------------------------------------------------------------------------------------

    def _load_pod(self, pod: Pod, now_s: float) -> None:
        run_s(pod)
        old = self._pods.get(pod.key)
        pod = self._stamped(pod, old, now_s)
        if old is None:
            self._record("created", pod, at_s=now_s)
        else:
            node_name = old.spec.node_name or pod.spec.node_name
            spec = replace(pod.spec, node_name=node_name)
            pod = replace(pod, spec=spec, status=old.status)
        pod = self._claims.with_claims(pod)
        self._put(pod)
        if pod.spec.node_name and not (old is not None and old.spec.node_name):
            is_running = pod.status.phase == "Running"
            step = Step.END if is_running else Step.START
            self._plan(now_s + (run_s(pod) if is_running else self._start_delay_s), step, pod)

    def _let_go(self, pod: Pod) -> None:
        if not pod.spec.node_name or _is_ended(pod):
            self._end_of(pod, is_recreated=False)
            return
        now_s = self.clock.now_s()
        meta = replace(
            pod.metadata,
            deletion_timestamp=format_time(now_s + self._grace_s),
            deletion_grace_period_seconds=round(self._grace_s),
        )
        pod = replace(pod, metadata=meta)
        self._put(pod)
        self._plan(now_s + self._grace_s, Step.RELEASE, pod)

    def _end_of(self, pod: Pod, *, is_recreated: bool) -> None:
        del self._pods[pod.key]
        self._to_recreate.discard(pod.metadata.uid)
        for store in self.stores:
            store.remove_pod(pod.key)
        self._claims.release(pod)
        if is_recreated and self._is_recreating:
            meta = replace(pod.metadata, uid="", creation_timestamp="", deletion_timestamp="")
            meta = replace(meta, deletion_grace_period_seconds=None)
            spec = replace(pod.spec, node_name="")
            self._load_pod(Pod(metadata=meta, spec=spec), self.clock.now_s())

    def _put(self, pod: Pod) -> None:
        self._pods[pod.key] = pod
        for store in self.stores:
            store.upsert_pod(pod)

    def _stamped(self, obj: Any, old: Manifest | None, now_s: float) -> Any:
        """Return an object with the identity of the old one, or a new one."""
        meta = obj.metadata
        if old is not None:
            uid, created = old.metadata.uid, old.metadata.creation_timestamp
            gone = old.metadata.deletion_timestamp
            grace = old.metadata.deletion_grace_period_seconds
            meta = replace(meta, uid=uid, creation_timestamp=created, deletion_timestamp=gone)
            meta = replace(meta, deletion_grace_period_seconds=grace)
        else:
            self._made += 1
            created = meta.creation_timestamp or format_time(now_s)
            meta = replace(meta, uid=meta.uid or f"uid-{self._made}", creation_timestamp=created)
        return replace(obj, metadata=meta)

    def _record(
        self, what: What, pod: Pod, *, node: str = "", detail: str = "", at_s: float | None = None
    ) -> None:
        at_s = self.clock.now_s() if at_s is None else at_s
        self.history.append(Happening(at_s, what, pod.key, node or pod.spec.node_name, detail))


def _is_ended(pod: Pod) -> bool:
    return pod.status.phase in _ENDED


def _with_status(pod: Pod, **changes: Any) -> Pod:
    return replace(pod, status=replace(pod.status, **changes))


class EmbeddedPool:
    """The view of one shard on a cluster that several shards divide by node pool."""

    def __init__(self, cluster: EmbeddedCluster, store: StateStore) -> None:
        """Notify a store of all changes of a cluster from now on."""
        self._cluster, self.store = cluster, store
        if store not in cluster.stores:
            cluster.stores.append(store)

    def snapshot(self) -> Snapshot:
        """Return the present state of the pool."""
        return self._cluster.snapshot_of(self.store)

    def apply(
        self, binds: Sequence[Bind], evictions: Sequence[Evict], nominations: Sequence[Nominate]
    ) -> None:
        """Carry decisions out."""
        self._cluster.apply(binds, evictions, nominations)
