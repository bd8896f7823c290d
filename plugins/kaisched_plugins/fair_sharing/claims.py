"""Why claims may take from nobody, found before any search: F11, F14 and F22."""

from __future__ import annotations

import numpy as np

from kaisched import Amounts, CodeVec, RowVec, Session
from kaisched_plugins.fair_sharing import refusals
from kaisched_plugins.fair_sharing.allowed import Rules
from kaisched_plugins.fair_sharing.choices import Choices
from kaisched_plugins.fair_sharing.choosing import PREEMPT
from kaisched_plugins.fair_sharing.classical.gate import Gate
from kaisched_plugins.fair_sharing.hope import Hope, may_take_own
from kaisched_plugins.fair_sharing.tables import Now, Table


def claim_codes(
    session: Session,
    table: Table,
    now: Now,
    choices: Choices,
    rules: Rules,
    action: str,
    job: RowVec,
    ask: Amounts,
) -> CodeVec:
    """Return why claims may take from nobody, ``(K,)``; 0 where they might."""
    own = may_take_own(session, table, job)
    is_on = table.is_on[session.jobs.queue_of_job[job]]
    codes = np.zeros(len(job), np.int16)
    off = np.flatnonzero(~is_on)
    if off.size:
        gate = Gate(session, table, now.holdings(session), choices)
        across = action != PREEMPT
        codes[off] = gate.codes(job[off], ask[:, off], own[off], across=across)
    on = np.flatnonzero(is_on)
    if action == PREEMPT:
        codes[on] = ~own[on] * np.int16(refusals.POLICY)
    elif on.size:
        hope = Hope(session, table, now.copy(session), choices)
        codes[on] = np.where(own[on], 0, hope.codes(job[on], ask[:, on]))
    if rules.high_from is not None:  # neither shares nor levels matter to them
        is_high = session.jobs.priority[job] >= rules.high_from
        codes[is_high & ((action != PREEMPT) | (codes == refusals.BORROWS))] = 0
    return codes
