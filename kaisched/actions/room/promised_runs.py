"""Keeps promises to equal jobs of one pod together, with the same result as one by one.

While many victims are leaving, every cycle keeps as many promises as before, and a job at a time
costs several times what its part of a run does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from kaisched.actions.order.gates import open_count

if TYPE_CHECKING:
    from kaisched.core.axis import BoolVec, IntVec, RowVec
    from kaisched.framework.session.session import Session
    from kaisched.framework.session.statement import Statement


def run_ends(session: Session, wanted: list[tuple[int, RowVec]]) -> list[int]:
    """Return for each promise where the run of equal promises ends that it is in.

    A promise that is kept by itself is a run of one.
    """
    ends = list(range(1, len(wanted) + 1))
    if session.is_careful or not session.ask.rests_on_sums(session):
        return ends
    if session.ask.node_sets(session) is not None:
        return ends
    jobs, tasks, ledger = session.jobs, session.tasks, session.ledger
    job = np.array([row for row, _ in wanted], np.int64)
    first = np.array([batch[0] if batch.size else 0 for _, batch in wanted], np.int64)
    alone = np.array([batch.size == 1 for _, batch in wanted], np.bool_)
    alone &= (
        (jobs.pending[job] == 1) & (ledger.job_pending[job] == 1) & (ledger.job_active[job] == 0)
    )
    alone &= tasks.nominated_node[first] >= 0
    queue, shape = jobs.queue_of_job[job], tasks.shape_of_task[first]
    goes_on = alone[1:] & alone[:-1] & (queue[1:] == queue[:-1]) & (shape[1:] == shape[:-1])
    for at in reversed(np.flatnonzero(goes_on).tolist()):
        ends[at] = ends[at + 1]
    return ends


def keep_run(session: Session, action: str, job: RowVec, task: RowVec, statement: Statement) -> int:
    """Place pods of a run on their promised nodes; return how many of its first were placed.

    The next one cannot be kept, or has to be looked at by itself. Pods on room that is still being
    released are promised it once more.
    """
    shape = int(session.tasks.shape_of_task[task[0]])
    if session.capacity.is_by_card(shape):
        return 0
    vacancy = session.placement.vacancy(shape)
    if vacancy.plan.codes is not None or vacancy.plan.cap is not None:
        return 0
    charge = session.shapes.charge[:, shape]
    count = open_count(session, action, int(session.jobs.queue_of_job[job[0]]), job, charge)
    node = session.tasks.nominated_node[task[:count]]
    nth = nth_on_node(node)
    count = until_first(nth >= _most_on(session, shape, node))
    task, node, nth = task[:count], node[:count], nth[:count]
    fits_now = nth < vacancy.room[node]
    news = session.placement.news
    if fits_now.any():
        statement.place(task[fits_now], node[fits_now], shape)
    if not fits_now.all():
        statement.promise(task[~fits_now], node[~fits_now], shape)
    if session.placement.news != news:  # where one of the pods may go depends on the others
        statement.rollback()
        return 0
    return count


def _most_on(session: Session, shape: int, node: RowVec) -> IntVec:
    """``(K,)`` how many pods fit on each node once everything is released."""
    capacity = session.capacity
    request = session.shapes.request[:, shape]
    most = np.full(len(node), len(node), np.int64)
    for resource, amount in enumerate(request.tolist()):
        free = capacity.free_of(resource, node)
        most = np.minimum(most, free // amount if amount else np.where(free >= 0, most, 0))
    return most


def nth_on_node(node: RowVec) -> IntVec:
    """``(K,)`` how many of those before an entry have the same node."""
    order = np.argsort(node, kind="stable")
    ordered = node[order]
    begins = np.flatnonzero(np.concatenate(([True], ordered[1:] != ordered[:-1])))
    lengths = np.diff(np.concatenate((begins, [len(node)])))
    nth = np.empty(len(node), np.int64)
    nth[order] = np.arange(len(node)) - np.repeat(begins, lengths)
    return nth


def until_first(is_out: BoolVec) -> int:
    """Return how many entries come before the first that is marked."""
    found = np.flatnonzero(is_out)
    return int(found[0]) if found.size else len(is_out)
