"""Why nothing was taken from others for a job: what refused each action, and what would mend it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from kaisched.core.axis import PODS
from kaisched.core.refusals import TEXTS, Refusal
from kaisched.units import UNLIMITED, format_amount

if TYPE_CHECKING:
    from kaisched.core.axis import Amounts
    from kaisched.framework.session import Session

MENDS: Final[dict[Refusal, str]] = {
    Refusal.OVER_FAIR_SHARE: "a larger quota or over-quota weight, or less of its own work running",
    Refusal.NON_PREEMPTIBLE_OVER_QUOTA: "a larger quota, or being preemptible",
    Refusal.OVER_LIMIT: "a larger limit",
    Refusal.NO_VICTIMS: "free room, or preemptible work that it may take the place of",
    Refusal.NOT_OVER_SHARE: "a larger share of its own, since others hold no more than theirs",
    Refusal.SATURATION_ORDER: "a smaller request, so that its queue stays the less saturated one",
    Refusal.MIN_RUNTIME: "time, until others have run for their minimum runtime",
    Refusal.EVICTION_DELAY: "time, until its preemption delay is over",
    Refusal.SEARCH_BUDGET: "fewer constraints, so that fewer places have to be tried",
    Refusal.EVICTION_BUDGET: "time, or a larger evictionsPerHour of the shard",
    Refusal.DISRUPTION_BUDGET: "a budget that allows more disruptions, or other work to evict",
    Refusal.TAKING_TURNS: "any change of what runs or waits, or ten minutes",
    Refusal.UNDERSHOOTS: "work that can be taken without leaving its queue below its quota",
    Refusal.NO_ROOM: "more idle room in all, which moving work about could join",
}
"""By refusal, what would let the job take its place."""


def untaken(session: Session, job: int, ask: Amounts) -> dict[str, str]:
    """Return by action why it evicted nothing for a job; ``ask`` is ``(R,)``, its next batch."""
    told: dict[str, str] = {}
    for action, codes in session.outcome.claims.items():
        code = Refusal(int(codes[job]))
        if code is Refusal.NONE:
            continue
        reason = TEXTS[code].sentence
        if code is Refusal.OVER_FAIR_SHARE:
            reason = _over_fair_share(session, job, ask) or reason
        mend = MENDS.get(code)
        told[action] = f"{reason}; would help: {mend}" if mend else reason
    return told


def _over_fair_share(session: Session, job: int, ask: Amounts) -> str:
    """Name the first resource in which the job's queue would pass its fair share."""
    queue = int(session.jobs.queue_of_job[job])
    held = (session.ledger if session.has_moved else session).held[:, queue]
    share = session.fair_share[:, queue]
    for row in np.flatnonzero((ask > 0) & (held + ask > share) & (share < UNLIMITED)).tolist():
        if row != PODS:
            what = session.axis.names[row]
            numbers = (format_amount(what, int(each[row])) for each in (held, ask, share))
            return "queue {}: {} {} held + {} asked is over its fair share of {}".format(
                session.queues.name[queue], what, *numbers
            )
    return ""
