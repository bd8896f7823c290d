"""Owners of jobs with lists of pools: in memory, or in pool conditions if others serve too."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import msgspec
import structlog

from kaisched.clock import monotonic_s
from kaisched.cluster.pools.owners import Owners, OwnersByCondition, PoolCondition, SharedOwners
from kaisched.errors import ClusterUnavailable
from kaisched.objects.labels import pool_name, pool_named
from kaisched.objects.wire import BAD_JSON

if TYPE_CHECKING:
    from kaisched.cluster.kubernetes.client import Client
    from kaisched.cluster.store import StateStore
    from kaisched.config.settings import SchedulerConfiguration
    from kaisched.engine.shards import FoundShard
    from kaisched.objects.shard import ShardSpec

_ABSENT: Final = 404
LOST_AFTER: Final = 3
"""So many durations of its lease after the last renewal the jobs of a shard may be taken."""


def shard_of_pool(others: Sequence[str]) -> dict[str, str]:
    """Return the shard of each pool of other processes, given as ``POOL`` or ``POOL=SHARD``."""
    named = (other.partition("=") for other in others)
    return {pool_named(pool): shard or pool for pool, _, shard in named}


class PoolOwners:
    """The owners that the shards of this process use."""

    def __init__(self, found: Sequence[FoundShard], others: Sequence[str]) -> None:
        """Take the shards of this process, and pools of others, as ``POOL`` or ``POOL=SHARD``."""
        self._shared = SharedOwners()
        self.shard_of_pool = shard_of_pool(others)
        ours = {
            it.shard.spec.partition_label_value: it.shard.spec.admits_all_projects for it in found
        }
        # Whether another pool admits all projects is known there: a job that it refuses comes back.
        self._served = {**dict.fromkeys(self.shard_of_pool, True), **ours}

    @property
    def uses_conditions(self) -> bool:
        """Whether other processes serve pools too."""
        return bool(self.shard_of_pool)

    def of(
        self, spec: ShardSpec, put: Callable[[PoolCondition], None], wake: Callable[[], None]
    ) -> Owners:
        """Return the owners for one shard.

        Args:
            spec: the shard.
            put: writes a pool condition.
            wake: starts its next cycle.

        """
        pool = spec.partition_label_value
        if self.uses_conditions:
            return OwnersByCondition(pool, self._served, put)
        return self._shared.for_shard(pool, admits_all=spec.admits_all_projects, wake=wake)


class LostPools:
    """Looks at the leases of the shards of other processes, in the main thread."""

    def __init__(
        self, client: Client, settings: SchedulerConfiguration, shard_of_pool: Mapping[str, str]
    ) -> None:
        """Look at nothing yet.

        Args:
            client: reads the leases.
            settings: say where they are and how long they last.
            shard_of_pool: the shards of other processes, by pool.

        """
        self._client, self._shard_of_pool = client, shard_of_pool
        self._namespace = settings.kubernetes.namespace or client.access.namespace
        self._duration_s = settings.leader_election.lease_duration
        self._seen: dict[str, tuple[object, float]] = {}
        """By pool, the lease as it was last seen, and since when it is so."""
        self._unread: dict[str, str] = {}
        """By pool, why its lease could not be read the last time."""
        self._log: Any = structlog.get_logger()
        self._next_s = 0.0
        self._lost: frozenset[str] = frozenset()

    def look(self) -> frozenset[str] | None:
        """Return the pools without a shard, if they have changed; else None."""
        now_s = monotonic_s()
        if not self._shard_of_pool or now_s < self._next_s:
            return None
        self._next_s = now_s + self._duration_s / 2
        for pool, shard in self._shard_of_pool.items():
            self._note(pool, shard, now_s)
        limit_s = now_s - LOST_AFTER * self._duration_s
        lost = frozenset(pool for pool, (_, since_s) in self._seen.items() if since_s < limit_s)
        if lost == self._lost:
            return None
        self._lost = lost
        return lost

    def _note(self, pool: str, shard: str, now_s: float) -> None:
        path = f"/apis/coordination.k8s.io/v1/namespaces/{self._namespace}/leases/kaisched-{shard}"
        lease: dict[str, Any] | None = None
        try:
            answer = self._client.call("GET", path)
            if answer.is_done:
                lease = msgspec.json.decode(answer.data)["spec"]
            why = "" if answer.is_done or answer.code == _ABSENT else answer.text()
        except (ClusterUnavailable, KeyError, *BAD_JSON) as error:
            why = str(error)
        self._log_reading(pool, shard, why)
        if why:
            self._seen.pop(pool, None)  # what cannot be read is not lost
            return
        seen = (lease or {}).get("holderIdentity"), (lease or {}).get("renewTime")
        if pool not in self._seen or self._seen[pool][0] != seen:
            self._seen[pool] = (seen, now_s)

    def _log_reading(self, pool: str, shard: str, why: str) -> None:
        """Log that a lease cannot be read, once, and that it can be read again."""
        before, self._unread[pool] = self._unread.get(pool, ""), why
        there = {"pool": pool_name(pool), "lease": f"kaisched-{shard}"}
        if why and not before:
            effect = "jobs of that pool are not taken while its shard is gone"
            self._log.warning("lease_not_readable", **there, err=why, effect=effect)
        elif before and not why:
            self._log.info("lease_readable", **there)


def lose(pools: frozenset[str]) -> Callable[[StateStore], None]:
    """Return the change of a store that records the pools without a shard."""

    def note(store: StateStore) -> None:
        owners = store.pools.owners
        if isinstance(owners, OwnersByCondition):
            owners.lose(pools)
            store.pools.look_at_all()

    return note
