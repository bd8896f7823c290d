"""Why nothing was taken from others for a job: what refused each action."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from kaisched.core.axis import PODS
from kaisched.core.refusals import TEXTS, Refusal
from kaisched.framework.batching import asked_of, batch_of
from kaisched.units import UNLIMITED, format_amount

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kaisched.framework.session import Session


def untaken(session: Session, job: int) -> dict[str, str]:
    """Return by action why it evicted nothing for a job."""
    told: dict[str, str] = {}
    for action, codes in session.outcome.claims.items():
        code = Refusal(int(codes[job]))
        if code is Refusal.NONE:
            continue
        reason = _over_fair_share(session, job) if code is Refusal.OVER_FAIR_SHARE else ""
        told[action] = reason or TEXTS[code].sentence
    return told


def in_words(told: Mapping[str, str]) -> str:
    """Say it in a sentence; actions that were refused for one reason are named together."""
    actions: dict[str, list[str]] = {}
    for action, reason in told.items():
        actions.setdefault(reason, []).append(action)
    return ". ".join(f"{', '.join(those)}: {reason}" for reason, those in actions.items())


def _over_fair_share(session: Session, job: int) -> str:
    """Name the first resource in which the job's queue would pass its fair share."""
    queue = int(session.jobs.queue_of_job[job])
    held = (session.ledger if session.has_moved else session).held[:, queue]
    share, ask = session.fair_share[:, queue], asked_of(session, job)
    for row in np.flatnonzero((ask > 0) & (held + ask > share) & (share < UNLIMITED)).tolist():
        if row == PODS:
            continue
        what = session.axis.names[row]
        has, asks, fair = (format_amount(what, int(each[row])) for each in (held, ask, share))
        name = f"queue {session.queues.name[queue]}"
        if held[row] == 0:
            size = batch_of(session, job)[1]
            who = "the pod" if size == 1 else f"the gang of {size}"
            return f"{name}: {who} asks for {what} {asks}, more than its fair share of {fair}"
        return f"{name}: {what} {has} held + {asks} asked is over its fair share of {fair}"
    return ""
