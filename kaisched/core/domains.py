"""Domains of a topology: nodes with equal labels at one of its levels, and at those above it."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from kaisched.core.tables import TopologyLevel

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kaisched.core.axis import IntVec, RowVec
    from kaisched.core.tables import TopologyConstraint


def domain_paths(
    levels: Sequence[TopologyLevel], labels: Sequence[Mapping[str, str]]
) -> list[tuple[str, ...] | None]:
    """Return the values of all labels of a topology for each node; None if it lacks one."""
    keys = [level.label for level in levels]
    return [
        tuple(each[key] for key in keys) if all(key in each for key in keys) else None
        for each in labels
    ]


def topology_of(
    topologies: Mapping[str, Sequence[TopologyLevel]], constraint: TopologyConstraint
) -> str:
    """Return which of some topologies a constraint is about, empty for none."""
    if constraint.topology or not (constraint.is_pod_set or constraint.is_label):
        return constraint.topology
    wanted = {constraint.required, constraint.preferred, *dict(constraint.slices)} - {""}
    for name, levels in sorted(topologies.items()):
        aliases = () if constraint.is_label else (level.alias for level in levels)
        if wanted <= {level.label for level in levels}.union(aliases):
            return name
    return ""


def levels_of(
    topologies: Mapping[str, tuple[TopologyLevel, ...]], constraint: TopologyConstraint
) -> tuple[TopologyLevel, ...]:
    """Return the levels of the topology that a constraint is about, none if there is no such one.

    A label of nodes that no topology has is a topology of one level: equal values are one domain.
    """
    levels = topologies.get(topology_of(topologies, constraint), ())
    return levels or ((TopologyLevel(constraint.required),) if constraint.is_label else ())


def level_of(levels: Sequence[TopologyLevel], name: str) -> int:
    """Return the number of the level with a label or alias, -1 for none."""
    found = [at for at, level in enumerate(levels) if name in (level.label, level.alias)]
    return found[0] if name and found else -1


class Domains(NamedTuple):
    """The domains of one level, in the order of their values."""

    word: str
    """The name of the level for people."""
    names: list[str]
    """Values, with those of the levels above where the last one occurs more than once."""
    of_node: RowVec
    """``(N,)``; -1 for a node that lacks a label of the topology."""

    def sums(self, each: IntVec) -> IntVec:
        """``(D,)`` the sums of a column of the nodes."""
        inside = self.of_node >= 0
        found = np.zeros(len(self.names), np.int64)
        np.add.at(found, self.of_node[inside], each[inside])
        return found


def domains_at(
    levels: Sequence[TopologyLevel], level: int, labels: Sequence[Mapping[str, str]]
) -> Domains:
    """Return the domains of one level."""
    paths = [None if it is None else it[: level + 1] for it in domain_paths(levels, labels)]
    known = sorted({path for path in paths if path is not None})
    number = {path: at for at, path in enumerate(known)}
    of_node = np.array([-1 if path is None else number[path] for path in paths], np.int64)
    return Domains(levels[level].alias or levels[level].label, unique_names(known), of_node)


def unique_names(paths: Sequence[tuple[str, ...]]) -> list[str]:
    """Return the last value of each path, or all of them where that is not unique."""
    often = Counter(path[-1] for path in paths)
    return [path[-1] if often[path[-1]] == 1 else "/".join(path) for path in paths]
