"""Counts how far apart the pods of jobs are placed: domains used, and pairs across each level."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from kaisched.core.axis import RowVec
from kaisched.core.constraints import domains_at
from kaisched.core.tables import TopologyLevel


@dataclass(frozen=True, slots=True)
class LevelOutcome:
    """How the jobs of several pods that started are spread over the domains of one level."""

    level: str
    starts: int
    """Of jobs with several pods."""
    in_one_domain: int
    """Starts with all pods in one domain."""
    domains: float
    """Mean of the domains that a start uses."""
    pairs: int
    """Pairs of pods of one job, over all starts."""
    crossing_pairs: int
    """Of these, pairs in two domains."""

    @property
    def crossing(self) -> float:
        """The part of the pairs that is in two domains."""
        return self.crossing_pairs / self.pairs if self.pairs else 0.0

    @property
    def together(self) -> float:
        """The part of the starts that is in one domain."""
        return self.in_one_domain / self.starts if self.starts else 0.0


class Crossings:
    """Sums over the starts of jobs, level by level."""

    def __init__(
        self, levels: Sequence[TopologyLevel], labels: Sequence[Mapping[str, str]]
    ) -> None:
        """Take the levels of a topology, outermost first, and the labels of the nodes by row."""
        self._domains = [domains_at(levels, at, labels) for at in range(len(levels))]
        self._starts = self._pairs = 0
        self._in_one = [0] * len(levels)
        self._used = [0] * len(levels)
        self._crossing = [0] * len(levels)

    def start(self, jobs: Sequence[int], nodes: RowVec) -> None:
        """Count the jobs that start: the job and the node of each of their pods."""
        if not self._domains:
            return
        job = np.array(jobs)
        order = np.argsort(job, kind="stable")
        for part in np.split(nodes[order], np.flatnonzero(np.diff(job[order])) + 1):
            if len(part) > 1:  # one pod makes no pair
                self._start(part)

    def _start(self, nodes: RowVec) -> None:
        pods = len(nodes)
        self._starts += 1
        self._pairs += pods * (pods - 1) // 2
        for at, domains in enumerate(self._domains):
            _, counts = np.unique(domains.of_node[nodes], return_counts=True)
            self._used[at] += len(counts)
            self._in_one[at] += len(counts) == 1
            self._crossing[at] += (pods * pods - int((counts * counts).sum())) // 2

    def outcome(self) -> tuple[LevelOutcome, ...]:
        """Return the sums of each level; none without a topology."""
        return tuple(
            LevelOutcome(
                domains.word,
                self._starts,
                self._in_one[at],
                self._used[at] / self._starts if self._starts else 0.0,
                self._pairs,
                self._crossing[at],
            )
            for at, domains in enumerate(self._domains)
        )
