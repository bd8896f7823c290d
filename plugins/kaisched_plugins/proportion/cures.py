"""Proposes cures for refusals of proportion: larger bounds, the end of work, preemptibility."""

from __future__ import annotations

from collections.abc import Iterator

from kaisched import Change, Kind, Proposal, Session, end_of_work, larger_bounds
from kaisched_plugins.proportion import refusals


def cures(session: Session, job: int, code: int) -> Iterator[Proposal]:
    """Yield the changes to try for a job that is refused with a code, likely ones first."""
    queues = session.queues
    if code == refusals.OVER_LIMIT:
        yield from larger_bounds(session, job, Kind.LIMIT, queues.limit)
        yield from end_of_work(session, job, queues.limit)
    else:
        yield from larger_bounds(session, job, Kind.QUOTA, queues.deserved)
        if code == refusals.OVER_QUOTA:
            yield Kind.PREEMPTIBLE, (Change(session.jobs.name[job]),)
            yield from end_of_work(session, job, queues.deserved)
