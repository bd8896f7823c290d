"""What holds after each cycle in which fair-sharing has a say: room, limits, and who gives way.

F3 and F4: no queue grows beyond its room, its limit, or strictly beyond its quota. F11: nobody
takes from another tree, from a queue that borrows nothing, or against the policy of its queue.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from kaisched import (
    ALLOCATED_STATES,
    UNLIMITED,
    Amounts,
    BoolVec,
    Moves,
    RowVec,
    charges,
    format_amount,
    roll_up,
)
from kaisched_plugins.fair_sharing.flavors import NodeMap
from kaisched_plugins.fair_sharing.quotas import Holdings
from kaisched_plugins.fair_sharing.tables import Table
from kaisched_plugins.fair_sharing.work import LOWER, NEVER, Work, may_take

_TAKING = frozenset({"reclaim", "preempt"})


def broken(moves: Moves, table: Table, high_from: int | None) -> Iterator[str]:
    """Yield a line for each rule that the result breaks."""
    yield from _rooms(moves, table)
    yield from _limits(moves)
    yield from _takers(moves, table, high_from)


def _leaves(moves: Moves, table: Table) -> tuple[Amounts, Amounts]:
    """Return what leaf queues hold before and after the cycle, by row of the quotas."""
    snapshot = moves.snapshot
    if table.flavors is None:
        after = snapshot.allocated + moves.change()
        return snapshot.allocated[table.rows], after[table.rows]
    result, tasks = moves.result, snapshot.tasks
    before = tasks.node_of_task.copy()
    before[~(ALLOCATED_STATES[tasks.state] & (tasks.job_of_task >= 0))] = -1
    now = before.copy()
    now[result.evict_tasks] = -1
    now[result.bind_tasks] = result.bind_nodes
    now[result.nominate_tasks] = result.nominate_nodes
    return _held(moves, table, before), _held(moves, table, now)


def _most(moves: Moves, table: Table) -> Amounts:
    """Return what leaf queues would hold if nothing had gone, by row of the quotas."""
    if table.flavors is None:
        return (moves.snapshot.allocated + moves.by_queue(moves.placed))[table.rows]
    before, _ = _leaves(moves, table)
    node = np.full(len(moves.snapshot.tasks.node_of_task), -1)
    node[moves.result.bind_tasks] = moves.result.bind_nodes
    node[moves.result.nominate_tasks] = moves.result.nominate_nodes
    return before + _held(moves, table, node)


def _held(moves: Moves, table: Table, node_of_task: RowVec) -> Amounts:
    """``(F, Q)`` what leaf queues hold if their tasks are on these nodes, -1 for none."""
    snapshot = moves.snapshot
    assert table.flavors is not None  # else nodes say nothing
    nodes = NodeMap(table.flavors, table.plain, len(snapshot.axis), snapshot.nodes.statics)
    held = np.zeros((len(table.rows), len(snapshot.queues)), np.int64)
    job = snapshot.tasks.job_of_task
    queue = np.where(job >= 0, snapshot.jobs.queue_of_job[job], -1)
    queue = np.where(queue >= 0, table.home[queue], -1)
    rows = np.flatnonzero((node_of_task >= 0) & (queue >= 0))
    charge = charges(snapshot, rows, node_of_task[rows])
    nodes.count(held, queue[rows], queue[rows], node_of_task[rows], charge)
    return held


def _rooms(moves: Moves, table: Table) -> Iterator[str]:
    """F3: what grew is within its room at every level."""
    snapshot, quotas = moves.snapshot, table.quotas
    before, after = (Holdings(quotas, leaves) for leaves in _leaves(moves, table))
    cap = quotas.rows.cap
    for queue, used in enumerate(after.used):
        for at, amount in enumerate(used):
            if amount > before.used[queue][at] and amount > cap[queue][at]:
                name = snapshot.axis.names[int(table.rows[at])]
                yield (
                    f"F3 queue {snapshot.queues.name[queue]} grows to {table.name(at, snapshot)}"
                    f" {format_amount(name, amount)}, its room is"
                    f" {format_amount(name, cap[queue][at])}"
                )


def _limits(moves: Moves) -> Iterator[str]:
    """F4: what grew is within its limit."""
    snapshot = moves.snapshot
    queues = snapshot.queues
    change = moves.change()
    for more, has in ((change, snapshot.allocated + change), moves.bound_beside()):
        growth, after = (roll_up(each, queues.tree) for each in (more, has))
        over = (growth > 0) & (queues.limit < UNLIMITED) & (after > queues.limit)
        for resource, row in np.argwhere(over).tolist():
            name = snapshot.axis.names[resource]
            yield (
                f"F4 queue {queues.name[row]} grows to {name}"
                f" {format_amount(name, int(after[resource, row]))}, over its limit"
            )


def _takers(moves: Moves, table: Table, high_from: int | None) -> Iterator[str]:
    """F11: who takes may, and is in the same tree."""
    snapshot = moves.snapshot
    jobs, sharing = snapshot.jobs, snapshot.queues.sharing
    wanted = {each.beneficiary for each in moves.result.evictions if each.action in _TAKING}
    row_of = {name: row for row, name in enumerate(jobs.name) if name in wanted}
    moved = set(moves.moved.tolist())
    most = table.by_home(_most(moves, table))
    has_borrowed: BoolVec = np.logical_or.reduce(most > table.quotas.subtree, axis=0)
    for each in moves.result.evictions:
        taker = row_of.get(each.beneficiary)
        if each.action not in _TAKING or taker is None or each.task in moved:
            continue
        giver = int(snapshot.tasks.job_of_task[each.task])
        mine, theirs = table.home[jobs.queue_of_job[[taker, giver]]].tolist()
        said = sharing[mine]
        policy = said.within if mine == theirs else said.across
        if high_from is not None and jobs.priority[taker] >= high_from and mine != theirs:
            policy = NEVER if policy == NEVER else LOWER
        work = Work(taker, mine, (), int(jobs.priority[taker]), float(jobs.created_s[taker]))
        if table.root[mine] != table.root[theirs]:
            yield f"F11 pod {each.pod} gives way to another tree"
        elif not may_take(policy, work, jobs.priority[[giver]], jobs.created_s[[giver]])[0]:
            yield f"F11 pod {each.pod} gives way against the policy {policy} of its taker's queue"
        elif mine != theirs and not has_borrowed[theirs]:
            yield f"F11 pod {each.pod} gives way to another queue, but its queue borrowed nothing"
