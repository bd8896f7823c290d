"""Daemon on a real cluster: reflectors feed the stores of its shards, each shard has a loop.

docs/explanation/on-kubernetes.md describes the effects of faults.
"""

from __future__ import annotations

import os
import threading
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import structlog

from kaisched.clock import SKEW_WARN_S, ServerClock, monotonic_s
from kaisched.cluster.claims.device_claims import ON
from kaisched.cluster.kubernetes.access import find_access
from kaisched.cluster.kubernetes.client import Client, Pace, Pauses
from kaisched.cluster.kubernetes.leader_election import LeaseTimes
from kaisched.cluster.kubernetes.lease_process import LeaseProcess
from kaisched.cluster.kubernetes.reflector import MOST_UNAUTHORIZED, Phase, Reflector
from kaisched.cluster.kubernetes.resources import (
    ALL,
    CLAIMS,
    DEVICES,
    KUEUE,
    NODES,
    PODS,
    STORAGE,
    AccountUnknownError,
    find_gang_api,
    watched_kinds,
)
from kaisched.daemon import garbage
from kaisched.daemon.loop import Check
from kaisched.daemon.pool_owners import LostPools, PoolOwners
from kaisched.daemon.shard_leader import ShardLeader
from kaisched.daemon.stored_shards import STORED, ShardReports, ShardWatch, usable_among
from kaisched.engine.shards import shards_in
from kaisched.errors import ClusterUnavailable, KaischedError
from kaisched.telemetry.metrics import Watch

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kaisched.clock import Clock
    from kaisched.cluster.kubernetes.reflector import Change
    from kaisched.cluster.store import StateStore
    from kaisched.config.settings import SchedulerConfiguration
    from kaisched.daemon.stored_shards import StoredShard
    from kaisched.engine.shards import FoundShard
    from kaisched.objects.shard import SchedulingShard
    from kaisched.objects.workloads import Workload
    from kaisched.telemetry.metrics import AdapterState

_POLL_S: Final = 0.2
_ABSENT: Final = 404
_SPARE_CONNECTIONS: Final = 16
"""For occasional requests, and for the kinds that plugins add."""
_REPORT_S: Final = 10.0
"""Time between two log lines about what the start still waits for."""


class KubernetesDaemon:
    """Process on a real cluster, which runs until it is stopped or has to give up."""

    def __init__(
        self, settings: SchedulerConfiguration, clock: Clock, client: Client | None = None
    ) -> None:
        """Make everything that needs no server.

        Raises:
            ConfigError: no access to a cluster is configured.

        """
        how = settings.kubernetes
        self._settings = settings
        if client is None:
            access = find_access(Path(how.kubeconfig) if how.kubeconfig else None, how.context)
            # Every kind keeps one connection busy, and so does every writer.
            wanted = len(ALL) + (len(KUEUE) if how.kueue else 0) + how.writers + _SPARE_CONNECTIONS
            client = Client(access, connections=wanted, timeout_s=how.request_timeout)
        self.client = client
        self._clock = client.clock = ServerClock(clock)
        self._is_clock_off = False
        random_part = uuid.uuid4().hex[:8]
        self.identity = (
            settings.leader_election.identity
            or f"{os.uname().nodename}-{os.getpid()}-{random_part}"
        )
        self._leases: LeaseProcess | None = None
        self.leaders: tuple[ShardLeader, ...] = ()
        self.reflectors: tuple[Reflector, ...] = ()
        self._of_kind: dict[tuple[str, str], Reflector] = {}
        self._shard_reports = (
            None if how.observe else ShardReports(client, self._clock, self.identity)
        )
        report = self._shard_reports.add if self._shard_reports is not None else lambda _: None
        self.shards = ShardWatch(report)
        self._shard_reflector = Reflector(client, STORED, self.shards.handle, pace=self._pace())
        self._restoring: tuple[tuple[Reflector, int], ...] = ()
        """Lists that have to complete since the server's store was restored."""
        self._readable = Readable()
        self._error = ""
        self._end = threading.Event()
        self._log: Any = structlog.get_logger()

    def run(self) -> None:
        """Run until :meth:`stop`.

        Raises:
            ClusterUnavailable: a lease was lost, or the API server no longer knows our account. A
                fresh process starts without stale state.
            ConfigError: a shard is wrong.

        """
        try:
            found = self._find_shards()
            self._leases = self._lease_process()
            owners = PoolOwners(found, self._settings.kubernetes.other_pools)
            lost = LostPools(self.client, self._settings, owners.shard_of_pool)
            self.leaders = tuple(self._leader(one, owners) for one in found)
            self.reflectors = self._followed()
            self._of_kind = {it.watched.group_kind: it for it in self.reflectors}
            if self._shard_reports is not None:
                self._shard_reports.start()
            garbage.begin()
            for reflector in (*self.reflectors, self._shard_reflector):
                reflector.start()
            self._wait_for_sync()
            waiting = list(self.leaders)
            while not self._end.wait(0.0 if waiting else _POLL_S):
                self._start_next(waiting)
                self._keep_up()
                pools = lost.look()
                for leader in self.leaders:
                    if pools is not None:
                        leader.note_lost(pools)
                    if leader.is_overdue:
                        self.fail(f"the lease of shard {leader.name} has run out")
        finally:
            self._shut_down()
        if self._error:
            raise ClusterUnavailable(self._error)

    def _start_next(self, waiting: list[ShardLeader]) -> None:
        """Let the shards stand for election one by one, so that one process leads them all."""
        if not waiting:
            return
        before = self.leaders[len(self.leaders) - len(waiting) - 1]
        if len(waiting) == len(self.leaders) or before.has_won:
            waiting.pop(0).start()
        else:
            self._end.wait(_POLL_S)

    def stop(self) -> None:
        """Stop in an orderly way; from any thread."""
        self._end.set()

    def fail(self, why: str) -> None:
        """Stop, with this reason as the error."""
        self._error = self._error or why
        for leader in self.leaders:
            leader.leadership.end()
        self._end.set()

    def live(self) -> tuple[Check, ...]:
        """Return the checks of liveness: the loops of the shards we lead make progress."""
        now_s = self._clock.now_s()
        leading = [leader for leader in self.leaders if leader.is_leading]
        found = [check for leader in leading for check in leader.loop.health.live(now_s)]
        return tuple(found) or (Check("loop", True, "we lead no shard yet"),)

    def ready(self) -> tuple[Check, ...]:
        """Return the checks of readiness; a standby is ready."""
        missing = self._unsynced()
        now_s = self._clock.now_s()
        checks = [
            Check(
                "cluster",
                bool(self.reflectors) and not missing,
                f"waits for {', '.join(missing)}" if missing else "in sync",
            )
        ]
        for leader in self.leaders:
            if leader.is_leading:
                checks.extend(leader.loop.health.ready(now_s))
            checks.append(
                Check(f"shard-{leader.name}", True, "leads" if leader.is_leading else "stands by")
            )
        checks.append(Check("shards", True, self.shards.summary()))
        return tuple(checks)

    def state_of(self, leader: ShardLeader) -> AdapterState:
        """Return the metrics of a shard's connection to the cluster."""
        now_s = monotonic_s()
        watches = tuple(
            Watch(
                it.watched.qualified,
                now_s - it.heard_s,
                it.phase is Phase.SYNCED,
                it.tally.relists,
                it.tally.errors,
                it.tally.bad_objects,
                it.tally.mismatches,
            )
            for it in self.reflectors
        )
        return leader.state(watches, self.client.requests.read(), self._clock.skew_s)

    # -- parts -----------------------------------------------------------------------------------

    def _pace(self) -> Pace:
        how = self._settings.kubernetes
        return Pace(idle_s=how.watch_idle, compare_s=how.compare_period)

    def _leader(self, found: FoundShard, owners: PoolOwners) -> ShardLeader:
        leader = ShardLeader(
            self._settings,
            self.client,
            found,
            self._clock,
            leases=self._leases,
            why_stale=self.why_stale,
            barrier=self._catch_up,
            on_lost=self.fail,
            owners=owners,
        )
        leader.shard_reports = self._shard_reports
        return leader

    def _lease_process(self) -> LeaseProcess | None:
        """Start the process that renews the leases if this process needs any."""
        election, how = self._settings.leader_election, self._settings.kubernetes
        if how.observe or not election.enabled:
            return None
        times = LeaseTimes(election.lease_duration, election.renew_deadline, election.retry_period)
        leases = LeaseProcess(
            self.client,
            namespace=how.namespace or self.client.access.namespace,
            identity=self.identity,
            times=times,
        )
        leases.start()
        return leases

    def _followed(self) -> tuple[Reflector, ...]:
        """Return a reflector for each watched kind.

        Raises:
            ConfigError: two shards read one kind in different ways.

        """
        kinds = watched_kinds(
            [it.policy.workloads for it in self.leaders],
            self._find_gang_api(),
            is_deleting=self._settings.kubernetes.eviction_mode == "delete",
            has_kueue=self._settings.kubernetes.kueue,
            has_claims=any(it.has_claims for it in self.leaders),
            has_share_claims=any(it.has_share_claims for it in self.leaders),
        )
        return tuple(
            Reflector(
                self.client,
                watched,
                self._handle,
                pace=self._pace(),
                on_fatal=self.fail,
                on_restored=self._list_all_again,
            )
            for watched in kinds
        )

    def _find_gang_api(self) -> Workload | None:
        """Find the version of Kubernetes' own gang API, waiting for the server to answer.

        It is asked once: a restarted process will see later changes.
        """
        pauses, unauthorized = Pauses(), 0
        while not self._end.is_set():
            try:
                found = find_gang_api(self.client)
            except ClusterUnavailable as error:
                unauthorized += isinstance(error, AccountUnknownError)
                if unauthorized >= MOST_UNAUTHORIZED:
                    self.fail(f"the API server does not know our account: {error}")
                self._log.warning("waiting_for_cluster", err=str(error))
                self._end.wait(pauses.next_s())
                continue
            self._log.info("gang_api_chosen", version=found.api_version if found else "none")
            return found
        return None

    def _handle(self, change: Change) -> None:
        for reference in () if change.is_gone else change.obj.metadata.owner_references:
            reflector = self._of_kind.get(reference.group_kind)
            if reflector is not None:
                reflector.expect()  # its definition may be brand new
        for leader in self.leaders:
            leader.handle(change)

    def _find_shards(self) -> list[FoundShard]:
        """Return the shards, waiting for the server to be reachable."""
        files = self._settings.shards
        stored: list[StoredShard] = []
        pauses = Pauses()
        while not files and not self._end.is_set():
            try:
                answer = self.client.call("GET", STORED.path)
                if answer.code == _ABSENT:
                    break
                if answer.is_done:
                    objects = STORED.read_list(answer.data).objects
                    stored = sorted(objects, key=lambda shard: shard.name)
                    break
                why = answer.text()
            except ClusterUnavailable as error:
                why = str(error)
            self._log.warning("waiting_for_cluster", err=why)
            self._end.wait(pauses.next_s())
        return shards_in(files, () if files else self._usable(stored))

    def _usable(self, stored: list[StoredShard]) -> list[SchedulingShard]:
        """Return the shards of the cluster, wrong ones as they were usable last.

        Raises:
            KaischedError: a shard is wrong and was never usable.

        """
        try:
            shards, wrong = usable_among(stored)
        except KaischedError:
            if self._shard_reports is not None:
                self._shard_reports.write(stored)
            raise
        self.shards.start(shards, wrong)
        return shards

    # -- staying in sync -------------------------------------------------------------------------

    def _unsynced(self) -> list[str]:
        return [it.watched.qualified for it in self.reflectors if not it.is_synced]

    def _wait_for_sync(self) -> None:
        logged_s = monotonic_s()
        while (missing := self._unsynced()) and not self._end.wait(0.01):
            self._keep_up()
            garbage.tend()
            if monotonic_s() - logged_s > _REPORT_S:
                logged_s = monotonic_s()
                self._log.warning("waiting_for_kinds", kinds=missing)
        self._keep_up()
        garbage.settle()

    def _keep_up(self) -> None:
        """Record which kinds can be read, and drain the changes of shards without a loop."""
        self._readable.note(self.reflectors, self.leaders)
        self._look_at_clock()
        for leader in self.leaders:
            leader.cluster.catch_up()

    def _look_at_clock(self) -> None:
        """Log that our clock and the server's differ, and that they do no longer."""
        skew_s = self._clock.skew_s
        if (is_off := abs(skew_s) >= SKEW_WARN_S) == self._is_clock_off:
            return
        self._is_clock_off = is_off
        if is_off:
            fix = "set the clock of this node by NTP; decisions go by the API server's"
            self._log.warning("clock_off", server_ahead_s=round(skew_s, 1), fix=fix)
        else:
            self._log.info("clock_right")

    def why_stale(self) -> str:
        """Return why no decisions are possible now; empty if they are."""
        now_s, most_s = monotonic_s(), self._settings.kubernetes.max_cache_age
        for reflector in self.reflectors:
            if not reflector.is_synced:
                return f"{reflector.watched.qualified}: {reflector.phase.value}"
            age_s = now_s - reflector.heard_s
            if reflector.watched.is_required and age_s > most_s:
                return f"{reflector.watched.qualified}: nothing heard for {age_s:.0f} s"
        if self._is_restoring():
            return "the server's store was restored: everything is listed again"
        return ""

    def _is_restoring(self) -> bool:
        return not all(reflector.has_listed(number) for reflector, number in self._restoring)

    def _list_all_again(self) -> None:
        """List every kind again; until that is done no decisions are made."""
        if self._is_restoring():
            return  # the other kinds notice the restore too
        for leader in self.leaders:
            leader.cluster.forget_reads()
        there = [it for it in self.reflectors if it.phase is Phase.SYNCED]
        asked = [(it, it.list_again("restored")) for it in there]
        self._restoring = tuple(pair for pair in asked if _decides(pair[0]))

    def _catch_up(self, end: threading.Event) -> None:
        """List again what leaders write: a standby's view may lag behind the last one's writes."""
        asked = [
            (reflector, reflector.list_again("take-over"))
            for reflector in self.reflectors
            if reflector.watched in {PODS, NODES} or are_claims(reflector)
        ]
        while not all(reflector.has_listed(number) for reflector, number in asked):
            if end.wait(0.005) or self._end.is_set():
                return

    def _shut_down(self) -> None:
        self._log.info("stopping", why=self._error or "asked to")
        if self._shard_reports is not None:
            self._shard_reports.stop()
        for leader in self.leaders:
            leader.stop()
        if self._leases is not None:
            self._leases.close()
        for reflector in (*self.reflectors, self._shard_reflector):
            reflector.stop()
        for reflector in (*self.reflectors, self._shard_reflector):
            reflector.join(1.0)


def _decides(reflector: Reflector) -> bool:
    """Tell whether nothing may be decided before a kind is listed."""
    return reflector.watched.is_required or are_claims(reflector)


class Readable:
    """Which kinds can be read, as the shards know it."""

    def __init__(self) -> None:
        """Begin as the stores do: without storage, and with claims where a shard allocates them."""
        self._has_volumes, self._claims = False, ON

    def note(self, reflectors: Iterable[Reflector], leaders: Iterable[ShardLeader]) -> None:
        """Tell the shards what has changed."""
        listed, told = list(reflectors), list(leaders)
        has_volumes = all(it.phase is Phase.SYNCED for it in listed if it.watched in STORAGE)
        if has_volumes != self._has_volumes:
            self._has_volumes = has_volumes
            for leader in told:
                leader.cluster.post(lambda store: store.set_volumes_read(is_read=has_volumes))
        claims = _why_no_claims(listed) or ON
        if claims != self._claims:
            self._claims = claims
            for leader in told:
                if leader.has_claims:
                    leader.cluster.post(lambda store: _set_claim_reading(store, claims))


def _why_no_claims(reflectors: Iterable[Reflector]) -> str:
    """Return why claims cannot be allocated; empty if they can, or if none are."""
    kinds = {it.group_kind for it in DEVICES}
    for it in reflectors:
        if it.watched.group_kind in kinds and it.phase in {Phase.ABSENT, Phase.FORBIDDEN}:
            return f"{it.watched.qualified} of the API server: {it.phase.value}"
    return ""


def _set_claim_reading(store: StateStore, reading: str) -> None:
    store.rows.touch()
    store.look_again(store.device_claims.set_reading(reading))


def are_claims(reflector: Reflector) -> bool:
    """Tell whether a reflector follows claims on devices, and can read them."""
    is_of_claims = reflector.watched.group_kind == CLAIMS.group_kind
    return is_of_claims and reflector.phase is Phase.SYNCED
