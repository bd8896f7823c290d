"""The order in which running jobs are offered as victims: that of candidates, turned around.

The most over-served queue first, and in it the lowest priority and the youngest job: the same tree
and the same keys, both comparisons reversed. What has been offered counts as gone from its queue.
"""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING

import numpy as np

from kaisched.actions.candidates import Candidates
from kaisched.actions.job_order import sorted_rows
from kaisched.core.states import ACTIVE_STATES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kaisched.core.axis import Amounts, RowVec
    from kaisched.framework.session import Session


def victim_order(session: Session, job: RowVec) -> Iterator[int]:
    """Return jobs of ``job`` one by one, the first to be evicted first.

    Jobs of unknown queues are left out. Counts and shares are those of the moment of the call: the
    caller may evict what it is handed without its being taken from its queue twice.
    """
    running = _running(session, job[session.jobs.queue_of_job[job] >= 0])
    held = session.ledger.held if session.has_moved else session.held
    amounts = running.asks(session, np.arange(len(running)))
    leaves = _leaves(session, running)
    return _drained(session, running, leaves, held.copy(), amounts)


def _running(session: Session, job: RowVec) -> Candidates:
    """Return jobs with their active tasks as the batch: what each of them asks is what it holds."""
    jobs, tasks = session.jobs, session.tasks
    moved = session.has_moved
    active = (session.ledger.job_active if moved else jobs.active)[job]
    state = session.ledger.state if moved else tasks.state
    shape = jobs.shape_of_job[job]
    batches: dict[int, RowVec] = {}
    for row in job[shape < 0].tolist():
        rows = np.array(jobs.tasks[row], np.int64)
        batches[row] = rows[ACTIVE_STATES[state[rows]]]
    return Candidates(job, jobs.queue_of_job[job], shape, active, batches)


def _leaves(session: Session, running: Candidates) -> dict[int, Iterator[int]]:
    """Return each leaf queue's positions in ``running``, last in job order first."""
    if not len(running):
        return {}
    order, tie = sorted_rows(session, running, np.arange(len(running)))
    queue = running.queue[order]
    starts = np.flatnonzero(np.diff(queue, prepend=-1))
    parts = zip(np.split(order, starts[1:]), np.split(tie, starts[1:]), strict=True)
    return {
        leaf: _backwards(session, running, *part)
        for leaf, part in zip(queue[starts].tolist(), parts, strict=True)
    }


def _backwards(session: Session, running: Candidates, rows: RowVec, tie: RowVec) -> Iterator[int]:
    """Yield sorted rows from the end; a tie is settled by name only when its turn has come."""
    names, job = session.jobs.name, running.job
    pairs = zip(tie[::-1].tolist(), rows[::-1].tolist(), strict=True)
    for _, tied in groupby(pairs, lambda pair: pair[0]):
        yield from sorted((at for _, at in tied), key=lambda at: names[int(job[at])], reverse=True)


def _drained(
    session: Session,
    running: Candidates,
    leaves: dict[int, Iterator[int]],
    held: Amounts,
    amounts: Amounts,
) -> Iterator[int]:
    """Yield job rows; ``held`` is worked down as they go."""
    tree = session.queues.tree
    left = np.bincount(running.queue, minlength=len(tree)).tolist()
    children: dict[int, list[int]] = {}  # only queues with victims left; -1 is above the roots
    for queue in sorted({queue for leaf in leaves for queue in tree.path(leaf).tolist()}):
        children.setdefault(int(tree.parent_of_queue[queue]), []).append(queue)
    while children:
        queue = -1
        while queue in children:
            queue = _most_served(session, children[queue], held)
        at = next(leaves[queue])
        path = tree.path(queue)
        held[:, path] -= amounts[:, [at]]
        left[queue] -= 1
        if not left[queue]:
            _take_out(children, path.tolist())
        yield int(running.job[at])


def _most_served(session: Session, siblings: list[int], held: Amounts) -> int:
    """Return the queue that would be served last if each asked for nothing more."""
    if len(siblings) == 1:
        return siblings[0]
    rows = np.array(siblings)
    now = held.take(rows, axis=1)
    best = np.arange(len(rows))
    for key in session.ask.queue_order(session, rows, now, np.zeros_like(now)):
        keys = key[best]
        best = best[keys == keys.max()]
    # Siblings stand oldest first, so among equals the last is the youngest.
    return siblings[int(best[-1])]


def _take_out(children: dict[int, list[int]], path: list[int]) -> None:
    """Forget a leaf without further victims, and the queues above that have no other."""
    for queue, parent in zip(path, [*path[1:], -1], strict=True):
        children[parent].remove(queue)
        if children[parent]:
            return
        del children[parent]
