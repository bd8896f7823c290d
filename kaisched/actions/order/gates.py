"""Whether the queues on a job's path accept a request, with what they hold now."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from kaisched.core.axis import Amounts, IntVec, RowVec
    from kaisched.framework.session.session import Session


def first_shut(
    session: Session, action: str, job: int, ask: Amounts, *, is_counted: bool = False
) -> int:
    """Return the first refusal from a job's leaf queue to the root, or 0; ``ask`` is ``(R,)``.

    ``is_counted`` says that the queues hold ``ask`` by now, as the pods have been placed.
    """
    if not session.ask.gates(session, action):
        return 0
    row, column, ledger = np.array([job]), ask[:, None], session.ledger
    for queue in session.queues.tree.path(int(session.jobs.queue_of_job[job])).tolist():
        here = [queue]
        held, strict = ledger.held[:, here], ledger.held_non_preemptible[:, here]
        if is_counted:
            held -= column
            strict -= column * (not session.jobs.is_preemptible[job])
        codes = session.ask.queue_gate(
            session,
            action,
            np.array(here),
            row,
            column,
            held,
            strict,
        )
        if codes is not None and codes[0]:
            return int(codes[0])
    return 0


def open_count(
    session: Session,
    action: str,
    queue: int,
    job: RowVec,
    ask: IntVec,
    gone: tuple[RowVec, Amounts] | None = None,
) -> int:
    """Return how many jobs of a leaf queue the gates accept, one after the other.

    Each asks for ``ask`` ``(R,)``. Only where the gates rest on sums. ``gone`` has, for each job,
    what is preemptible and goes before it comes: leaf queues ``(K,)`` and amounts ``(R, K)``.
    """
    count = len(job)
    if not count or not session.ask.gates(session, action):
        return count
    ledger = session.ledger
    column = np.repeat(ask[:, None], count, axis=1)
    before = ask[:, None] * np.arange(count)
    is_strict = ~session.jobs.is_preemptible[job]
    before_strict = ask[:, None] * (np.cumsum(is_strict) - is_strict)
    for row in session.queues.tree.path(queue).tolist():
        held = ledger.held[:, [row]] + before
        if gone is not None:
            is_below = (gone[0] >= row) & (gone[0] < session.queues.tree.end_of_queue[row])
            held -= (gone[1] * is_below).cumsum(axis=1)
        codes = session.ask.queue_gate(
            session,
            action,
            np.full(len(job), row),
            job,
            column,
            held,
            ledger.held_non_preemptible[:, [row]] + before_strict,
        )
        if codes is not None and (shut := np.flatnonzero(codes)).size:
            count = min(count, int(shut[0]))
    return count
