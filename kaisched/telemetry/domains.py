"""Histograms of how many domains of each level gangs use that start.

Only labels of nodes that got a pod are read, and only while a job with a topology constraint
starts: a cluster without any pays nothing.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

import numpy as np

from kaisched.core.constraints import domain_paths, topology_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kaisched.core.snapshot import Snapshot
    from kaisched.core.tables import SubGroup, TopologyConstraint, TopologyLevel
    from kaisched.framework.report.records import CycleResult

BOUNDS: Final = (1, 2, 3, 4, 6, 8, 12, 16, 32, 64)
"""Upper bounds: exact where it matters whether a domain more was needed."""


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
        sums = np.cumsum(self.counts).tolist()
        words = [*(str(float(bound)) for bound in BOUNDS), "+Inf"]
        return [(word, float(count)) for word, count in zip(words, sums, strict=True)]


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
