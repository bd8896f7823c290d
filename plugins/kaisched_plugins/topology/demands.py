"""The trees of domains of topologies, and the constraints of jobs resolved against them.

Rules D1 and D2 of docs/explanation/topology.md.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

import numpy as np

from kaisched import (
    ACTIVE_STATES,
    BoolVec,
    IntVec,
    NodeSet,
    NodeStatics,
    RowVec,
    Session,
    SubGroup,
    TaskState,
    TopologyConstraint,
    TopologyLevel,
    domain_paths,
    level_of,
    levels_of,
    topology_of,
    unique_names,
)
from kaisched_plugins.topology import refusals

# The tree of domains of one topology over the nodes of a shard (D1, D2).


_TREES = "topology.trees"
_MOST_KEPT = 64


class Kept(NamedTuple):
    """A tree, with the nodes of which it was made."""

    statics: NodeStatics
    tree: Tree


class Tree:
    """Domains by level, numbered so that those below one domain are next to each other."""

    def __init__(
        self, levels: Sequence[TopologyLevel], labels: Sequence[Mapping[str, str]]
    ) -> None:
        """Read the labels of the nodes; a node takes part if it has all of them."""
        self.levels = tuple(levels)
        paths = domain_paths(levels, labels)
        self.domain_of_node: list[RowVec] = []
        """By level, ``(N,)``; -1 for a node that does not take part."""
        self.parent: list[RowVec] = []
        """By level, ``(D,)`` the domain of the level above; -1 at the outermost level."""
        self._names: list[list[str]] = []
        self._masks: dict[tuple[int, int], BoolVec] = {}
        self.sets: dict[tuple[int, int, bool, bool], NodeSet] = {}
        """Domains as sets of nodes without an order, by what else tells them apart."""
        above: dict[tuple[str, ...], int] = {}
        for depth in range(1, len(levels) + 1):
            known = sorted({path[:depth] for path in paths if path is not None})
            number = {path: at for at, path in enumerate(known)}
            of_node = [-1 if path is None else number[path[:depth]] for path in paths]
            self.domain_of_node.append(np.array(of_node, np.int64))
            self.parent.append(np.array([above.get(path[:-1], -1) for path in known], np.int64))
            self._names.append(unique_names(known))
            above = number
        lowest = self.domain_of_node[-1]
        self._members = np.argsort(lowest, kind="stable")[np.count_nonzero(lowest < 0) :]
        """The nodes that take part, domain by domain."""
        self._starts = [np.flatnonzero(np.diff(lowest[self._members], prepend=-1))]
        """By level from the lowest, where the parts of each domain begin."""
        for parents in self.parent[:0:-1]:
            self._starts.append(np.flatnonzero(np.diff(parents, prepend=-1)))

    @property
    def is_member(self) -> BoolVec:
        """``(N,)`` the nodes that take part."""
        members: BoolVec = self.domain_of_node[0] >= 0
        return members

    def level(self, name: str) -> int:
        """Return the number of a level by its label or alias, -1 for none."""
        return level_of(self.levels, name)

    def word(self, level: int) -> str:
        """Return the name of a level for people."""
        return self.levels[level].alias or self.levels[level].label

    def name(self, level: int, domain: int) -> str:
        """Return the name of a domain for people, with those above it where it is not unique."""
        return f"{self.word(level)} {self._names[level][domain]}"

    def around(self, chosen: BoolVec) -> str:
        """Return the name of the smallest domain around some of the last level."""
        domains = chosen.nonzero()[0]
        for level in range(len(self.levels) - 1, -1, -1):
            if domains.size == 1:
                return self.name(level, int(domains[0]))
            domains = np.unique(self.parent[level][domains])
        return "all labelled nodes"

    def sums(self, each: IntVec) -> list[IntVec]:
        """Return, by level, the sums ``(D,)`` of a column of the nodes."""
        found: list[IntVec] = []
        parts = each[self._members]
        for starts in self._starts:
            parts = np.add.reduceat(parts, starts) if starts.size else parts[:0]
            found.append(parts)
        return found[::-1]

    def folded(self, level: int, parts: IntVec, fold: np.ufunc) -> IntVec:
        """``(D,)`` fold a column of the level below, or of the nodes at the last level."""
        depth = len(self.levels) - 1 - level
        values = parts if depth else parts[self._members]
        starts = self._starts[depth]
        return fold.reduceat(values, starts) if starts.size else values[:0]

    def mask(self, level: int, domain: int) -> BoolVec:
        """``(N,)`` the nodes of a domain; always the same array."""
        key = level, domain
        if key not in self._masks:
            self._masks[key] = self.domain_of_node[level] == domain
            self._masks[key].setflags(write=False)
        return self._masks[key]

    def below(self, level: int, domain: int, lower: int) -> RowVec:
        """Return the domains of a lower level inside a domain; of the whole tree with level -1."""
        inside = np.arange(len(self.parent[lower]))
        above = inside
        for at in range(lower, level, -1):
            above = self.parent[at][above]
        return inside if level < 0 else inside[above == domain]


def tree_of(session: Session, levels: tuple[TopologyLevel, ...]) -> Tree:
    """Return the tree of some levels, kept while no label changes."""
    trees: dict[tuple[TopologyLevel, ...], Kept] = session.hints.setdefault(_TREES, {})
    kept, statics = trees.get(levels), session.nodes.statics
    if kept is None or kept.statics is not statics:
        if len(trees) >= _MOST_KEPT:
            trees.clear()  # any pod may name a label of which a tree is made up
        kept = trees[levels] = Kept(statics, Tree(levels, statics.labels))
    return kept.tree


# The constraints of jobs and subgroups, resolved against the topologies that there are.


_ASKING = "topology.constraints"
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
    known: Asking | None = session.hints.get(_ASKING)
    if known is None or known.structure is not structure:
        roots = [root for root in structure.values() if root.topology is not None]
        below = any(root.topology.is_pod_set for root in roots if root.topology is not None)
        below = below or any(is_divided(root) for root in structure.values())
        known = session.hints[_ASKING] = Asking(structure, below or bool(roots), below)
    return known


def is_divided(group: SubGroup) -> bool:
    """Tell whether a subgroup below a group has a constraint of its own."""
    return any(each.topology is not None for each in group.groups() if each is not group)


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
    return tasks[np.isin(podset, group.podsets)]


def leader_of(podset_of_task: RowVec, rows: RowVec, group: SubGroup) -> int | None:
    """Return the row of the only pod of one of the two pod sets of a group, None without any."""
    if len(group.children) != _PAIR or group.topology is None or not group.topology.is_pod_set:
        return None
    podset = podset_of_task[rows]
    parts = [rows[np.isin(podset, it.podsets)] for it in group.children]
    single = min(parts, key=len)
    return int(single[0]) if len(single) == 1 else None


def without_leader(podset_of_task: RowVec, rows: RowVec, group: SubGroup) -> RowVec:
    """Return the pods of a group without the one that leads."""
    leader = leader_of(podset_of_task, rows, group)
    return rows if leader is None else rows[rows != leader]


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
