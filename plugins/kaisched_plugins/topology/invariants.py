"""What holds after each cycle: pods under a required level stay in one of its domains."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeAlias

import numpy as np

from kaisched import (
    ACTIVE_STATES,
    BoolVec,
    Moves,
    RowVec,
    SubGroup,
    TopologyLevel,
    levels_of,
    topology_of,
)
from kaisched_plugins.topology.demands import Tree, without_leader

Trees: TypeAlias = dict[tuple[TopologyLevel, ...], Tree]


def broken(moves: Moves) -> Iterator[str]:
    """Yield a line for each group that a cycle has placed in a domain where it has no pods."""
    structure = moves.snapshot.jobs.structure
    bound = [
        (job, group)
        for job, root in structure.items()
        for group in root.groups()
        if group.topology is not None and group.topology.is_condition
    ]
    if not bound:
        return
    before, after = _nodes(moves)
    trees: Trees = {}
    for job, group in bound:
        yield from _broken(moves, trees, job, group, before, after)


def _nodes(moves: Moves) -> tuple[RowVec, RowVec]:
    """``(T,)`` the node of each pod before and after the cycle, promises included; -1 for none."""
    result, tasks = moves.result, moves.snapshot.tasks
    before = np.where(ACTIVE_STATES[tasks.state], tasks.node_of_task, -1)
    after = before.copy()
    after[result.evict_tasks] = -1
    after[result.bind_tasks] = result.bind_nodes
    after[result.nominate_tasks] = result.nominate_nodes
    return before, after


def _broken(
    moves: Moves,
    trees: Trees,
    job: int,
    group: SubGroup,
    before: RowVec,
    after: RowVec,
) -> Iterator[str]:
    snapshot, wish = moves.snapshot, group.topology
    tasks = np.array(snapshot.jobs.tasks[job], np.int64)
    tasks = tasks[np.isin(snapshot.tasks.podset_of_task[tasks], group.podsets)]
    fresh: BoolVec = (after[tasks] >= 0) & (after[tasks] != before[tasks])
    if wish is None or not fresh.any():
        return
    name = f"topology {snapshot.jobs.name[job]}{f', {group.name}' if group.name else ''}"
    levels = levels_of(snapshot.nodes.topologies, wish)
    tree = trees.get(levels)
    if levels and tree is None:
        tree = trees[levels] = Tree(levels, snapshot.nodes.labels)
    asked = [level for level in (wish.required, *dict(wish.slices)) if level]
    missing = [level for level in asked if tree is None or tree.level(level) < 0]
    if tree is None or missing:
        yield f"{name}: placed although level {missing[0]} of {wish.topology} does not exist"
        return
    if (tree.domain_of_node[-1][after[tasks[fresh]]] < 0).any():
        topology = topology_of(snapshot.nodes.topologies, wish)
        yield f"{name}: placed on a node without all labels of {topology or wish.required}"
        return
    if wish.required:
        domain = tree.domain_of_node[tree.level(wish.required)]
        placed = set(domain[after[tasks[fresh]]].tolist())
        old = tasks[~fresh & (after[tasks] >= 0)]
        held = set(domain[after[old]].tolist()) - {-1}
        if held:  # those that held the job in a domain may have been evicted after others came
            held |= set(domain[before[tasks[before[tasks] >= 0]]].tolist()) - {-1}
        if (held and not placed <= held) or (not held and len(placed) > 1):
            yield f"{name}: placed outside of one domain of {wish.required}"
    workers = without_leader(snapshot.tasks.podset_of_task, tasks, group)
    for level, size in wish.slices:
        domain = tree.domain_of_node[tree.level(level)]
        if _incomplete(domain, after[workers], size) > max(
            1, _incomplete(domain, before[workers], size)
        ):
            yield f"{name}: placed in parts of slices of {size} pods at {level}"


def _incomplete(domain: RowVec, nodes: RowVec, size: int) -> int:
    """Return how many domains hold a part of a slice beside whole ones."""
    held = domain[nodes[nodes >= 0]]
    return int(np.count_nonzero(np.bincount(held[held >= 0], minlength=1) % size))
