"""Says which demand of a queue counts for no share, and why."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import numpy as np

from kaisched.core.axis import PODS
from kaisched.core.refusals import Refusal, text_of
from kaisched.framework.report.codes import codes_of
from kaisched.framework.report.node_refusals import never_fits
from kaisched.framework.report.reason import LeftOut
from kaisched.framework.session.unschedulable import BEYOND_BOUNDS
from kaisched.units import format_amount

if TYPE_CHECKING:
    from kaisched.core.axis import CodeVec, RowVec
    from kaisched.framework.session.session import Session


def left_out(session: Session) -> dict[int, LeftOut]:
    """Return, by leaf queue, the demand that could not be met if nothing else ran."""
    found = session.unschedulable
    if found is None:
        return {}
    names, job = session.axis.names, session.tasks.job_of_task[found.tasks]
    reasons = [text_of(code).name for code in _codes(session, found.tasks, found.code).tolist()]
    queue = session.jobs.queue_of_job[job]
    told: dict[int, LeftOut] = {}
    for row in np.unique(queue).tolist():
        amounts = {
            name: int(amount)
            for at, (name, amount) in enumerate(zip(names, found.amounts[:, row], strict=True))
            if amount and at != PODS
        }
        reason_of_job: dict[int, str] = {}
        for at in (queue == row).nonzero()[0].tolist():  # of several the first by name
            reason_of_job[int(job[at])] = min(reasons[at], reason_of_job.get(int(job[at]), "~"))
        told[row] = _told(session, amounts, reason_of_job)
    return told


def _codes(session: Session, tasks: RowVec, code: CodeVec) -> CodeVec:
    """Return why pods cannot start; those without a reason yet find no node."""
    codes, shape = code.copy(), session.tasks.shape_of_task[tasks]
    if (at := (code == BEYOND_BOUNDS).nonzero()[0]).size:
        jobs, place = np.unique(session.tasks.job_of_task[tasks[at]], return_inverse=True)
        codes[at] = codes_of(session, jobs)[place]
    for each in np.unique(shape[code == 0]).tolist():
        never = never_fits(session, each) or Refusal.NO_NODE_ALLOWED
        codes[(code == 0) & (shape == each)] = int(never)
    return codes


def _told(session: Session, amounts: dict[str, int], reason_of_job: dict[int, str]) -> LeftOut:
    counts = Counter(reason_of_job.values())
    reasons = sorted(counts, key=lambda name: (-counts[name], name))
    first = min(session.jobs.name[job] for job, it in reason_of_job.items() if it == reasons[0])
    asked = " and ".join(f"{name} {format_amount(name, it)}" for name, it in amounts.items())
    why = ", ".join(f"{counts[name]} {name}" for name in reasons)
    message = (
        f"{asked or 'nothing'} that its jobs ask for counts for no share: {why}, such as {first};"
        " they could not start if nothing else ran"
    )
    return LeftOut(amounts, reasons[0], message)
