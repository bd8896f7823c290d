"""Whether a plan lasts: who would come first again, and who would take the place at once.

Rules F16 and F25 of docs/explanation/fair-sharing.md.
"""

from __future__ import annotations

import numpy as np

from kaisched import Claim, CodeVec, Session, Units
from kaisched_plugins.fair_sharing import refusals
from kaisched_plugins.fair_sharing.allowed import Rules, claim_work
from kaisched_plugins.fair_sharing.choosing import standing, work_of
from kaisched_plugins.fair_sharing.guard import lacked, unjust
from kaisched_plugins.fair_sharing.holdings import Holdings
from kaisched_plugins.fair_sharing.overtaking import undone
from kaisched_plugins.fair_sharing.tables import Table


def plan_codes(
    session: Session, table: Table, rules: Rules, holdings: Holdings, claim: Claim, units: Units
) -> CodeVec:
    """Return ``(V,)`` why units may not go for a claim; ``holdings`` have lost them.

    One refusal is enough: where any of them may not go, there is no such plan.
    """
    by_row = table.by_row(session, units)
    works = [
        work_of(session, rules, by_row, row)._replace(standing=standing(session, job))
        for row, job in enumerate(units.job.tolist())
    ]
    incoming = claim_work(session, table, rules, claim)
    incoming = incoming._replace(standing=standing(session, claim.job))
    codes = np.zeros(len(units), np.int16)
    by_share = bool(table.is_on[claim.queue])
    lacks = lacked(holdings, incoming, works)
    work = next(unjust(holdings, incoming, works, lacks, by_share=by_share), None)
    if work is not None:
        codes[work.row] = refusals.COMES_BACK
    else:
        codes[0] = undone(session, table, rules, holdings, claim, incoming, works, units)
    return codes
