"""Node pools of a simulation: a cluster and a cycle for each, and the way of jobs through lists.

Each job is in one pool at any moment. It goes on from pool to pool by the rules of the daemon
(docs/explanation/node-pools.md), whose stays these are.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kaisched.cluster.pools.handover import DWELL_S, Stays, is_hopeless, refused

if TYPE_CHECKING:
    from kaisched.cluster.queues import QueueRow
    from kaisched.core.snapshot import Snapshot
    from kaisched.framework.report.result import CycleResult
    from kaisched.sim.cluster import Cluster, Decide
    from kaisched.sim.workload import Workload


@dataclass(slots=True)
class Site:
    """One pool: its cluster, the cycle of its shard, and the stays of jobs in it."""

    cluster: Cluster
    decide: Decide
    pool: str = ""
    dwell_s: float = DWELL_S
    is_idle_first: bool = False
    stays: Stays | None = None
    """None where there are no other pools."""


@dataclass(frozen=True, slots=True)
class Lists:
    """Lists of pools of jobs, by the queue that a group of jobs names."""

    queue_in: Mapping[tuple[str, int], int] = field(default_factory=dict)
    """By (pool, queue) the queue of the same project in that pool, where there is one."""
    rows: Mapping[str, Sequence[QueueRow]] = field(default_factory=dict)
    """The queues of each pool."""


class Ways:
    """Where each job is, and where it goes next."""

    def __init__(self, work: Workload, sites: Sequence[Site], lists: Lists) -> None:
        """Begin without jobs."""
        self._work, self.sites, self._lists = work, sites, lists
        self._site_of_pool = {site.pool: at for at, site in enumerate(sites)}
        self._at: list[int] = []
        self._moves: Counter[int] = Counter()
        """By job, how often it went on since anything else happened."""
        self.changes: Counter[str] = Counter()
        """By pool, how often something there may have made room."""
        for site in sites if len(sites) > 1 else ():
            site.stays = Stays(site.pool, site.dwell_s, self.changes)

    def site_of(self, job: int) -> Site:
        """Return where a job is."""
        return self.sites[self._at[job]]

    def site_of_node(self, node: str) -> Site:
        """Return the pool of a node."""
        return next(site for site in self.sites if site.cluster.has_node(node))

    def arrive(self, job: int, now_s: float) -> None:
        """Put a new job into the first pool of its list that is open to it."""
        open_pools = self._open(job)
        pool = open_pools[0] if open_pools else self.sites[0].pool
        self._at.append(self._site_of_pool[pool])
        self._enter(job, now_s)

    def note_change(self, job: int) -> None:
        """Note that a job makes room where it is."""
        self.changes[self.site_of(job).pool] += 1

    def settle(self) -> None:
        """Note that something happened: each pool of a list may have room by now."""
        self._moves.clear()

    def leaving(
        self, site: Site, snapshot: Snapshot, result: CycleResult, now_s: float
    ) -> list[int]:
        """Return the jobs whose time in a pool is over, all of which wait."""
        stays = site.stays
        if stays is None:
            return []
        promised = {nomination.pod_group for nomination in result.nominations}
        gone = []
        for row, code in refused(snapshot, result):
            name = snapshot.jobs.name[row]
            job = site.cluster.job_of_name(name)
            pools = self._open(job)
            if name in stays and name not in promised and len(pools) > 1:
                hopeless = is_hopeless(snapshot, row, code)
                if now_s >= stays.ends_s(name, pools, is_hopeless=hopeless):
                    gone.append(job)
        return gone

    def pass_on(self, job: int, now_s: float) -> Site:
        """Move a job that waits to its next pool; return that."""
        work, before = self._work, self.site_of(job)
        assert before.stays is not None
        name = before.cluster.name_of(job)
        pool = before.stays.next_pool(name, work.kind[job].pools, self._open(job))
        assert pool is not None
        before.cluster.remove(job)
        before.stays.end(name)
        self._at[job] = self._site_of_pool[pool]
        self._moves[job] += 1
        self._enter(job, now_s)
        return self.site_of(job)

    def forget(self, job: int) -> None:
        """Forget a job that has ended."""
        for site in self.sites:
            if site.stays is not None:
                site.stays.forget(site.cluster.name_of(job))

    def _enter(self, job: int, now_s: float) -> None:
        site = self.site_of(job)
        self._work.queue[job] = self._lists.queue_in.get(
            (site.pool, self._work.queue[job]), self._work.queue[job]
        )
        if site.stays is not None and len(self._work.kind[job].pools) > 1:
            site.stays.begin(site.cluster.name_of(job), now_s)

    def eviction_delay_s(self, job: int) -> float:
        """Return how long a job that comes to a pool may not evict there."""
        site = self.site_of(job)
        if site.stays is None or not site.is_idle_first or len(self._work.kind[job].pools) <= 1:
            return 0.0
        return math.inf if site.stays.count(site.cluster.name_of(job)) <= 1 else 0.0

    def next_end_s(self, now_s: float, is_free: Callable[[int], bool]) -> float | None:
        """Return when the next stay ends of a job that did not go through its list in vain.

        ``is_free`` tells whether a job waits and holds nothing.
        """
        return min((end_s for end_s in self._ends(is_free) if end_s > now_s), default=None)

    def _ends(self, is_free: Callable[[int], bool]) -> Iterator[float]:
        for site in self.sites:
            stays, laps = site.stays, 2 if site.is_idle_first else 1
            if stays is None:
                continue
            for name in stays.here():
                job = site.cluster.job_of_name(name)
                pools = self._open(job)
                if is_free(job) and self._moves[job] < laps * len(pools):
                    yield stays.ends_s(name, pools)

    def _open(self, job: int) -> list[str]:
        """Return the pools of a job's list in which its project has a queue, in order."""
        work = self._work
        queue, pools = work.queue[job], work.kind[job].pools
        return [pool for pool in pools if (pool, queue) in self._lists.queue_in]
