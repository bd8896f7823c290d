"""The constraints of jobs and subgroups, resolved against the topologies that there are."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

import numpy as np

from kaisched import (
    ACTIVE_STATES,
    RowVec,
    Session,
    SubGroup,
    TaskState,
    TopologyConstraint,
    levels_of,
    topology_of,
)
from kaisched_plugins.topology import refusals
from kaisched_plugins.topology.domains import Tree, tree_of

_HINT = "topology.constraints"
_PENDING = int(TaskState.PENDING)
_PAIR = 2
_NONE: Final = np.empty(0, np.int64)


class Demand(NamedTuple):
    """A constraint whose names exist; levels are numbers, -1 for none."""

    constraint: TopologyConstraint
    tree: Tree
    required: int
    preferred: int
    layers: tuple[tuple[int, int], ...] = ()
    """(level, pods) of slices, outermost first."""


class Pins(NamedTuple):
    """The nodes that bind a choice."""

    held: RowVec
    """Where pods run under the same constraint, pod by pod."""
    promised: RowVec
    """Nodes that earlier cycles promised to pods that still wait, pod by pod."""


class Asking(NamedTuple):
    """Who asks for anything, by the tree of subgroups that it was read from."""

    structure: Mapping[int, SubGroup]
    is_any: bool
    is_below: bool
    """Whether a subgroup asks for something of its own, or a job for something while placed."""


def asking(session: Session) -> Asking:
    """Tell whether any job has a constraint; kept while no job's subgroups change."""
    structure = session.jobs.structure
    known: Asking | None = session.hints.get(_HINT)
    if known is None or known.structure is not structure:
        roots = [root for root in structure.values() if root.topology is not None]
        below = any(root.topology.is_pod_set for root in roots if root.topology is not None)
        below = below or any(is_divided(root) for root in structure.values())
        known = session.hints[_HINT] = Asking(structure, below or bool(roots), below)
    return known


def is_divided(group: SubGroup) -> bool:
    """Tell whether a subgroup below a group has a constraint of its own."""
    return any(child.topology is not None or is_divided(child) for child in group.children)


def demand_of(session: Session, constraint: TopologyConstraint) -> Demand | int | None:
    """Return a constraint with its tree, the refusal of a required one, or None for no effect."""
    found = levels_of(session.nodes.topologies, constraint)
    if not found:
        if constraint.is_pod_set:
            return refusals.NO_LEVEL if constraint.is_condition else None
        return refusals.NO_TOPOLOGY if constraint.required else None
    tree = tree_of(session, found)
    required, preferred = tree.level(constraint.required), tree.level(constraint.preferred)
    layers = tuple((tree.level(level), pods) for level, pods in constraint.slices)
    levels = [level for level, _ in layers]
    if (constraint.required and required < 0) or -1 in levels:
        return refusals.NO_LEVEL
    if levels != sorted(set(levels)) or (levels and levels[0] < max(required, preferred)):
        return refusals.WRONG_SLICES
    if required < 0 and preferred < 0 and not constraint.is_pod_set:
        return None
    return Demand(constraint, tree, required, max(preferred, required), layers)


def name_of(session: Session, constraint: TopologyConstraint) -> str:
    """Return the topology of a constraint: that it names, or the first with all its levels."""
    return topology_of(session.nodes.topologies, constraint)


def pods_of(session: Session, job: int, group: SubGroup) -> RowVec:
    """Return the pods of a subgroup, or of the whole job at its root."""
    tasks = np.array(session.jobs.tasks[job], np.int64)
    if group is session.jobs.structure.get(job):
        return tasks
    podset = session.tasks.podset_of_task[tasks]
    return tasks[np.isin(podset, list(podsets_of(group)))]


def leader_of(podset_of_task: RowVec, rows: RowVec, group: SubGroup) -> int | None:
    """Return the row of the only pod of one of the two pod sets of a group, None without any."""
    if len(group.children) != _PAIR or group.topology is None or not group.topology.is_pod_set:
        return None
    podset = podset_of_task[rows]
    parts = [rows[np.isin(podset, list(podsets_of(it)))] for it in group.children]
    single = min(parts, key=len)
    return int(single[0]) if len(single) == 1 else None


def without_leader(podset_of_task: RowVec, rows: RowVec, group: SubGroup) -> RowVec:
    """Return the pods of a group without the one that leads."""
    leader = leader_of(podset_of_task, rows, group)
    return rows if leader is None else rows[rows != leader]


def podsets_of(group: SubGroup) -> Iterator[int]:
    """Yield the pod sets of a group."""
    if group.podset >= 0:
        yield group.podset
    for child in group.children:
        yield from podsets_of(child)


def pins_of(session: Session, tasks: RowVec) -> Pins:
    """Return where pods run, or are to run after moves of this cycle, and what was promised."""
    state, promised = session.state_now[tasks], session.tasks.nominated_node[tasks]
    waits = state == _PENDING
    held = _NONE
    if not waits.all():
        node = session.node_of_task_now[tasks]
        held = np.sort(node[ACTIVE_STATES[state] & (node >= 0)])
    there = waits & (promised >= 0)
    return Pins(held, np.sort(promised[there]) if there.any() else _NONE)
