"""State that metrics are served from: one immutable value, replaced after each cycle.

The loop makes the next value from the last one and publishes it by one assignment; a scrape reads
it once. So a scrape never sees half a cycle, and no lock is needed.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

import numpy as np

from kaisched.core.constraints import domain_paths, topology_of
from kaisched.framework.report.result import ShareTable, without_session

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from kaisched.core.axis import Amounts
    from kaisched.core.snapshot import Snapshot
    from kaisched.core.tables import NodeTable, SubGroup, TopologyConstraint, TopologyLevel
    from kaisched.core.usage import Usage
    from kaisched.framework.intents import Evict
    from kaisched.framework.report.records import QueueShare
    from kaisched.framework.report.result import CycleResult
    from kaisched.telemetry.metrics import ClaimFigures


# -- domains that gangs use ------------------------------------------------------------------------

BOUNDS: Final = (1, 2, 3, 4, 6, 8, 12, 16, 32, 64)
"""Upper bounds: exact where it matters whether a domain more was needed."""


def cumulated(bounds: Sequence[float], counts: Sequence[float]) -> list[tuple[str, float]]:
    """Return the buckets of a histogram, by upper bound: one more than bounds."""
    words = [*(str(float(bound)) for bound in bounds), "+Inf"]
    sums = np.cumsum(counts).tolist()
    return [(word, float(number)) for word, number in zip(words, sums, strict=True)]


class Spread(NamedTuple):
    """Starts of gangs by the domains of one level that they use."""

    counts: tuple[int, ...] = (0,) * (len(BOUNDS) + 1)
    """By bucket, not cumulated."""
    total: int = 0
    """The domains of all starts together."""

    def plus(self, domains: int) -> Spread:
        """Return the counts with one more start."""
        counts = list(self.counts)
        counts[bisect_left(BOUNDS, domains)] += 1
        return Spread(tuple(counts), self.total + domains)

    def buckets(self) -> list[tuple[str, float]]:
        """Return the cumulated counts, by upper bound."""
        return cumulated(BOUNDS, self.counts)


Spreads: TypeAlias = Mapping[tuple[str, str], Spread]
"""By (topology, name of the level)."""


def with_starts(known: Spreads, snapshot: Snapshot, result: CycleResult) -> Spreads:
    """Return counts with the gangs that a cycle starts.

    Every level of every topology has an entry, for a rate to rise from zero; those of topologies
    that are gone are forgotten.
    """
    topologies = snapshot.nodes.topologies
    keys = ((name, _word(level)) for name, levels in topologies.items() for level in levels)
    counts = {key: known.get(key, Spread()) for key in sorted(keys)}
    for root, nodes in _starts(snapshot, result):
        wished = {topology_of(topologies, wish) for wish in _wishes(root)}
        for name in wished & topologies.keys():
            labels = [snapshot.nodes.labels[node] for node in nodes]
            for level, domains in zip(
                topologies[name], _used(topologies[name], labels), strict=True
            ):
                key = name, _word(level)
                counts[key] = counts[key].plus(domains)
    return counts


def _starts(snapshot: Snapshot, result: CycleResult) -> Iterator[tuple[SubGroup, list[int]]]:
    """Yield the tree and the nodes of each structured job of which nothing ran before."""
    jobs = snapshot.jobs
    if not jobs.structure or not len(result.bind_tasks):
        return
    job_of_bind = snapshot.tasks.job_of_task[result.bind_tasks]
    for job in np.unique(job_of_bind).tolist():
        nodes = result.bind_nodes[job_of_bind == job]
        if job in jobs.structure and not jobs.active[job] and len(nodes) > 1:
            yield jobs.structure[job], np.unique(nodes).tolist()


def _wishes(group: SubGroup) -> Iterator[TopologyConstraint]:
    if group.topology is not None:
        yield group.topology
    for child in group.children:
        yield from _wishes(child)


def _used(levels: Sequence[TopologyLevel], labels: Sequence[Mapping[str, str]]) -> Iterator[int]:
    """Yield how many domains of each level some nodes are in; those in none count as one."""
    paths = set(domain_paths(levels, labels))
    for at in range(len(levels)):
        yield len({None if path is None else path[: at + 1] for path in paths})


def _word(level: TopologyLevel) -> str:
    return level.alias or level.label


BUCKETS_S: Final = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0)
"""Upper bounds of the cycle duration histogram: half a decade apart, around the 1 s period."""

COMPLETED: Final = "completed"
ABANDONED: Final = "abandoned"
FAILED: Final = "failed"


OTHER: Final = "other"
"""The queue in which those are summed that have no series of their own."""
PAIR_CAP: Final = 2000
"""So many combinations of queues and reason have a series of their own."""

Pairs: TypeAlias = Mapping[tuple[str, str, str], float]
"""By (queue that lost pods, queue that they were evicted for, reason)."""


def _sum(old: Mapping[str, float], new: Mapping[str, float]) -> dict[str, float]:
    return {name: old.get(name, 0) + new.get(name, 0) for name in sorted({*old, *new})}


# -- the state -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Published:
    """Totals since the start, and the state at the end of the last cycle."""

    cycles: Mapping[str, float] = field(
        default_factory=lambda: {COMPLETED: 0, ABANDONED: 0, FAILED: 0}
    )
    durations: tuple[int, ...] = (0,) * (len(BUCKETS_S) + 1)
    """Cycles by the bucket of their duration, not cumulated."""
    duration_sum_s: float = 0.0
    last_cycle_s: float = 0.0
    """End of the last cycle, seconds since 1970."""
    pending: Mapping[str, int] = field(default_factory=dict)
    """Pending jobs by reason."""
    put_off: Mapping[str, int] = field(default_factory=dict)
    """Jobs that the last cycle put off, by queue."""
    binds: int = 0
    nominations: int = 0
    evictions: Mapping[str, float] = field(default_factory=dict)
    queue_evictions: Pairs = field(default_factory=dict)
    plugin_s: Mapping[str, float] = field(default_factory=dict)
    plugin_failures: Mapping[str, float] = field(default_factory=dict)
    evictions_left: int = -1
    """Pods that may still be evicted within the hour, as of the last cycle; -1 for any number."""
    stuck: int = 0
    """Stuck pods, as of the last cycle."""
    nodes: NodeTable | None = None
    """The nodes that the last cycle saw, with the GPUs that pods share."""
    claims: ClaimFigures | None = None
    """Devices and claims on them, as of the last cycle; None where the shard allocates none."""
    observed_jobs: Mapping[str, float] = field(
        default_factory=lambda: dict.fromkeys(("same_time", "earlier", "not_yet"), 0)
    )
    """Starts by another scheduler while we only observe, by outcome; also the next two."""
    observed_pods: Mapping[str, float] = field(
        default_factory=lambda: dict.fromkeys(("same_node", "other_node", "not_placed"), 0)
    )
    observed_order: Mapping[str, float] = field(
        default_factory=lambda: dict.fromkeys(("same_order", "other_order"), 0)
    )
    domains: Spreads = field(default_factory=dict)
    """Starts of gangs with a topology constraint, by the domains that they use."""
    shares: Sequence[QueueShare] = ()
    capacity: Mapping[str, int] = field(default_factory=dict)
    """Divided amounts by resource in base units."""
    usage: Usage | None = None
    """Usage history in the last cycle, with the names of its axes."""
    usage_resources: tuple[str, ...] = ()
    usage_queues: tuple[str, ...] = ()
    usage_server: bool | None = None
    """Whether the server of usage history answers; None without one, or before it is known."""

    def starting(self, actions: Iterable[str], plugins: Iterable[str]) -> Published:
        """Return the state with a zero for each counter, for a rate to rise from."""
        return replace(
            self,
            evictions=dict.fromkeys(actions, 0),
            plugin_failures=dict.fromkeys(plugins, 0),
        )

    def with_history(
        self,
        resources: tuple[str, ...],
        queues: tuple[str, ...],
        total: Amounts,
        usage: Usage | None,
        *,
        server: bool | None = None,
    ) -> Published:
        """Return the state with the divided amounts ``(R,)`` and usage history of a cycle."""
        return replace(
            self,
            capacity=dict(zip(resources, total.tolist(), strict=True)),
            usage=usage,
            usage_resources=resources,
            usage_queues=queues,
            usage_server=server,
        )

    def with_starts(self, snapshot: Snapshot, result: CycleResult) -> Published:
        """Return the state with the domains that the gangs use which a cycle starts."""
        return replace(self, domains=with_starts(self.domains, snapshot, result))

    def after(
        self,
        result: CycleResult,
        duration_s: float,
        now_s: float,
        plugin_s: Mapping[str, float],
    ) -> Published:
        """Return the state after a cycle with a result."""
        timed = self._timed(duration_s, now_s, ABANDONED if result.stats.abandoned else COMPLETED)
        shares = without_session(result.shares)
        return replace(
            timed,
            pending=result.records.counts(),
            put_off=result.put_off,
            binds=self.binds + len(result.binds),
            nominations=self.nominations + len(result.nominations),
            evictions=_sum(self.evictions, _count(evict.action for evict in result.evictions)),
            queue_evictions=self._pairs(result.evictions, shares),
            plugin_s=_sum(self.plugin_s, plugin_s),
            plugin_failures=_sum(
                self.plugin_failures, _count(failure.plugin for failure in result.failures)
            ),
            shares=shares,
        )

    def _pairs(self, evictions: Sequence[Evict], shares: Sequence[QueueShare]) -> Pairs:
        """Return the evictions by queues and reason, with those of one more cycle.

        Those of queues that are gone are forgotten, as their other metrics are.
        """
        counts = self.queue_evictions
        if counts and len(shares) and _queues_of(shares) is not _queues_of(self.shares):
            known = {share.name for share in shares} | {"", OTHER}
            counts = {it: count for it, count in counts.items() if {it[0], it[1]} <= known}
        return _with_pairs(counts, evictions)

    def after_failure(self, duration_s: float, now_s: float) -> Published:
        """Return the state after a cycle that raised."""
        return self._timed(duration_s, now_s, FAILED)

    def _timed(self, duration_s: float, now_s: float, outcome: str) -> Published:
        bucket = bisect_left(BUCKETS_S, duration_s)
        durations = list(self.durations)
        durations[bucket] += 1
        return replace(
            self,
            cycles=_sum(self.cycles, {outcome: 1}),
            durations=tuple(durations),
            duration_sum_s=self.duration_sum_s + duration_s,
            last_cycle_s=now_s,
        )


def _queues_of(shares: Sequence[QueueShare]) -> object:
    """Return what is the same object for as long as no queue changes."""
    return shares.queues if isinstance(shares, ShareTable) else shares


def _with_pairs(known: Pairs, evictions: Sequence[Evict]) -> Pairs:
    """Return counts with those of evictions."""
    if not evictions:
        return known
    counts = dict(known)
    for each in evictions:
        pair = each.queue, each.beneficiary_queue, each.kind
        if pair not in counts and len(counts) >= PAIR_CAP:
            pair = OTHER, OTHER, each.kind
        counts[pair] = counts.get(pair, 0) + 1
    return counts


def _count(names: Iterable[str]) -> dict[str, float]:
    return dict(Counter(names))
