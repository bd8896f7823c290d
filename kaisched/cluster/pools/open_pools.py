"""Open pools: those of a list in which a job could be, as the queues and shards are now."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kaisched.cluster.pools.listed import Listed
    from kaisched.cluster.pools.owners import Owners
    from kaisched.cluster.pools.projects import Projects


class OpenPools:
    """Answers are kept while no queue and no shard changes: many jobs have one list and queue."""

    def __init__(self, projects: Projects, owners: Owners) -> None:
        """Keep who knows the queues and the shards."""
        self._projects, self._owners = projects, owners
        self._found: dict[tuple[tuple[str, ...], str], list[str]] = {}
        self._revision = -1
        self._served: Mapping[str, bool] = {}

    def of(self, listed: Listed) -> list[str]:
        """Return the open pools of a job, in the order of its list; not to be changed."""
        served = self._owners.served
        if self._revision != self._projects.revision or self._served != served:
            self._found.clear()
            self._revision, self._served = self._projects.revision, dict(served)
        key = listed.pools, listed.queue
        if key not in self._found:
            self._found[key] = [
                pool
                for pool in listed.pools
                if served.get(pool)
                or (pool in served and self._projects.queue_in(pool, listed.queue) != "")
            ]
        return self._found[key]
