"""The two ports between the cycle and a cluster, whatever the cluster is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kaisched.core.snapshot import Snapshot
    from kaisched.framework.intents import Bind, Evict, Nominate


class SnapshotSource(Protocol):
    """Gives the frozen state of a shard."""

    def snapshot(self) -> Snapshot:
        """Return the present state; cheap when little has changed."""
        ...


class IntentSink(Protocol):
    """Carries out what a cycle decided.

    A failure is not raised: it comes back as an event and is a fact of the next snapshot.
    """

    def apply(
        self, binds: Sequence[Bind], evictions: Sequence[Evict], nominations: Sequence[Nominate]
    ) -> None:
        """Bind, evict, nominate."""
        ...
