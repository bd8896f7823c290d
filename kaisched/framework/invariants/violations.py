"""Checks the invariants of a cycle's result, for tests, the replay and the daemon.

These rules hold under any policy; plugins check the rules of their own. The identifiers are those
of docs/explanation/the-cycle.md. A violation is a bug of the code, never a property of a cluster.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from kaisched.core.axis import ALLOCATED_STATES, GPU, HOLDING_STATES, PODS, TaskState
from kaisched.core.constraints import Constraints
from kaisched.core.refusals import TEXTS, Refusal
from kaisched.core.sums import charges_of, sum_of
from kaisched.framework.invariants.cards import cards, opened_cards
from kaisched.framework.invariants.evictions import STALE, evictions, victims
from kaisched.framework.invariants.sums import Moves, is_job_met
from kaisched.framework.report.reasons import NODE_SETS
from kaisched.framework.report.records import RUN

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from kaisched.core.axis import Amounts, BoolVec
    from kaisched.core.snapshot import Snapshot
    from kaisched.framework.policy import Policy
    from kaisched.framework.report.result import CycleResult

_NO_ROOM: Final = frozenset({TEXTS[Refusal.NO_ROOM].name, TEXTS[Refusal.GANG_NO_ROOM].name})
_HELD: Final = TEXTS[Refusal.ROOM_HELD].name
_OPENED: Final = TEXTS[Refusal.OPENED_SINCE].name
_PENDING: Final = int(TaskState.PENDING)
_RELEASING: Final = int(TaskState.RELEASING)


def violations(
    snapshot: Snapshot, result: CycleResult, policy: Policy, *, with_records: bool = False
) -> list[str]:
    """Return a line for each rule that a cycle's result breaks; empty when all is well.

    The check takes a few passes over the columns, and asks the plugins of the policy.
    ``with_records`` also checks the decision records (I21, I22), which have to be computed for
    that.
    """
    if result.stats.abandoned:
        intents = (result.bind_tasks, result.evict_tasks, result.nominate_tasks)
        return ["an abandoned cycle has intents"] if any(len(rows) for rows in intents) else []
    found = [*_failures(result), *_accounts(snapshot)]
    snapshot = result.counted or snapshot
    moves = Moves(snapshot, result, policy.fairness)
    strangers = [*_moved_tasks(moves), *victims(moves)]
    if strangers:
        return found + strangers  # what is below speaks of tasks of jobs on nodes
    found.extend(_nodes(snapshot, result))
    found.extend(cards(snapshot, result))
    found.extend(_gangs(moves))
    own = policy.questions.takes_from_own_queue
    found.extend(evictions(moves, policy.disruption_budgets, may_take_own=own))
    found.extend(policy.questions.broken_rules(moves) or ())
    if with_records:
        found.extend(_records(snapshot, result))
    return found


def _failures(result: CycleResult) -> Iterator[str]:
    """I24: no action fails: a contained failure is still a bug."""
    for failure in result.failures:
        if failure.question == RUN:
            yield f"I24 action {failure.plugin} failed: {failure.error}"


def _accounts(snapshot: Snapshot) -> Iterator[str]:
    """I19: the amounts that nodes and queues hold are the sums over their tasks."""
    tasks, jobs, nodes = snapshot.tasks, snapshot.jobs, snapshot.nodes
    placed = np.flatnonzero(HOLDING_STATES[tasks.state] & (tasks.node_of_task >= 0))
    held = sum_of(snapshot, placed, tasks.node_of_task[placed], len(nodes))
    yield from _unequal(
        snapshot, "I19 idle of node", nodes.name, nodes.allocatable - held, nodes.idle
    )
    leaving = placed[tasks.state[placed] == _RELEASING]
    released = sum_of(snapshot, leaving, tasks.node_of_task[leaving], len(nodes))
    yield from _unequal(snapshot, "I19 releasing of node", nodes.name, released, nodes.releasing)
    ours = np.flatnonzero(ALLOCATED_STATES[tasks.state] & (tasks.job_of_task >= 0))
    queue = jobs.queue_of_job[tasks.job_of_task[ours]]
    ours, queue = ours[queue >= 0], queue[queue >= 0]
    held = charges_of(snapshot, ours, queue)
    names = snapshot.queues.name
    yield from _unequal(snapshot, "I19 allocated of queue", names, held, snapshot.allocated)


def _unequal(
    snapshot: Snapshot, what: str, names: object, counted: Amounts, said: Amounts
) -> Iterator[str]:
    for resource, row in np.argwhere(counted != said).tolist():
        name = snapshot.axis.names[resource]
        yield (
            f"{what} {names[row]}: {name} is said to be {said[resource, row]},"  # type: ignore[index]
            f" counted {counted[resource, row]}"
        )


def _moved_tasks(moves: Moves) -> Iterator[str]:
    """I5, I6: only our pending pods are placed, once; of others, evicted pods may be promised."""
    snapshot, result = moves.snapshot, moves.result
    tasks = snapshot.tasks
    moved = set(moves.moved.tolist())
    placed = np.concatenate((result.bind_tasks, result.nominate_tasks))
    rows, counts = np.unique(placed, return_counts=True)
    for row in rows[counts > 1].tolist():
        yield f"I5 pod {tasks.name[row]} is placed more than once"
    for row in rows.tolist():
        job = int(tasks.job_of_task[row])
        if job < 0:
            yield f"I6 pod {tasks.name[row]} is not ours"
        elif tasks.state[row] != _PENDING and row not in moved:
            yield f"I6 pod {tasks.name[row]} is {TaskState(int(tasks.state[row])).name}"
        elif snapshot.jobs.refusal[job]:
            yield f"I6 pod {tasks.name[row]} belongs to a refused job"


def _nodes(snapshot: Snapshot, result: CycleResult) -> Iterator[str]:
    """I1, I3: binds fit into idle amounts, promises into idle and releasing amounts."""
    nodes = snapshot.nodes
    bound = sum_of(snapshot, result.bind_tasks, result.bind_nodes, len(nodes))
    leaving = result.evict_tasks
    freed = sum_of(snapshot, leaving, snapshot.tasks.node_of_task[leaving], len(nodes))
    promised = sum_of(snapshot, result.nominate_tasks, result.nominate_nodes, len(nodes))
    idle = nodes.idle - bound
    if nodes.cards is not None:
        idle[PODS] -= nodes.cards.awaited
    later = idle + nodes.releasing + freed - promised
    later[PODS] -= np.minimum(opened_cards(snapshot, result)[1], 0)
    for what, over in (
        ("bound", (idle < 0) & (bound > 0)),
        ("promised", (later < 0) & (promised > 0)),
    ):
        for resource, row in np.argwhere(over).tolist():
            rule = "I3" if resource == PODS else "I1"
            name = snapshot.axis.names[resource]
            yield f"{rule} node {nodes.name[row]}: more {name} is {what} than there is"


def _gangs(moves: Moves) -> Iterator[str]:
    """I4: all needed pods of a gang start together, or none."""
    snapshot, bind_tasks = moves.snapshot, moves.result.bind_tasks
    podsets, tasks, jobs = snapshot.podsets, snapshot.tasks, snapshot.jobs
    bound = moves.by_podset(bind_tasks)
    firm = podsets.active - moves.by_podset(moves.gone) + bound
    for row in np.flatnonzero((bound > 0) & (firm < podsets.minimum)).tolist():
        yield (
            f"I4 job {jobs.name[int(podsets.job_of_podset[row])]}, pod set {podsets.name[row]}:"
            f" {firm[row]} of {podsets.minimum[row]} run"
        )
    if jobs.structure:
        for job in np.unique(tasks.job_of_task[bind_tasks]).tolist():
            if job in jobs.structure and not is_job_met(snapshot, job, firm):
                yield f"I4 job {jobs.name[job]}: a subgroup that it needs does not run"


def _by_claim(snapshot: Snapshot, shape: int) -> BoolVec:
    """``(N,)`` nodes that give by claims only what pods without claims ask a plugin for."""
    bridge = None if snapshot.claims is None else snapshot.claims.bridge
    names, is_asked = snapshot.nodes.name, False
    if bridge is not None:
        is_asked = bool(snapshot.shapes.request[snapshot.axis.position[bridge.resource], shape])
    nodes = bridge.nodes if bridge is not None and is_asked else ()
    return np.array([it in nodes for it in names], np.bool_)


def _closes_nodes(constraints: Constraints) -> bool:
    """Tell whether the anti-affinity of such pods closes nodes to pods without terms."""
    devices = constraints.devices
    return bool(constraints.pod_anti_affinity or (devices is not None and devices.legacy_slices))


def _is_promised(snapshot: Snapshot) -> bool:
    """Tell whether any pod came into the cycle with a promise."""
    return bool(((snapshot.tasks.nominated_node >= 0) & (snapshot.tasks.state == _PENDING)).any())


def _reasons(
    snapshot: Snapshot, result: CycleResult, waiting: list[int], reason: Mapping[str, str]
) -> Iterator[str]:
    """I21, I22: each has a reason, and what it says of room has a cause in this cycle."""
    names = snapshot.jobs.name
    for job in waiting:
        told = reason.get(names[job])
        if told is None:
            yield f"I22 job {names[job]} waits without a record"
        elif told == _OPENED and not result.evict_tasks.size:
            yield f"I21 job {names[job]} waits though its queue has had room all along"
        elif told == _HELD and not _is_promised(snapshot):
            yield f"I21 job {names[job]} waits for room that is held, but nothing was promised"


def _records(snapshot: Snapshot, result: CycleResult) -> Iterator[str]:
    """I21, I22: every waiting job has a record, and a job that waits for room has none."""
    jobs = snapshot.jobs
    bound = np.bincount(snapshot.tasks.job_of_task[result.bind_tasks], minlength=len(jobs.name))
    waiting = np.flatnonzero(jobs.pending > bound).tolist()
    reason = {record.pod_group: record.reason for record in result.records}
    bound_to_sets = {it.pod_group for it in result.records if NODE_SETS in it.numbers}
    yield from _reasons(snapshot, result, waiting, reason)
    nodes = snapshot.nodes
    idle = nodes.idle - sum_of(snapshot, result.bind_tasks, result.bind_nodes, len(nodes))
    promised = sum_of(snapshot, result.nominate_tasks, result.nominate_nodes, len(nodes))
    # Stale gangs are ended last: nobody was offered what they leave.
    leaving = np.array([it.task for it in result.evictions if it.action != STALE], np.int64)
    freed = sum_of(snapshot, leaving, snapshot.tasks.node_of_task[leaving], len(nodes))
    opened, later = opened_cards(snapshot, result)
    idle[PODS] -= opened + (0 if nodes.cards is None else nodes.cards.awaited)
    promised[PODS] += later
    idle -= np.maximum(promised - nodes.releasing - freed, 0)
    statics = nodes.statics
    is_plain = statics.is_ready & ~statics.is_unschedulable & ~statics.has_pressure
    is_plain &= np.array([not taints for taints in statics.taints], np.bool_).reshape(len(nodes))
    if any(map(_closes_nodes, snapshot.shapes.constraints)):
        return
    for job in waiting:
        shape = int(jobs.shape_of_job[job])
        is_single = jobs.podset_count[job] == 1 and jobs.pending[job] - bound[job] == 1
        name = jobs.name[job]
        if not is_single or shape < 0 or reason.get(name) not in _NO_ROOM or name in bound_to_sets:
            continue
        if nodes.cards is not None and snapshot.shapes.request[GPU, shape]:
            continue  # parts of several cards are no whole card
        if snapshot.shapes.constraints[shape] == Constraints():
            fits = (snapshot.shapes.request[:, [shape]] <= idle).all(axis=0) & is_plain
            fits &= ~_by_claim(snapshot, shape)
            if fits.any():
                node = nodes.name[int(fits.argmax())]
                yield f"I21 job {jobs.name[job]} waits for room although node {node} has it"
