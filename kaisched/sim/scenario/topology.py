"""Topology of a scenario: labels its nodes in order, and reads which levels jobs ask for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

from kaisched.cluster.nodes import NodeRow
from kaisched.core.tables import TopologyConstraint, TopologyLevel
from kaisched.sim.cluster import TOPOLOGY
from kaisched.sim.scenario.document import JobGroup, LevelLine
from kaisched.sim.scenario.findings import Findings
from kaisched.sim.scenario.nodes import Span

_MOST_LEVELS = 16


def levels_of(lines: Sequence[LevelLine], found: Findings) -> tuple[TopologyLevel, ...]:
    """Return the levels, outermost first; each domain is a part of one of the level above."""
    if len(lines) > _MOST_LEVELS:
        fix = f"a Topology has at most {_MOST_LEVELS} levels"
        found.add("there are too many levels", "topology", value=len(lines), fix=fix)
    names = [line.level for line in lines]
    for at, line in enumerate(lines):
        found.number(line.nodes, "topology", at, "nodes", least=1)
        if not line.level or line.level in names[:at]:
            fix = "give each level a name of its own"
            found.add("is no new name", "topology", at, "level", value=line.level, fix=fix)
    for at, (outer, inner) in enumerate(pairwise(lines), 1):
        if inner.nodes > 0 and outer.nodes % inner.nodes:
            fix = f"write a divisor of {outer.nodes}, the nodes of a domain of {outer.level}"
            found.add("does not divide", "topology", at, "nodes", value=inner.nodes, fix=fix)
    return tuple(TopologyLevel(name) for name in names)


def labelled(
    nodes: Sequence[tuple[NodeRow, list[Span]]], lines: Sequence[LevelLine]
) -> list[tuple[NodeRow, list[Span]]]:
    """Return the nodes with a label for each level: neighbours in the file are neighbours."""
    if not lines:
        return list(nodes)
    width = len(str(max(len(nodes) - 1, 0)))
    return [
        (
            replace(
                row,
                labels={
                    **row.labels,
                    **{it.level: f"{it.level}-{at // it.nodes:0{width}d}" for it in lines},
                },
            ),
            spans,
        )
        for at, (row, spans) in enumerate(nodes)
    ]


def wish_of(
    group: JobGroup, levels: Sequence[str], found: Findings, at: int
) -> TopologyConstraint | None:
    """Return what a group of jobs asks for, if anything."""
    asked = {"requiredLevel": group.required_level, "preferredLevel": group.preferred_level}
    for key, level in asked.items():
        if level:
            found.known(level, list(levels), "level of the topology", "jobs", at, key)
    patience_s = 0.0
    if group.patience is not None:
        patience_s = found.seconds(group.patience, "jobs", at, "patience")
        if not group.preferred_level:
            fix = "give the preferredLevel for which the jobs wait"
            found.add("needs a level", "jobs", at, "patience", value=group.patience, fix=fix)
    if not any(asked.values()):
        return None
    wish = TopologyConstraint(TOPOLOGY, group.required_level, group.preferred_level)
    return wish._replace(patience_s=patience_s)
