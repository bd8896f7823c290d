"""Whether the queues on a job's path accept a request, with what they hold now."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from kaisched.core.axis import Amounts
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
