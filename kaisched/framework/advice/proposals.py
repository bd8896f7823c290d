"""Proposes changes that could let a pending job start, from the reason why it waits.

Each change is made from the numbers of that reason. A trial shows whether it is enough.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Final

import numpy as np

from kaisched.core.axis import ACTIVE_STATES, CPU, GPU, GPU_UNIT, PODS
from kaisched.core.constraints import domains_at, level_of, levels_of
from kaisched.core.devices import charges
from kaisched.core.refusals import Refusal, lasting_codes
from kaisched.framework.advice.advice import Change, Kind, Proposal, parts
from kaisched.framework.session.batches import asked_of, batch_of, possible_asks
from kaisched.framework.session.capacity import room_of
from kaisched.units import UNLIMITED

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kaisched.core.axis import Amounts, BoolVec, IntVec
    from kaisched.framework.session.session import Session

_ROOM: Final = frozenset({Refusal.NO_ROOM, Refusal.GANG_NO_ROOM})
_LOOKED_AT: Final = 50
"""At most so many running jobs, the smallest first, are considered as blocking."""


def proposals(session: Session, job: int, code: int) -> Iterator[Proposal]:
    """Yield the changes to try for a job that waits for this reason, likely ones first."""
    if code == Refusal.GANG_INCOMPLETE:
        yield from _fewer(session, job, int(_alive(session, job)))
    elif code == Refusal.EXCEEDS_ANY_NODE:
        yield from more_nodes(session, job)
    elif code == Refusal.NO_NODE_ALLOWED:
        yield from _rules(session, job)
    elif code in _ROOM:
        yield from dict.fromkeys(_room(session, job))
    else:
        yield from session.ask.proposals(session, job, code) or ()


def is_possible(session: Session, kind: Kind, changes: tuple[Change, ...]) -> bool:
    """Tell whether a change from an earlier cycle can still be tried in this cycle."""
    queues, position = session.queues, session.axis.position
    if kind is Kind.SEVERAL:
        return all(is_possible(session, *part) for part in parts(kind, changes))
    if kind in (Kind.QUOTA, Kind.LIMIT):
        bound = queues.limit if kind is Kind.LIMIT else queues.deserved

        def is_new(it: Change) -> bool:
            now = int(bound[position[it.resource], queues.row_of_name[it.on]])
            return now >= UNLIMITED or it.amount > now

        return all(
            it.on in queues.row_of_name and it.resource in position and is_new(it) for it in changes
        )
    if kind is Kind.NODES:
        is_known = all(it.resource in position for it in changes[1:])
        return is_known and changes[0].on in session.nodes.name
    if kind is Kind.END:
        return any(session.jobs.name[row] == changes[0].on for row in _running(session))
    return kind is not Kind.TIME or changes[0].amount > 0


def _room(session: Session, job: int) -> Iterator[Proposal]:
    codes = dict.fromkeys(int(each[job]) for each in session.outcome.claims.values())
    for code in codes:
        yield from session.ask.proposals(session, job, code) or ()
    if Refusal.EVICTION_DELAY in codes:
        jobs = session.jobs
        left = jobs.created_s[job] + jobs.preemption_delay_s[job] - session.now_s
        if left > 0:
            yield Kind.TIME, (Change(jobs.name[job], amount=int(left) + 1),)
    yield from more_nodes(session, job)
    yield from _in_the_way(session, job)
    placed = int(session.podsets.active[int(session.jobs.first_podset[job])])
    yield from _fewer(session, job, placed + _fitting(session, job))
    yield from _rules(session, job)


def _alive(session: Session, job: int) -> int:
    first = int(session.jobs.first_podset[job])
    return int(session.podsets.active[first] + session.podsets.pending[first])


def _fitting(session: Session, job: int) -> int:
    shapes, _ = batch_of(session, job)
    if len(shapes) != 1:
        return 0
    shape, count = shapes[0]
    return min(session.placement.free_capacity(shape).total, count)


def _fewer(session: Session, job: int, number: int) -> Iterator[Proposal]:
    first = int(session.jobs.first_podset[job])
    if int(session.jobs.podset_count[job]) == 1 and 0 < number < session.podsets.minimum[first]:
        yield Kind.MINIMUM, (Change(session.jobs.name[job], amount=number),)


def _rules(session: Session, job: int) -> Iterator[Proposal]:
    """Yield removing selectors, and tolerating taints, if these rule nodes out."""
    on = (Change(session.jobs.name[job]),)
    for shape, _ in batch_of(session, job)[0]:
        constraints = session.shapes.constraints[shape]
        codes = session.placement.plan(shape).codes
        found = set() if codes is None else set(np.unique(codes).tolist())
        if constraints.own_selector or constraints.node_terms is not None:
            yield Kind.SELECTOR, on
        if int(Refusal.TAINT) in found:
            yield Kind.TOLERATIONS, on
        return


def larger_bounds(session: Session, job: int, kind: Kind, bound: Amounts) -> Iterator[Proposal]:
    """Yield a quota or limit ``bound`` ``(R, Q)`` that leaves the job's queues room for its batch.

    At all levels where what is held and the batch together are over it. Where the batch counts less
    on larger cards, room on those comes first.
    """
    queues, held = session.queues, session.held_now
    if session.held_stuck is not None:
        held = held + session.held_stuck[0]
    for ask in possible_asks(session, job):
        changes = [
            Change(queues.name[row], session.axis.names[resource], needed)
            for row in queues.tree.path(int(session.jobs.queue_of_job[job])).tolist()
            for resource in np.flatnonzero(ask > 0).tolist()
            if resource != PODS
            and int(bound[resource, row]) < UNLIMITED
            and (needed := int(held[resource, row] + ask[resource])) > int(bound[resource, row])
        ]
        if changes:
            yield kind, tuple(changes)


_SHAPES: Final = 3
"""At most so many kinds of nodes are considered for a job."""


def more_nodes(session: Session, job: int) -> Iterator[Proposal]:
    """Yield so many more nodes as the batch lacks, of kinds that its pods may use, cheapest first.

    Fewer GPUs are cheaper, then fewer CPUs.
    """
    nodes, requests = session.nodes, session.shapes.request
    shapes, size = batch_of(session, job)
    if not len(nodes) or not size:
        return
    rows = [shape for shape, _ in shapes]
    largest = requests[:, rows].max(axis=1)
    allowed = _allowed(session, rows)
    fits = (nodes.allocatable // np.maximum(largest, 1)[:, None])[largest > 0].min(axis=0)
    fits = np.where(allowed, fits, 0)
    is_alone = any(session.shapes.constraints[shape].has_pod_terms for shape in rows)
    if is_alone:  # they may exclude each other from a node
        fits = np.minimum(fits, 1)
    if not allowed.any():
        return
    if not fits.any():
        short = largest[:, None] > nodes.allocatable
        row = int(np.lexsort((np.arange(len(nodes)), short.sum(axis=0), ~allowed))[0])
        names = session.axis.names
        largest[GPU] = -(-largest[GPU] // GPU_UNIT) * GPU_UNIT  # a node has whole ones
        larger = [
            Change(nodes.name[row], names[each], int(largest[each]))
            for each in short[:, row].nonzero()[0].tolist()
        ]
        yield Kind.NODES, (Change(nodes.name[row], amount=size), *larger)
        return
    lacks = np.maximum(size - _room_near(session, job, rows, is_alone=is_alone), 1)
    count = np.where(fits > 0, -(-lacks // np.maximum(fits, 1)), UNLIMITED)
    gpus, cpus = (np.minimum(count, size) * nodes.allocatable[at] for at in (GPU, CPU))
    kinds: set[object] = set()
    for row in np.lexsort((cpus, gpus, count >= UNLIMITED)).tolist()[:_LOOKED_AT]:
        kind = (*nodes.allocatable[:, row].tolist(), int(count[row]), nodes.statics.taints[row])
        if count[row] < UNLIMITED and len(kinds) < _SHAPES and kind not in kinds:
            kinds.add(kind)
            yield Kind.NODES, (Change(nodes.name[row], amount=int(count[row])),)


def _room_near(session: Session, job: int, shapes: list[int], *, is_alone: bool) -> IntVec:
    """``(N,)`` pods of a batch that fit now in all, or in the domain of each node.

    The latter where the job needs a domain to itself. None of a batch of several shapes.
    """
    nodes = session.nodes
    if len(shapes) != 1:
        return np.zeros(len(nodes), np.int64)
    room = session.placement.free_capacity(shapes[0]).room
    room = np.minimum(room, 1) if is_alone else room
    root = session.jobs.structure.get(job)
    if root is not None and root.topology is not None and root.topology.required:
        levels = levels_of(nodes.topologies, root.topology)
        level = level_of(levels, root.topology.required)
        if level >= 0:
            domains = domains_at(levels, level, nodes.labels)
            return np.append(domains.sums(room), 0)[domains.of_node]
    return np.full(len(nodes), room.sum())


def _allowed(session: Session, shapes: list[int]) -> BoolVec:
    """``(N,)`` nodes whose own properties shut out none of these shapes."""
    statics = session.nodes.statics
    allowed: BoolVec = statics.is_ready & ~statics.is_unschedulable & ~statics.has_pressure
    for shape in shapes:
        codes = session.placement.plan(shape).codes
        if codes is not None:
            allowed &= ~np.isin(codes, lasting_codes())
    return allowed


def _end_of(session: Session, job: int) -> Proposal:
    return Kind.END, (Change(session.jobs.name[job], title=session.jobs.title[job]),)


def _in_the_way(session: Session, job: int) -> Iterator[Proposal]:
    """Yield the end of the smallest running job whose room is enough."""
    shapes, size = batch_of(session, job)
    if len(shapes) != 1:
        return
    shape = shapes[0][0]
    request, idle = session.shapes.request[:, shape], session.capacity.idle
    allowed = _allowed(session, [shape])
    for other in islice(_running(session), _LOOKED_AT):
        freed = idle.copy()
        for task in session.jobs.tasks[other]:
            node = int(session.tasks.node_of_task[task])
            if node >= 0:
                freed[:, node] += session.shapes.request[:, session.tasks.shape_of_task[task]]
        if room_of(freed, request, allowed).sum() >= size:
            yield _end_of(session, other)
            return


def end_of_work(session: Session, job: int, bound: Amounts) -> Iterator[Proposal]:
    """Yield the end of the smallest running job that leaves the batch room under ``bound``.

    ``bound`` is ``(R, Q)``; all queues on the job's path that would be over it must lose enough.
    """
    queues, ask = session.queues, asked_of(session, job)
    held = session.held_now
    path = queues.tree.path(int(session.jobs.queue_of_job[job])).tolist()
    over = [
        (row, held[:, row] + ask - bound[:, row])
        for row in path
        if ((ask > 0) & (held[:, row] + ask > bound[:, row])).any()
    ]
    for other in islice(_running(session), _LOOKED_AT):
        at = queues.tree.path(int(session.jobs.queue_of_job[other])).tolist()
        gives = charges(session, list(session.jobs.tasks[other])).sum(axis=1)
        if all(row in at and (gives >= gap)[ask > 0].all() for row, gap in over):
            yield _end_of(session, other)
            return


def _running(session: Session) -> Iterator[int]:
    """Yield jobs whose pods all run and keep running, smallest first."""
    jobs = session.jobs
    active = session.job_active_now
    rows = np.flatnonzero((jobs.active > 0) & (jobs.pending == 0) & (active == jobs.active))
    for row in rows[np.lexsort((rows, jobs.active[rows]))].tolist():
        state = session.tasks.state[list(jobs.tasks[row])]
        if int(jobs.queue_of_job[row]) >= 0 and ACTIVE_STATES[state].all():
            yield row
