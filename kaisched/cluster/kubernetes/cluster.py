"""A shard of a real cluster: a snapshot source and an intent sink.

Only the loop's thread changes the store. Reflectors and writers put changes into a queue, which
every snapshot takes in first; so a cycle sees the state of one moment. Before there is a loop, the
caller of ``catch_up`` takes them in.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import structlog

from kaisched.clock import Clock, monotonic_s
from kaisched.cluster.facts import SentOf
from kaisched.cluster.kubernetes.binder import (
    BindBackend,
    BindWork,
    GangBinds,
    Steps,
    VolumeBackend,
)
from kaisched.cluster.kubernetes.client import Client, Counts
from kaisched.cluster.kubernetes.evictor import EvictionPlan, Evictor, EvictWork, Plans, promises_of
from kaisched.cluster.kubernetes.kueue import KueueTranslator
from kaisched.cluster.kubernetes.leader_election import Leadership
from kaisched.cluster.kubernetes.pods import (
    MAY_RECOVER,
    STALE_GANGS,
    News,
    Note,
    PoolConditionWrite,
    StaleConditions,
    StatusPatch,
    Writers,
    later_leader,
    passing,
)
from kaisched.cluster.kubernetes.reflector import Change, ChangeFilter, Reads, is_older
from kaisched.cluster.kubernetes.write_queue import WriteQueue
from kaisched.cluster.pools.owners import OwnersByCondition, PoolCondition
from kaisched.cluster.state import Kept, StoreState
from kaisched.cluster.store import StateStore, update
from kaisched.core.snapshot import Snapshot
from kaisched.errors import ClusterUnavailable
from kaisched.framework.intents import Bind, Evict, Nominate
from kaisched.objects.pod import Pod

BIND, EVICT, PREPARE, READ, NOMINATE = range(5)
"""Ranks of writes, the most urgent first. Eviction plans are prepared in the order in which they
were decided, and a prepared plan is sent before others are prepared: while a plan is half sent, no
job can use what it frees."""
CONFIRM_S: Final = 10.0
"""A pod is read if no event has confirmed what was sent by then. A gang of which a bind got no
answer, when the server went away, waits so long for its last pod."""


class KubernetesCluster:
    """The snapshot source and intent sink of one shard.

    ``handle``, ``post`` and ``wake`` may be called from any thread. ``wake`` is called after what
    may change a decision. ``on_overthrown`` is called with the reason when another process
    turns out to lead the shard. ``bad_news`` counts changes that the store could not take in: bugs,
    each of them logged. ``kept``, if set before any change, keeps every object for :meth:`state`.
    """

    def __init__(
        self,
        client: Client,
        leadership: Leadership,
        queue: WriteQueue,
        clock: Clock,
        store: StateStore,
        *,
        why_stale: Callable[[], str] = lambda: "",
        is_observing: bool = False,
        is_deleting: bool = False,
        shard: str = "default",
        note: Callable[[Note], None] = lambda _: None,
        kueue: KueueTranslator | None = None,
        backends: Sequence[BindBackend] = (),
    ) -> None:
        """Begin with an empty queue of changes.

        Args:
            client: sends the requests.
            leadership: held while this process leads the shard.
            queue: queue of the writes.
            clock: gives the time of evictions.
            store: takes in the changes.
            why_stale: returns why nothing may be decided now; empty if it may.
            is_observing: write nothing; log decisions instead.
            is_deleting: delete victims instead of evicting them.
            shard: name of the shard, for logs.
            note: sends an event of a pod.
            kueue: replaces Kueue's objects, where these are read.
            backends: make the steps before binds, in this order, after those for volumes.

        """
        self.wake: Callable[[], None] = lambda: None
        self.on_overthrown: Callable[[str], None] = lambda _: None
        self.store, self.bad_news, self._has_loop = store, 0, False
        self.kept: Kept | None = None
        self._queue, self._clock, self._kueue = queue, clock, kueue
        self._why_stale, self._is_observing = why_stale, is_observing
        self._log: Any = structlog.get_logger().bind(shard=shard)
        self._writers = Writers(client, leadership, self.post, self._log, is_deleting, note=note)
        self._news: deque[News] = deque()
        self._sent: deque[tuple[float, str]] = deque()  # (when to read it, pod), in order
        self._protected: dict[tuple[str, str], float] = {}
        self._plans, self._backends = Plans(), (VolumeBackend(), *backends)
        self._evictor = Evictor(self._writers, self._protect, store.ours.has_tenants)
        self._stale_conditions = StaleConditions(
            self._writers, lambda work: queue.put(NOMINATE, work)
        )
        self._nominated: dict[str, str] = {}  # by the last cycle, and not by a plan
        self._observed: set[tuple[str, str, str]] = set()
        self._filter, self._reads, self._store_lock = ChangeFilter(), Reads(), threading.Lock()

    @property
    def counts(self) -> Counts:
        """Writes by kind and outcome."""
        return self._writers.counts

    @property
    def waiting(self) -> int:
        """Number of changes that the next snapshot takes in."""
        return len(self._news)

    # -- changes ---------------------------------------------------------------------------------

    def handle(self, change: Change) -> None:
        """Queue a change for the next snapshot, and wake the loop if it may matter."""
        self._plans.observe(change)
        self._news.append(change)
        if self._filter.may_matter(change):
            self.wake()

    def post(self, news: News) -> None:
        """Queue a change for the next snapshot, and wake the loop."""
        self._news.append(news)
        self.wake()

    def forget_reads(self) -> None:
        """Accept all events of the watches from now on, even older than what was read."""

        def forget(_: StateStore) -> None:
            for change in self._reads.forget():
                self._take_in(change)

        self.post(forget)

    def snapshot(self) -> Snapshot:
        """Take in all changes and return the present state.

        Raises:
            ClusterUnavailable: the state is incomplete, or too old for decisions.

        """
        passing("snapshot.before")
        with self._store_lock:
            self._has_loop = True
            self._take_in_all()
            self._plans.review(self.store)
            self._take_in_all()  # evictions that were taken back with a plan just now
        why = self._why_stale()
        if why:
            raise ClusterUnavailable(why)
        self._look_after_sent()
        self.store.let_go(monotonic_s())
        return self.store.snapshot()

    def catch_up(self) -> None:
        """Take in the changes while there is no loop: a standby may run for weeks.

        From any thread; without effect once a snapshot was taken.
        """
        with self._store_lock:
            if not self._has_loop:
                self._take_in_all()
                self.store.rows.tidy()

    def _take_in_all(self) -> None:
        for _ in range(len(self._news)):
            self._take_in(self._news.popleft())
        if self._kueue is not None:
            self._take_in(self._settle_kueue)
        # Also on a standby: the age of a deletion counts from when this process first saw it.
        self.store.find_stuck(monotonic_s(), self._clock.now_s())

    def state(self) -> StoreState:
        """Return the objects of the last snapshot; only for a cluster that keeps objects."""
        kept = Kept() if self.kept is None else self.kept
        return kept.state_of(self.store)

    def _take_in(self, news: News) -> None:
        try:
            if not isinstance(news, Change):
                news(self.store)
                return
            if news.is_gone:
                self._reads.drop(news.obj.metadata)
            elif not self._is_news(news):
                return
            elif isinstance(news.obj, Pod):
                self._check_leader(news.obj)
            for change in (news,) if self._kueue is None else self._kueue.translated(news):
                self._put(change)
        except Exception as error:  # noqa: BLE001 - one bad object must not stop the others
            self.bad_news += 1
            name = "" if not isinstance(news, Change) else news.obj.metadata.name
            self._log.error("news_left_out", name=name, exc_info=error)

    def _settle_kueue(self, _: StateStore) -> None:
        """Take in the changes that Kueue's objects translate to."""
        if self._kueue is not None:
            told = self._kueue.warnings
            for change in self._kueue.settled():
                self._put(change)
            for text in set(self._kueue.warnings) - set(told):
                self._log.warning("kueue_object_not_as_meant", err=text)

    def _put(self, change: Change) -> None:
        """Pass a change to the store, and keep the object if objects are kept."""
        update(self.store, change.obj, is_gone=change.is_gone)
        if self.kept is not None:
            (self.kept.drop if change.is_gone else self.kept.put)(change.obj)

    def _check_leader(self, pod: Pod) -> None:
        """Stop leading once a pod that waited was bound in a later term than ours.

        Pods that were bound when first seen do not count: a deleted lease begins again at 0.
        """
        if pod.spec.node_name and self.store.pods.is_waiting(pod.key):
            holder = later_leader(pod, self._writers.leadership.term)
            if holder:
                self.on_overthrown(f"{holder} leads now: it has bound pod {pod.key}")

    def _is_news(self, change: Change) -> bool:
        """Tell whether a change of a pod is no older than the known state: reads and watch race.

        An older state would undo a bind that a read has confirmed.
        """
        meta = change.obj.metadata
        if not isinstance(change.obj, Pod):
            return True
        if not change.is_read:
            return not self._reads.are_ahead_of(change)
        if is_older(meta, self.store.pods.version_of(change.obj.key)):
            return False
        self._reads.note(meta)
        return True

    def _look_after_sent(self) -> None:
        now_s = monotonic_s()
        if not self._sent or self._sent[0][0] > now_s:
            return
        to_be_sent = self._plans.victims()
        while self._sent and self._sent[0][0] <= now_s:
            _, key = self._sent.popleft()
            if key not in self.store.facts.sent:
                continue
            uid = self.store.pods.version_of(key)[0]
            if (key, uid) not in self._writers.under_way and key not in to_be_sent:
                self._queue.put(
                    READ, _ReadWork(self._writers, key, uid, self.store.facts.sent.of(key))
                )
            self._sent.append((now_s + CONFIRM_S, key))

    # -- intents ---------------------------------------------------------------------------------

    def apply(
        self, binds: Sequence[Bind], evictions: Sequence[Evict], nominations: Sequence[Nominate]
    ) -> None:
        """Send the decisions; the store counts them as done until the server confirms them."""
        if self._is_observing:
            self._observe(binds, evictions)
            return
        self._plans.compare(binds, nominations)
        if binds or evictions or nominations:
            self._send(binds, evictions, nominations)
        else:
            self._nominated = {}
        for backend in self._backends:
            for work in backend.upkeep(nominations, self._writers, self.store):
                self._queue.put(NOMINATE, work)

    def _send(
        self, binds: Sequence[Bind], evictions: Sequence[Evict], nominations: Sequence[Nominate]
    ) -> None:
        passing("apply.before")
        self._evict(evictions, nominations)
        self._bind(binds)
        before, self._nominated = self._nominated, {}
        for pod, uid, node in ((it.pod, it.uid, it.node) for it in nominations):
            if self._plans.is_promised(pod):
                continue
            self._nominated[pod] = node
            if before.get(pod) != node and not self.store.pods.is_nominated(pod, node):
                # For autoscalers: no decision relies on it.
                named = {"nominatedNodeName": node}
                patch = StatusPatch(self._writers, pod, uid, named, what="nominate")
                self._queue.put(NOMINATE, patch)
        passing("apply.after")

    def _bind(self, binds: Sequence[Bind]) -> None:
        gangs: dict[str, GangBinds] = {}
        due_s = monotonic_s() + CONFIRM_S
        for bind in binds:
            gang = gangs.setdefault(bind.pod_group, GangBinds(bind.pod_group))
            made = (it.step(bind, self._writers, self.store) for it in self._backends)
            steps = Steps([step for step in made if step is not None])
            self.store.assume_bound(bind.pod, bind.node, bind.cards)
            self._writers.under_way.add((bind.pod, bind.uid))
            self._sent.append((due_s, bind.pod))
            version = self.store.pods.version_of(bind.pod)[1] if self._is_fenced(bind) else ""
            self._queue.put(BIND, BindWork(self._writers, bind, gang, steps, version))

    def _is_fenced(self, bind: Bind) -> bool:
        """Tell whether a bind is void once another shard has written its pool on the pod."""
        book = self.store.pools
        return isinstance(book.owners, OwnersByCondition) and book.job_of(bind.pod) != ""

    def put_pool_condition(
        self, condition: PoolCondition, settled: Callable[[PoolCondition], None]
    ) -> None:
        """Write in which node pool a job is."""
        self._queue.put(NOMINATE, PoolConditionWrite(self._writers, condition, settled))

    def _evict(self, evictions: Sequence[Evict], nominations: Sequence[Nominate]) -> None:
        """Start a plan for each claim; evictions without a beneficiary are planned job by job."""
        now_s = monotonic_s()
        grouped: dict[tuple[int, str, str, str], list[Evict]] = {}
        for evict in evictions:
            whose = "" if evict.beneficiary else evict.pod_group
            key = (evict.step, evict.action, evict.beneficiary, whose)
            grouped.setdefault(key, []).append(evict)
        self._protected = {pod: s for pod, s in self._protected.items() if s > now_s}
        for (_, _, beneficiary, _), victims in grouped.items():
            if any((evict.pod, evict.uid) in self._protected for evict in victims):
                continue
            promises = promises_of(victims, nominations)
            plan = EvictionPlan(self._evictor, victims, promises, self._put_eviction)
            self._plans.add(plan, beneficiary, self.store, self._clock.now_s())
            self._sent.extend((now_s + CONFIRM_S, evict.pod) for evict in victims)
            plan.start()

    def remember(self, facts: Mapping[str, Any]) -> None:
        """Write the facts of actions that a later leader needs; after each cycle."""
        if not self._is_observing:
            stale = {**facts.get(MAY_RECOVER, {}), **facts.get(STALE_GANGS, {})}
            self._stale_conditions.after(self.store, stale, self._clock.now_s())

    def _put_eviction(self, work: EvictWork, is_prepared: bool) -> None:
        self._queue.put(EVICT if is_prepared else PREPARE, work)

    def _protect(self, pod: str, uid: str, seconds: float) -> None:
        until_s = monotonic_s() + seconds

        def note(_: StateStore) -> None:
            self._protected[pod, uid] = until_s

        self.post(note)

    def _observe(self, binds: Sequence[Bind], evictions: Sequence[Evict]) -> None:
        """Log the decisions that were not logged before."""
        now = {("bind", bind.pod, bind.node) for bind in binds}
        now |= {("evict", evict.pod, evict.node) for evict in evictions}
        for what, pod, node in sorted(now - self._observed):
            self._log.info("would_" + what, pod=pod, node=node)
        self._observed = now


@dataclass(frozen=True, slots=True)
class _ReadWork:
    """The read of a pod whose bind or eviction no event has confirmed."""

    writers: Writers
    key: str
    uid: str
    sent: SentOf
    """What the read confirms or refutes."""

    def send(self) -> float | None:
        """Read the pod; take back in the store what has not happened."""
        try:
            pod = self.writers.read(self.key, self.uid)
        except ClusterUnavailable:
            return None  # it is read again later
        if pod is not None:
            self.writers.post(lambda store: store.refute(self.key, self.sent))
            self.writers.log.info("assumption_checked", pod=self.key, node=pod.spec.node_name)
        return None

    def drop(self, why: str) -> None:
        """Give the read up: the pod is read again later."""
