"""A trial: runs the same cycle again, on a copy of its snapshot with a change.

A cycle is a pure function, so a trial shows exactly what the cycle would have decided. The real
cycle is not touched: the changed columns are copies, and the memory has no hints.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Final

import numpy as np

from kaisched.core.axis import ACTIVE_STATES, GPU, HOLDING_STATES, TaskState
from kaisched.core.constraints import NodeStatics, Toleration
from kaisched.core.devices import charges, with_nodes_like
from kaisched.core.tables import ShapeTable
from kaisched.framework.advice.advice import Kind, parts
from kaisched.framework.advice.proposals import proposals
from kaisched.framework.cycle import run_cycle
from kaisched.framework.session.cards import Cards

if TYPE_CHECKING:
    from collections.abc import Callable

    from kaisched.core.axis import Amounts, BoolVec, IntVec, RowVec
    from kaisched.core.constraints import Constraints
    from kaisched.core.devices import CardTable
    from kaisched.core.snapshot import Snapshot
    from kaisched.core.tables import NodeTable
    from kaisched.framework.advice.advice import Change, Proposal
    from kaisched.framework.report.result import Records
    from kaisched.framework.session.session import Session

ANY_TAINT = Toleration("", "Exists", "", "")
_GONE = int(TaskState.GONE)


OWN: Final = frozenset({Kind.MINIMUM, Kind.SELECTOR, Kind.TOLERATIONS, Kind.PREEMPTIBLE})
"""Kinds of changes that concern one job; all others concern all jobs."""


def is_own(kind: Kind, changes: tuple[Change, ...]) -> bool:
    """Tell whether changes concern one job."""
    return any(part in OWN for part, _ in parts(kind, changes))


_BASE: Final = 400
"""The cost of a cycle of the smallest cluster, in steps of 5 us (measured)."""
_WAITING: Final = 70
"""The cost of each kind of waiting jobs, for which victims may be searched; a table row costs 1."""


class Trials:
    """The trials of one cycle: a change is tried once, for whichever jobs it is proposed."""

    def __init__(self, session: Session, kinds: int | None = None) -> None:
        """Start without trials.

        Args:
            session: the session of the cycle, which is over.
            kinds: the number of kinds of waiting jobs, if known; else each job counts as one.

        """
        self.session = session
        snapshot = session.snapshot
        rows = len(snapshot.nodes) + len(snapshot.tasks.name) + len(snapshot.queues)
        waiting = session.jobs_waiting if kinds is None else kinds
        self.steps: int = _BASE + rows + _WAITING * waiting
        """The cost of each trial."""
        self._helped: dict[tuple[Kind, int, tuple[Change, ...]], BoolVec] = {}
        self._last: tuple[tuple[Kind, int, tuple[Change, ...]], Records] | None = None
        """Why jobs wait in the last trial."""

    def __len__(self) -> int:
        """Return the number of trials so far."""
        return len(self._helped)

    def is_known(self, job: int, kind: Kind, changes: tuple[Change, ...]) -> bool:
        """Tell whether the effect of a change on a job is known without another trial."""
        return _key(job, kind, changes) in self._helped

    def helps(self, job: int, kind: Kind, changes: tuple[Change, ...]) -> bool:
        """Tell whether more of a job's pods would be bound or promised room with these changes."""
        return bool(self._helped_by(job, kind, changes)[job])

    def helps_any(self, job: int, kind: Kind, changes: tuple[Change, ...]) -> bool:
        """Tell whether these changes start any waiting job."""
        return bool(self._helped_by(job, kind, changes).any())

    def after(self, job: int, kind: Kind, changes: tuple[Change, ...]) -> list[Proposal]:
        """Return what to try for a job that waits with these changes; they are tried again."""
        key = _key(job, kind, changes)
        if self._last is None or self._last[0] != key:
            self._tried(job, kind, changes)
        assert self._last is not None
        records = self._last[1]
        code = records.codes[records.rows == job]
        return list(proposals(records.session, job, int(code[0]))) if code.size else []

    def _helped_by(self, job: int, kind: Kind, changes: tuple[Change, ...]) -> BoolVec:
        """``(J,)`` jobs of which more pods would be bound or promised room."""
        key = _key(job, kind, changes)
        helped = self._helped.get(key)
        if helped is None:
            helped = self._helped[key] = self._tried(job, kind, changes) > self._before
        return helped

    @cached_property
    def _before(self) -> IntVec:
        """``(J,)`` pods of each job that were bound or promised room without any change."""
        outcome = self.session.outcome
        promised = np.array([task for task, _ in outcome.nominations], np.int64)
        return self._by_job(np.concatenate([outcome.binds()[0], promised]))

    def _tried(self, job: int, kind: Kind, changes: tuple[Change, ...]) -> IntVec:
        """``(J,)`` pods of each job that are bound or promised room with these changes."""
        session, snapshot, later_s = self.session, self.session.snapshot, 0
        if kind is Kind.TIME:
            later_s = sum(change.amount for change in changes)
        else:
            for own, some in parts(kind, changes):
                snapshot = CHANGED[own](snapshot, job, some)
        result, _ = run_cycle(
            snapshot,
            session.usage,
            session.policy,
            session.now_s + later_s,
            session.memory.without_hints(),
        )
        self._last = _key(job, kind, changes), result.records
        return self._by_job(np.concatenate([result.bind_tasks, result.nominate_tasks]))

    def _by_job(self, tasks: RowVec) -> IntVec:
        job = self.session.tasks.job_of_task[tasks]
        return np.bincount(job[job >= 0], minlength=len(self.session.jobs.name))


def _key(job: int, kind: Kind, changes: tuple[Change, ...]) -> tuple[Kind, int, tuple[Change, ...]]:
    if kind is Kind.TIME:  # time passes for all jobs
        changes = tuple(replace(change, on="") for change in changes)
    return kind, job if is_own(kind, changes) else -1, changes


def _quota(snapshot: Snapshot, _job: int, changes: tuple[Change, ...]) -> Snapshot:
    deserved = _raised(snapshot, snapshot.queues.deserved, changes)
    return replace(snapshot, queues=replace(snapshot.queues, deserved=deserved))


def _limit(snapshot: Snapshot, _job: int, changes: tuple[Change, ...]) -> Snapshot:
    limit = _raised(snapshot, snapshot.queues.limit, changes)
    return replace(snapshot, queues=replace(snapshot.queues, limit=limit))


def _raised(snapshot: Snapshot, amounts: Amounts, changes: tuple[Change, ...]) -> Amounts:
    column = amounts.copy()
    for change in changes:
        row = snapshot.axis.position[change.resource]
        column[row, snapshot.queues.row_of_name[change.on]] = change.amount
    return column


def _nodes(snapshot: Snapshot, _job: int, changes: tuple[Change, ...]) -> Snapshot:
    """Append empty nodes, each a host of its own.

    The lowest row wins ties, so the new nodes change no other choice.
    """
    first, nodes = changes[0], snapshot.nodes
    count, like = first.amount, list(nodes.name).index(first.on)
    allocatable = nodes.allocatable[:, [like]].copy()
    for change in changes[1:]:
        allocatable[snapshot.axis.position[change.resource]] = change.amount
    more = np.repeat(allocatable, count, axis=1)
    statics, falses = nodes.statics, np.zeros(count, np.bool_)
    new = [f"{first.on}+{at}" for at in range(count)]
    names = [*nodes.name, *new]
    labels = [_host_labels(statics, like, name) for name in new]
    claims = snapshot.claims
    if claims is not None:
        bridge, offer = claims.bridge, claims.offer.with_nodes_like(first.on, new)
        if bridge is not None and first.on in bridge.nodes:
            bridge = bridge._replace(nodes=bridge.nodes.union(new))
        claims = replace(claims, offer=offer, bridge=bridge)
    return replace(
        snapshot,
        claims=claims,
        nodes=replace(
            nodes,
            name=names,
            statics=NodeStatics(
                name=names,
                labels=[*statics.labels, *labels],
                taints=[*statics.taints, *[statics.taints[like]] * count],
                is_ready=np.concatenate([statics.is_ready, ~falses]),
                is_unschedulable=np.concatenate([statics.is_unschedulable, falses]),
                has_pressure=np.concatenate([statics.has_pressure, falses]),
            ),
            allocatable=np.concatenate([nodes.allocatable, more], axis=1),
            idle=np.concatenate([nodes.idle, more], axis=1),
            releasing=np.concatenate([nodes.releasing, np.zeros_like(more)], axis=1),
            version=np.concatenate([nodes.version, np.zeros(count, nodes.version.dtype)]),
            cards=_more_cards(nodes, like, int(more[GPU, 0]), count),
            annotations=(*nodes.annotations, *[nodes.annotations[like]] * count),
        ),
    )


def _more_cards(nodes: NodeTable, like: int, milli_gpus: int, count: int) -> CardTable | None:
    """Return the cards with those of more nodes: pods may share them as on the one they are like.

    A node without GPUs does not say so; then they may.
    """
    cards = nodes.cards
    if cards is None:
        return None
    may_share = bool(cards.cards[like]) or not nodes.allocatable[GPU, like]
    return with_nodes_like(cards, like, milli_gpus, count, may_share=may_share)


_HOSTNAME: Final = "kubernetes.io/hostname"


def _host_labels(statics: NodeStatics, like: int, name: str) -> dict[str, str]:
    """Return the labels of a node for another one: those that name the host name that one."""
    labels = statics.labels[like]
    hosts = {statics.name[like], labels.get(_HOSTNAME, "")}

    def is_own(key: str, value: str) -> bool:
        if key == _HOSTNAME or value not in hosts:
            return key == _HOSTNAME
        return sum(each.get(key) == value for each in statics.labels) == 1

    return {key: name if is_own(key, value) else value for key, value in labels.items()}


def _minimum(snapshot: Snapshot, job: int, changes: tuple[Change, ...]) -> Snapshot:
    minimum = snapshot.podsets.minimum.copy()
    minimum[int(snapshot.jobs.first_podset[job])] = changes[0].amount
    return replace(snapshot, podsets=replace(snapshot.podsets, minimum=minimum))


def _selector(snapshot: Snapshot, job: int, _changes: tuple[Change, ...]) -> Snapshot:
    def without(it: Constraints) -> Constraints:
        own = it.own_selector
        kept = tuple(pair for pair in it.node_selector if pair not in own)
        return replace(it, node_selector=kept, node_terms=None)

    return _constrained(snapshot, job, without)


def _tolerations(snapshot: Snapshot, job: int, _changes: tuple[Change, ...]) -> Snapshot:
    return _constrained(
        snapshot, job, lambda it: replace(it, tolerations=(*it.tolerations, ANY_TAINT))
    )


def _constrained(
    snapshot: Snapshot, job: int, change: Callable[[Constraints], Constraints]
) -> Snapshot:
    """Give the job's pods shapes of their own, after all other shapes."""
    shapes, tasks = snapshot.shapes, snapshot.tasks
    rows = list(snapshot.jobs.tasks[job])
    old, number = np.unique(tasks.shape_of_task[rows], return_inverse=True)
    constraints = list(shapes.constraints)
    first = len(constraints)
    constraints += [change(constraints[shape]) for shape in old.tolist()]
    shape_of_task, shape_of_job = tasks.shape_of_task.copy(), snapshot.jobs.shape_of_job.copy()
    shape_of_task[rows] = number + first
    request = np.concatenate([shapes.request[:, :first], shapes.request[:, old]], axis=1)
    charge = request
    if shapes.charge is not shapes.request:
        charge = np.concatenate([shapes.charge[:, :first], shapes.charge[:, old]], axis=1)
    by_card = shapes.by_card
    if by_card is not None:
        by_card = by_card.like(np.append(np.arange(first), old))
    if shape_of_job[job] >= 0:
        shape_of_job[job] = shape_of_task[rows[-1]]
    return replace(
        snapshot,
        shapes=ShapeTable(request, charge, constraints, by_card),
        tasks=replace(tasks, shape_of_task=shape_of_task),
        jobs=replace(snapshot.jobs, shape_of_job=shape_of_job),
    )


def _preemptible(snapshot: Snapshot, job: int, _changes: tuple[Change, ...]) -> Snapshot:
    jobs, tasks = snapshot.jobs, snapshot.tasks
    is_preemptible = jobs.is_preemptible.copy()
    is_preemptible[job] = True
    strict = snapshot.allocated_non_preemptible.copy()
    strict[:, int(jobs.queue_of_job[job])] -= _held(snapshot, job)
    return replace(
        snapshot,
        jobs=replace(jobs, is_preemptible=is_preemptible),
        allocated_non_preemptible=strict,
        tasks=tasks,
    )


def _end(snapshot: Snapshot, _job: int, changes: tuple[Change, ...]) -> Snapshot:
    """Remove a job that has only running pods."""
    jobs, tasks, nodes = snapshot.jobs, snapshot.tasks, snapshot.nodes
    name = changes[0].on  # rows of vanished jobs may have the same
    other = next(row for row in jobs.active.nonzero()[0].tolist() if jobs.name[row] == name)
    rows = np.array(jobs.tasks[other], np.int64)
    state, node = tasks.state.copy(), tasks.node_of_task.copy()
    idle, active = nodes.idle.copy(), jobs.active.copy()
    podsets = snapshot.podsets.active.copy()
    held = _held(snapshot, other)
    standing = rows[HOLDING_STATES[state[rows]] & (node[rows] >= 0)]
    for task in standing.tolist():
        idle[:, node[task]] += snapshot.shapes.request[:, tasks.shape_of_task[task]]
    state[rows], node[rows], active[other] = _GONE, -1, 0
    first = int(jobs.first_podset[other])
    podsets[first : first + int(jobs.podset_count[other])] = 0
    queue, allocated = int(jobs.queue_of_job[other]), snapshot.allocated.copy()
    strict = snapshot.allocated_non_preemptible.copy()
    allocated[:, queue] -= held
    if not jobs.is_preemptible[other]:
        strict[:, queue] -= held
    return replace(
        snapshot,
        jobs=replace(jobs, active=active),
        podsets=replace(snapshot.podsets, active=podsets),
        tasks=replace(tasks, state=state, node_of_task=node),
        nodes=replace(nodes, idle=idle, cards=_cards_without(snapshot, standing)),
        allocated=allocated,
        allocated_non_preemptible=strict,
    )


def _cards_without(snapshot: Snapshot, rows: RowVec) -> CardTable | None:
    """Return the cards as they are once some tasks have gone."""
    table, tasks, shapes = snapshot.nodes.cards, snapshot.tasks, snapshot.shapes
    if table is None:
        return None
    cards = Cards(table, shapes.constraints, shapes.request)
    columns = (rows, tasks.node_of_task[rows], tasks.shape_of_task[rows], tasks.state[rows])
    for task, node, shape, state in zip(*(it.tolist() for it in columns), strict=True):
        cards.give_back(task, node, shape, state)
    return cards.frozen()


def _held(snapshot: Snapshot, job: int) -> Amounts:
    """``(R,)`` what a job holds of its queue's amounts."""
    rows = np.array(snapshot.jobs.tasks[job], np.int64)
    standing = rows[ACTIVE_STATES[snapshot.tasks.state[rows]]]
    held: Amounts = charges(snapshot, standing).sum(axis=1)
    return held


CHANGED: dict[Kind, Callable[[Snapshot, int, tuple[Change, ...]], Snapshot]] = {
    Kind.QUOTA: _quota,
    Kind.LIMIT: _limit,
    Kind.NODES: _nodes,
    Kind.MINIMUM: _minimum,
    Kind.SELECTOR: _selector,
    Kind.TOLERATIONS: _tolerations,
    Kind.PREEMPTIBLE: _preemptible,
    Kind.END: _end,
}
