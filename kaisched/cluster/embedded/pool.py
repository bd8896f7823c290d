"""Another node pool of an embedded cluster: a snapshot source and intent sink of its own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from kaisched.cluster.store import StateStore

if TYPE_CHECKING:
    from kaisched.cluster.embedded.cluster import EmbeddedCluster
    from kaisched.core.snapshot import Snapshot
    from kaisched.framework.intents import Bind, Evict, Nominate


class EmbeddedPool:
    """The view of one shard on a cluster that several shards divide by node pool."""

    def __init__(self, cluster: EmbeddedCluster, store: StateStore) -> None:
        """Let a store hear of all changes of a cluster from now on."""
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
