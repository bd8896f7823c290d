"""The constraints of jobs and subgroups, resolved against the topologies that there are."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

import numpy as np

from kaisched import ACTIVE_STATES, RowVec, Session, SubGroup, TaskState, TopologyConstraint
from kaisched_plugins.topology import refusals
from kaisched_plugins.topology.domains import Tree, tree_of

_HINT = "topology.constraints"
_PENDING = int(TaskState.PENDING)


class Demand(NamedTuple):
    """A constraint whose names exist; levels are numbers, -1 for none."""

    constraint: TopologyConstraint
    tree: Tree
    required: int
    preferred: int


class Asking(NamedTuple):
    """Who asks for anything, by the tree of subgroups that it was read from."""

    structure: Mapping[int, SubGroup]
    is_any: bool
    is_below: bool
    """Whether a subgroup asks for something of its own."""


def asking(session: Session) -> Asking:
    """Tell whether any job has a constraint; kept while no job's subgroups change."""
    structure = session.jobs.structure
    known: Asking | None = session.hints.get(_HINT)
    if known is None or known.structure is not structure:
        below = any(_is_below(root) for root in structure.values())
        is_any = below or any(root.topology is not None for root in structure.values())
        known = session.hints[_HINT] = Asking(structure, is_any, below)
    return known


def _is_below(group: SubGroup) -> bool:
    return any(child.topology is not None or _is_below(child) for child in group.children)


def demand_of(session: Session, constraint: TopologyConstraint) -> Demand | int | None:
    """Return a constraint with its tree, the refusal of a required one, or None for no effect."""
    tree = tree_of(session, constraint.topology)
    if tree is None:
        return refusals.NO_TOPOLOGY if constraint.required else None
    required, preferred = tree.level(constraint.required), tree.level(constraint.preferred)
    if constraint.required and required < 0:
        return refusals.NO_LEVEL
    if required < 0 and preferred < 0:
        return None
    return Demand(constraint, tree, required, max(preferred, required))


def pods_of(session: Session, job: int, group: SubGroup) -> RowVec:
    """Return the pods of a subgroup, or of the whole job at its root."""
    tasks = np.array(session.jobs.tasks[job], np.int64)
    if group is session.jobs.structure.get(job):
        return tasks
    podset = session.tasks.podset_of_task[tasks]
    return tasks[np.isin(podset, list(podsets_of(group)))]


def podsets_of(group: SubGroup) -> Iterator[int]:
    """Yield the pod sets of a group."""
    if group.podset >= 0:
        yield group.podset
    for child in group.children:
        yield from podsets_of(child)


def nodes_held(session: Session, tasks: RowVec) -> RowVec:
    """Return the nodes on which pods run, or are to run after moves of this cycle."""
    state, node = session.state_now[tasks], session.node_of_task_now[tasks]
    held: RowVec = np.unique(node[ACTIVE_STATES[state] & (node >= 0)])
    return held


def nodes_promised(session: Session, tasks: RowVec) -> RowVec:
    """Return the nodes that earlier cycles promised to pods that still wait."""
    node = session.tasks.nominated_node[tasks]
    promised: RowVec = np.unique(node[(session.state_now[tasks] == _PENDING) & (node >= 0)])
    return promised
