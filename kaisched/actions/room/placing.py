"""Places one job's batch through a statement: pods of several shapes, or on room being released."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Final

import numpy as np

from kaisched.actions.room.by_card import within_bounds
from kaisched.actions.room.packing import place_packed
from kaisched.actions.room.parts import Budget, place_parts
from kaisched.core.axis import TaskState
from kaisched.framework.session.pod_index import as_neighbours

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kaisched.core.axis import RowVec
    from kaisched.framework.session.claims import NodeSet
    from kaisched.framework.session.session import Session
    from kaisched.framework.session.statement import Statement

_PIPELINED = int(TaskState.PIPELINED)
STEPS: Final = 256
"""How many sets of nodes of subgroups are tried at most to place one batch."""


def place_mixed(session: Session, statement: Statement, tasks: RowVec) -> bool:
    """Place ``tasks`` in their order, equal neighbours together; False when a task finds no room.

    The caller rolls back. Where room is being released, some tasks may get only a promise (see
    :func:`place_waiting`).
    """
    if session.capacity.has_releasing:
        return place_waiting(session, statement, tasks, Budget(STEPS))
    return place_now(session, statement, tasks, Budget(STEPS))


def place_within(
    session: Session,
    statement: Statement,
    tasks: RowVec,
    sets: Sequence[NodeSet],
    *,
    has_promises: bool = False,
) -> bool:
    """Place ``tasks`` on the first set of nodes that has idle room for all of them.

    Without such a set, place them on the first that has room once room being released is free, as
    always for a job that has promises: its gang starts as a whole. Nothing is placed on failure.
    """
    tries = [] if has_promises else [place_now]
    if session.capacity.has_releasing:
        tries.append(place_waiting)
    budget = Budget(STEPS)
    for place in tries:
        for nodes in sets:
            mark = statement.checkpoint()
            with session.placement.within(nodes):
                if place(session, statement, tasks, budget):
                    return True
            statement.rollback(mark)
    return False


def place_now(
    session: Session, statement: Statement, tasks: RowVec, budget: Budget | None = None
) -> bool:
    """Place ``tasks`` in their order on idle room; False when a task finds none.

    With a budget other choices are tried too, see :func:`place_parts` and :func:`place_packed`.
    """
    mark = statement.checkpoint()
    if place_parts(session, statement, tasks, within_bounds(_place_idle), budget):
        return True
    if budget is None:
        return False
    statement.rollback(mark)
    return place_packed(session, statement, tasks)


def place_waiting(
    session: Session, statement: Statement, tasks: RowVec, budget: Budget | None = None
) -> bool:
    """Place ``tasks`` one by one, on idle room or room being released; False when a task has none.

    When a pod set reaches its minimum only with promises, earlier ones of this cycle included, all
    of ``tasks`` become promises: a gang is never bound in part.
    """
    mark = statement.checkpoint()
    if not place_parts(session, statement, tasks, within_bounds(_place_future), budget):
        if budget is None:
            return False
        statement.rollback(mark)
        if not place_packed(session, statement, tasks, is_later=True):
            return False
    job = int(session.ledger.job_of_task[tasks[0]])
    if statement.has_allocated(mark) and leans_on_promises(session, job):
        statement.pipeline_all(mark)
    return True


def _place_idle(session: Session, statement: Statement, tasks: RowVec) -> bool:
    """Place ``tasks`` in order, equal neighbours together, on idle room of the present set."""
    tasks = _by_shape(session, tasks)
    shapes = session.tasks.shape_of_task[tasks]
    cuts = (np.flatnonzero(shapes[1:] != shapes[:-1]) + 1).tolist()
    for start, end in pairwise((0, *cuts, len(tasks))):
        group, shape = tasks[start:end], int(shapes[start])
        placement = session.placement
        nodes = placement.choose(placement.vacancy(shape), len(group))
        if nodes is None:
            return False
        statement.place(*as_neighbours(session, group, nodes, placement.neighbours), shape)
    return True


def _place_future(session: Session, statement: Statement, tasks: RowVec) -> bool:
    """Place ``tasks`` one by one on idle room of the present set, or promise room there."""
    if _is_bounded(session):
        return _place_future_by_shape(session, statement, tasks)
    for task in tasks.tolist():
        best = session.placement.best_future(int(session.tasks.shape_of_task[task]))
        if best is None:
            return False
        node, fits_now = best
        if fits_now:
            statement.allocate(task, node)
        else:
            statement.pipeline(task, node)
    return True


def _is_bounded(session: Session) -> bool:
    """Tell whether the present set says how many pods of a batch its nodes get."""
    nodes = session.placement.nodes
    return nodes is not None and nodes.most is not None


def _by_shape(session: Session, tasks: RowVec) -> RowVec:
    """Return ``tasks`` with equal pods next to each other where a bound counts all of them."""
    shapes = session.tasks.shape_of_task[tasks]
    if not _is_bounded(session) or not shapes.size or shapes.min() == shapes.max():
        return tasks
    _, first, which = np.unique(shapes, return_index=True, return_inverse=True)
    return tasks[np.argsort(first[which], kind="stable")]


def _place_future_by_shape(session: Session, statement: Statement, tasks: RowVec) -> bool:
    """Place equal pods together on room that is idle or being released, within the bounds."""
    tasks = _by_shape(session, tasks)
    shapes = session.tasks.shape_of_task[tasks]
    for shape in dict.fromkeys(shapes.tolist()):
        some = tasks[shapes == shape]
        nodes = session.placement.choose_future(shape, len(some))
        if nodes is None:
            return False
        some, nodes = as_neighbours(session, some, nodes, session.placement.neighbours)
        for task, node in zip(some.tolist(), nodes.tolist(), strict=True):
            if session.placement.vacancy(shape).room[node] > 0:
                statement.allocate(task, node)
            else:
                statement.pipeline(task, node)
    return True


def leans_on_promises(session: Session, job: int) -> bool:
    """Tell whether some pod set of a job would lack its minimum without its promised pods."""
    ledger, tasks = session.ledger, np.asarray(session.jobs.tasks[job], np.int64)
    promised = tasks[ledger.state[tasks] == _PIPELINED]
    if not promised.size:
        return False
    rows, counts = np.unique(session.tasks.podset_of_task[promised], return_counts=True)
    return bool((ledger.podset_active[rows] - counts < session.podsets.minimum[rows]).any())
