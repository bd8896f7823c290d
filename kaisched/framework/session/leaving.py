"""What pods that leave still hold in their queues, and the binds that have to wait for that.

While a cycle decides, what leaves counts as gone, so that shares look ahead. A bind does not: until
a pod is gone from the API, its queues hold what it holds. So at the end of the cycle the gates are
asked once more, with all that leaves counted as held, victims of this cycle included. What they
refuse then stays on its node as a promise, and is bound in the cycle in which they agree.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from kaisched.core.charges import charges
from kaisched.core.refusals import Refusal
from kaisched.core.states import TaskState
from kaisched.framework.session.ledger import held_in

if TYPE_CHECKING:
    from kaisched.core.axis import Amounts, BoolVec, RowVec
    from kaisched.framework.session.session import Session

BIND: Final = "bind"
"""What gates are asked about in place of an action: whether pods may be bound at once."""
_WAITING: Final = int(Refusal.WAITING_FOR_RELEASE)


def await_leaving(session: Session) -> None:
    """Turn binds into promises that a queue has no room for beside what still leaves."""
    outcome = session.outcome
    tasks, nodes = outcome.binds()
    if not len(tasks) or session.ask.gates(session, BIND) is None:
        return
    leaving = held_in(session.snapshot, TaskState.RELEASING)
    if leaving is None and not outcome.evictions:
        return
    waits = _waiting(session, tasks, nodes, leaving)
    statement = session.statement()
    for task, node in zip(tasks[waits].tolist(), nodes[waits].tolist(), strict=True):
        statement.pipeline(task, node)
    outcome.postpone(waits)


def _waiting(
    session: Session, tasks: RowVec, nodes: RowVec, leaving: tuple[Amounts, Amounts] | None
) -> BoolVec:
    """``(B,)`` which binds have to wait, decided in turn; what waits is not held yet.

    What one commit binds of a job is decided as a whole, and after the first that waits nothing of
    the job is bound: no elastic pod starts before the gang.
    """
    held, firm = session.held.copy(), session.held_non_preemptible.copy()
    if leaving is not None:
        held += leaving[0]
        firm += leaving[1]
    outcome, jobs = session.outcome, session.jobs
    job = session.tasks.job_of_task[tasks]
    is_first = np.append(True, job[1:] != job[:-1])
    is_first[outcome.bind_starts()] = True
    first = np.flatnonzero(is_first)
    ask = np.add.reduceat(charges(session, tasks, nodes), first, axis=1)
    waits = np.zeros(len(first), np.bool_)
    for at, row in enumerate(job[first].tolist()):
        path = session.queues.tree.path(int(jobs.queue_of_job[row])).astype(np.int64)
        asked = np.repeat(ask[:, [at]], len(path), axis=1)
        if row not in outcome.awaits:
            codes = session.ask.queue_gate(
                session, BIND, path, np.full(len(path), row), asked, held[:, path], firm[:, path]
            )
            if codes is None or not codes.any():
                held[:, path] += asked
                firm[:, path] += asked * (not jobs.is_preemptible[row])
                continue
            outcome.awaits[row] = int(path[codes.argmax()])
            outcome.refusal[row] = _WAITING
        waits[at] = True
    return waits.repeat(np.diff(np.append(first, len(tasks))))
