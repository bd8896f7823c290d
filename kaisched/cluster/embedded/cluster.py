"""The embedded cluster: objects in, snapshots out, intents carried out, on a clock of any kind."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

from msgspec.structs import replace

from kaisched.clock import Clock, ManualClock
from kaisched.cluster.embedded.claims import EmbeddedClaims
from kaisched.cluster.embedded.history import HISTORY_LENGTH, Happening, What
from kaisched.cluster.embedded.kubelet import Kubelet, Step, run_s
from kaisched.cluster.embedded.refusing import why_not_on
from kaisched.cluster.events import remove, upsert
from kaisched.cluster.ours import NO_SHARING, OUR_SCHEDULERS, Sharing
from kaisched.cluster.pools.owners import Owners
from kaisched.cluster.problems import Problem
from kaisched.cluster.state import Kept, StoreState
from kaisched.cluster.store import StateStore
from kaisched.cluster.stuck import STUCK_AFTER_S
from kaisched.core.snapshot import Snapshot
from kaisched.errors import ObjectError
from kaisched.framework.intents import Bind, Evict, Nominate
from kaisched.objects import labels
from kaisched.objects.devices import ResourceClaimTemplate
from kaisched.objects.gangs import KNOWN
from kaisched.objects.labels import format_time
from kaisched.objects.load import Manifest, identity_of
from kaisched.objects.node import Node
from kaisched.objects.pod import PersistentVolume, PersistentVolumeClaim, Pod, StorageClass
from kaisched.objects.shard import GPU_RESOURCES
from kaisched.objects.wire import Condition
from kaisched.objects.workloads import Table

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
    ) -> None:
        """Make an empty cluster.

        Args:
            clock: a new ManualClock at 0 unless given.
            schedulers: as for the store, like the next four and the last two.
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
        )
        self.stores = [self.store]
        """All stores that hear of every change: one for each node pool that is decided about."""
        self.history: deque[Happening] = deque(maxlen=HISTORY_LENGTH)
        """What happened, the oldest first; only the last 10,000 happenings are kept."""
        self.fails = fails
        self._start_delay_s, self._grace_s = start_delay_s, grace_s
        self._is_recreating, self._kubelet = is_recreating, Kubelet()
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
                    store.heed_volumes(is_read=True)
            for store in self.stores:
                upsert(store, stamped)
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
                remove(store, found)
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
        self._kubelet.plan(now_s + self._start_delay_s, Step.START, pod)

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
            store.note_eviction(pod.key, self.clock.now_s())
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
        return self._kubelet.next_s()

    def advance_to(self, now_s: float) -> None:
        """Let everything happen up to a time, each thing at its own; a real clock is waited for.

        Raises:
            ValueError: a manual clock is past that time already.

        """
        while (due_s := self._kubelet.next_s()) is not None and due_s <= now_s:
            self._wait_until(max(due_s, self.clock.now_s()))
            self._catch_up()
        self._wait_until(now_s)

    def _wait_until(self, now_s: float) -> None:
        if isinstance(self.clock, ManualClock):
            self.clock.advance_to(now_s)
        while (left_s := now_s - self.clock.now_s()) > 0:
            self.clock.sleep(left_s)

    def _catch_up(self) -> None:
        while (due := self._kubelet.take(self.clock.now_s())) is not None:
            pod = self._pods.get(due.pod)
            if pod is None or pod.metadata.uid != due.uid or _is_ended(pod):
                continue
            if due.step is Step.RELEASE:
                self._record("released", pod, at_s=due.at_s)
                self._end_of(pod, is_recreated=pod.metadata.uid in self._to_recreate)
            elif not pod.metadata.deletion_timestamp:
                self._run(pod, due.step, due.at_s)

    def _run(self, pod: Pod, step: Step, at_s: float) -> None:
        if step is Step.START:
            pod = _with_status(pod, phase="Running", start_time=format_time(at_s))
            self._kubelet.plan(at_s + run_s(pod), Step.END, pod)
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
            self._kubelet.plan(
                now_s + (run_s(pod) if is_running else self._start_delay_s), step, pod
            )

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
        self._kubelet.plan(now_s + self._grace_s, Step.RELEASE, pod)

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
