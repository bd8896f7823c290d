"""What holds after each cycle in which fair-sharing has a say: room, limits, and who gives way.

F3 and F4: no queue grows beyond its room, its limit, or strictly beyond its quota. F11: nobody
takes from another tree, from a queue that borrows nothing, or against the policy of its queue.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from kaisched import UNLIMITED, Amounts, BoolVec, Moves, format_amount, roll_up
from kaisched_plugins.fair_sharing.holdings import Holdings
from kaisched_plugins.fair_sharing.tables import Table
from kaisched_plugins.fair_sharing.work import LOWER, NEVER, Work, may_take

_TAKING = frozenset({"reclaim", "preempt"})


def broken(moves: Moves, table: Table, high_from: int | None) -> Iterator[str]:
    """Yield a line for each rule that the result breaks."""
    yield from _rooms(moves, table)
    yield from _limits(moves)
    yield from _takers(moves, table, high_from)


def _change(moves: Moves) -> Amounts:
    return moves.by_queue(moves.placed) - moves.by_queue(moves.gone)


def _rooms(moves: Moves, table: Table) -> Iterator[str]:
    """F3: what grew is within its room at every level."""
    snapshot, quotas = moves.snapshot, table.quotas
    before = Holdings(quotas, snapshot.allocated[table.rows])
    after = Holdings(quotas, (snapshot.allocated + _change(moves))[table.rows])
    cap = quotas.rows.cap
    for queue, used in enumerate(after.used):
        for at, amount in enumerate(used):
            if amount > before.used[queue][at] and amount > cap[queue][at]:
                name = snapshot.axis.names[int(table.rows[at])]
                yield (
                    f"F3 queue {snapshot.queues.name[queue]} grows to {name}"
                    f" {format_amount(name, amount)}, its room is"
                    f" {format_amount(name, cap[queue][at])}"
                )


def _limits(moves: Moves) -> Iterator[str]:
    """F4: what grew is within its limit."""
    snapshot = moves.snapshot
    queues = snapshot.queues
    growth = roll_up(_change(moves), queues.tree)
    after = roll_up(snapshot.allocated, queues.tree) + growth
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
    most = table.by_home((snapshot.allocated + moves.by_queue(moves.placed))[table.rows])
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
