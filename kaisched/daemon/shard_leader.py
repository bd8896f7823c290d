"""One shard on a real cluster: leader election, and the work of the leader."""

from __future__ import annotations

import math
import threading
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import structlog

from kaisched.clock import monotonic_s
from kaisched.cluster.claims.device_claims import OFF, ON
from kaisched.cluster.kubernetes.cluster import KubernetesCluster
from kaisched.cluster.kubernetes.device_claims import ClaimBackend, ShareTemplates
from kaisched.cluster.kubernetes.gpu_reservations import ReservationBackend
from kaisched.cluster.kubernetes.kueue import KueueTranslator
from kaisched.cluster.kubernetes.leader_election import Leadership
from kaisched.cluster.kubernetes.reports import Reporter
from kaisched.cluster.kubernetes.status_writer import WEIGHTS
from kaisched.cluster.kubernetes.write_queue import ReportQueue, ReportWriters, WriteQueue
from kaisched.cluster.pods import sharing_of
from kaisched.cluster.pools.handover import pool_turns
from kaisched.cluster.pools.owners import OwnersByCondition
from kaisched.cluster.state import Kept
from kaisched.cluster.store import StateStore
from kaisched.daemon.comparison import Comparison
from kaisched.daemon.loop import Loop, policy_of, publisher_of, usage_feed
from kaisched.daemon.pool_owners import lose
from kaisched.daemon.recordings import Recordings
from kaisched.framework.advice.standing import StandingAdvice
from kaisched.objects.labels import pool_name
from kaisched.telemetry.metrics import WRITE_QUEUES, AdapterState, CycleCollector, Durations

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from kaisched.clock import Clock
    from kaisched.cluster.kubernetes.binder import BindBackend
    from kaisched.cluster.kubernetes.client import Client
    from kaisched.cluster.kubernetes.lease_process import Candidate, LeaseProcess
    from kaisched.cluster.kubernetes.pods import Note
    from kaisched.cluster.kubernetes.reflector import Change
    from kaisched.cluster.pools.owners import Owners, PoolCondition
    from kaisched.config.settings import SchedulerConfiguration
    from kaisched.daemon.pool_owners import PoolOwners
    from kaisched.daemon.stored_shards import ShardReports
    from kaisched.engine.shards import FoundShard
    from kaisched.framework.cycle import Cycle
    from kaisched.framework.policy import Policy
    from kaisched.objects.shard import SchedulingShard, ShardSpec
    from kaisched.telemetry.metrics import Requests, Watch
    from kaisched.usage.feed import UsageFeed
    from kaisched.usage.history import ServerHealth

PATIENCE_S: Final = 2.0
"""How long writes under way may take when the process ends."""


class ShardLeader:
    """Waits to lead one shard, then runs its loop until stopped or until the lease is lost."""

    shard_reports: ShardReports | None = None
    """Told whether the server of usage history answers; None while nobody is."""

    def __init__(
        self,
        settings: SchedulerConfiguration,
        client: Client,
        found: FoundShard,
        clock: Clock,
        *,
        leases: LeaseProcess | None,
        why_stale: Callable[[], str],
        barrier: Callable[[threading.Event], None],
        on_lost: Callable[[str], None],
        owners: PoolOwners,
    ) -> None:
        """Make all parts; start nothing yet.

        Args:
            settings: settings of the process.
            client: connection to the server.
            found: the shard.
            clock: the machine's clock.
            leases: renews the leases; None leads at once, without an election.
            why_stale: returns why no decisions are possible now; empty if they are.
            barrier: updates the state before a new leader's first decision.
            on_lost: called when the lead is lost.
            owners: which node pool each job with a list is in.

        Raises:
            KaischedError: the shard is wrong, or a plugin it enables is broken.

        """
        policy, said = policy_of(settings, found)
        self.name, self.policy, self.is_leading = found.shard.name, policy, False
        self.has_claims = found.shard.spec.resource_claims
        self.collector, self.renewals = CycleCollector(), Durations()
        self._candidate = self._candidate_with(leases, on_lost)
        self.leadership = Leadership() if self._candidate is None else self._candidate.leadership
        self._log: Any = _log_of(self.name, (*found.warnings, *said))
        self._is_observing, self._barrier = settings.kubernetes.observe, barrier
        self.comparison, self._advice = Comparison(), StandingAdvice()
        self._renew_s, self._end = settings.leader_election.renew_deadline, threading.Event()
        self.view = publisher_of(settings, found.shard, self._advice)
        self._write_queue, self._reports = (
            _write_queue(settings, self.leadership),
            ReportQueue(WEIGHTS),
        )
        self.cluster = self._cluster(settings, client, found, clock, why_stale, owners)
        self._pool_turns = pool_turns(self.cluster.store, found.shard)
        self._reporter = self._reporter_of(settings, client, found, clock)
        self._writers = self._writers_of(settings)
        self.recordings = Recordings(self.cluster, found.shard, settings.scheduler_names)
        self.loop, self._usage = self._loop(settings, self.policy, found, clock)
        self.cluster.wake, self.cluster.on_overthrown = self.loop.wake, on_lost
        self._thread = threading.Thread(target=self._lead, name=f"loop-{self.name}", daemon=True)

    def _owners_among(self, owners: PoolOwners, spec: ShardSpec) -> Owners:
        return owners.of(
            spec,
            put=self._put_condition,
            wake=lambda: self.cluster.wake(),  # noqa: PLW0108 - the cluster is made later
        )

    def _put_condition(self, condition: PoolCondition) -> None:
        owners = self.cluster.store.pools.owners
        assert isinstance(owners, OwnersByCondition)
        self.cluster.put_pool_condition(condition, owners.settled)

    @property
    def has_share_claims(self) -> bool:
        """Whether shares of GPUs are claims in the shard."""
        return bool(self.cluster.store.ours.sharing.share_class)

    def note_lost(self, pools: frozenset[str]) -> None:
        """Record the pools without a shard: their jobs may be taken."""
        self._log.warning("pools_lost", pools=sorted(map(pool_name, pools)))
        self.cluster.post(lose(pools))

    def _candidate_with(
        self, leases: LeaseProcess | None, on_lost: Callable[[str], None]
    ) -> Candidate | None:
        if leases is None:
            return None
        return leases.candidate(
            f"kaisched-{self.name}",
            on_won=self.won,
            on_lost=on_lost,
            on_renewed=self.renewals.add,
        )

    def _loop(
        self, settings: SchedulerConfiguration, policy: Policy, found: FoundShard, clock: Clock
    ) -> tuple[Loop, UsageFeed | None]:
        usage, wait_s = usage_feed(found, clock, self._note_server)
        claims = self.cluster.store.device_claims.figures
        loop = Loop(
            self.cluster,
            self.cluster,
            policy,
            clock,
            self.collector,
            period_s=settings.schedule_period,
            usage_source=usage,
            usage_wait_s=wait_s,
            usage_server=(lambda: None) if usage is None else usage.server,
            shard=self.name,
            after=self._report,
            between=self._advise,
            recordings=self.recordings,
            view=self.view,
            claims=claims if self.has_claims else None,
            is_observing=settings.kubernetes.observe,
        )
        return loop, usage

    def _note_server(self, server: ServerHealth) -> None:
        """Tell of the server of usage history while we lead; a leader may see it otherwise."""
        if self.is_leading and self.shard_reports is not None:
            self.shard_reports.note_server(self.name, server)

    def _reporter_of(
        self, settings: SchedulerConfiguration, client: Client, found: FoundShard, clock: Clock
    ) -> Reporter:
        pool = found.shard.spec.partition_label_value
        hurried = client.hurried(_write_s(settings))
        return Reporter(
            hurried,
            self._reports,
            clock,
            self.cluster.store,
            node_pool=pool,
            counts=self.cluster.counts,
            advice=self._advice,
        )

    def _writers_of(self, settings: SchedulerConfiguration) -> ReportWriters:
        per_second = settings.kubernetes.reports_per_second
        return ReportWriters(
            self._reports,
            self._reporter.step,
            self.leadership,
            per_second=per_second,
            write_s=_write_s(settings),
        )

    def _cluster(
        self,
        settings: SchedulerConfiguration,
        client: Client,
        found: FoundShard,
        clock: Clock,
        why_stale: Callable[[], str],
        owners: PoolOwners,
    ) -> KubernetesCluster:
        shard, how = found.shard, settings.kubernetes
        gpus = shard.spec.gpu_resources
        cluster = KubernetesCluster(
            client.hurried(_write_s(settings)),
            self.leadership,
            self._write_queue,
            clock,
            StateStore(
                settings.scheduler_names,
                node_pool=shard.spec.partition_label_value,
                gpu_resources=gpus,
                workloads=self.policy.workloads,
                stuck_after_s=self.policy.stuck_after_s,
                owner_wait_s=self.policy.owner_wait_s,
                owners=self._owners_among(owners, shard.spec),
                offers_shares=shard.has_reservations,
                sharing=sharing_of(shard),
                checks_queues=shard.spec.queue_use_policy,
            ),
            why_stale=why_stale,
            is_observing=how.observe,
            is_deleting=how.eviction_mode == "delete",
            shard=shard.name,
            note=self._note,
            kueue=KueueTranslator(gpus) if how.kueue else None,
            backends=_backends(shard),
        )
        cluster.store.device_claims.set_reading(ON if self.has_claims else OFF)
        if settings.snapshots.enabled:
            cluster.kept = Kept()
        return cluster

    def handle(self, change: Change) -> None:
        """Process a change of an object; from any thread."""
        # Reporter first: an object in a cycle but not in the reporter counts as gone.
        self._reporter.handle(change)
        self.cluster.handle(change)

    def start(self) -> None:
        """Lead as soon as no other process does."""
        if self._candidate is not None:
            self._candidate.start()
            return
        if not self._is_observing:  # when observing, there is no leadership, so nothing is written
            self.leadership.renew(math.inf)
        self.won()

    def won(self) -> None:
        """Start the loop."""
        if not self._end.is_set():
            self._thread.start()

    @property
    def has_won(self) -> bool:
        """Whether this process leads the shard, or is about to."""
        return self._thread.ident is not None

    def _lead(self) -> None:
        self._barrier(self._end)
        if self._end.is_set():
            return
        self.is_leading = True
        self.loop.run()

    @property
    def is_overdue(self) -> bool:
        """Whether we lead although the lease has run out: the elector may be stuck."""
        return self.is_leading and not self._is_observing and not self.leadership.is_held()

    def state(self, watches: tuple[Watch, ...], requests: Requests, skew_s: float) -> AdapterState:
        """Return the metrics of the shard's connection to the cluster.

        Args:
            watches: states of the watches.
            requests: counts of requests.
            skew_s: by how much the server's clock is ahead of ours.

        """
        sent_s = self.leadership.term.until_s - self._renew_s
        queues: tuple[WriteQueue | ReportQueue, ...] = (self._write_queue, self._reports)
        return AdapterState(
            is_leading=self.is_leading and (self._is_observing or self.leadership.is_held()),
            lease_age_s=max(monotonic_s() - sent_s, 0.0),
            renewals=self.renewals.read(),
            watches=watches,
            news=self.cluster.waiting,
            waiting={
                name: (queue.waiting, queue.oldest_s)
                for name, queue in zip(WRITE_QUEUES, queues, strict=True)
            },
            writes=self.cluster.counts.read(),
            requests=requests,
            skew_s=skew_s,
        )

    def stop(self) -> None:
        """Finish the cycle and the writes under way, then let others lead."""
        self._end.set()
        self.loop.stop()
        if self._thread.is_alive():
            self._thread.join()
        if self._is_observing:
            self._log.info("comparison_ended", **self.comparison.total.document())
        if self._usage is not None:
            self._usage.close()
        self._writers.close()
        self._write_queue.close(PATIENCE_S)
        if self._candidate is not None:
            self._candidate.stop()
        self.leadership.end()

    def _note(self, note: Note) -> None:
        self._reporter.note(note)

    def _advise(self, cycle: Cycle) -> None:
        if not self._is_observing:
            self._advice.find(cycle.result)

    def _report(self, cycle: Cycle) -> None:
        if not self._is_observing:
            self.cluster.remember(cycle.memory.facts)
            self._reporter.after(cycle.snapshot, cycle.result)
            for job, pool in self._pool_turns.after(cycle.snapshot, cycle.result, cycle.end_s):
                self._reporter.passed_on(job)
                self._log.info("job_passed_on", job=job, pool=pool_name(pool))
            return
        for started in self.comparison.after(cycle):
            self._log.info("job_compared", **started._asdict())
        told = self.comparison.total.document()
        self.collector.publish(
            replace(
                self.collector.published,
                observed_jobs=told["jobs"],
                observed_pods=told["pods"],
                observed_order=told["order"],
            )
        )


def _backends(shard: SchedulingShard) -> list[BindBackend]:
    """Make what takes steps before binds, as the shard says."""
    spec = shard.spec
    found: list[BindBackend] = []
    if spec.gpu_sharing is not None and shard.has_reservations:
        found.append(ReservationBackend(spec.gpu_sharing, spec.gpu_resources))
    if spec.resource_claims:
        found.append(ClaimBackend())
    if shard.share_class:
        found.append(ShareTemplates())
    return found


def _log_of(shard: str, warnings: Iterable[str]) -> Any:
    """Return the log of a shard, with what its settings cannot do in it."""
    log = structlog.get_logger().bind(shard=shard)
    for text in warnings:
        log.warning("setting_without_effect", err=text)
    return log


def _write_s(settings: SchedulerConfiguration) -> float:
    """Return how long a write may take: a part of the time for which the lease is certain."""
    return min(settings.kubernetes.request_timeout, settings.leader_election.renew_deadline / 3)


def _write_queue(settings: SchedulerConfiguration, leadership: Leadership) -> WriteQueue:
    """Make the write queue of decisions; reports have their own, so they cannot delay decisions."""
    how = settings.kubernetes
    return WriteQueue(
        leadership,
        writers=how.writers,
        per_second=how.writes_per_second,
        write_s=_write_s(settings),
    )
