"""The order of jobs: the plugins' keys, then creation, then name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from kaisched.framework.session.host import host_of

if TYPE_CHECKING:
    from kaisched.core.axis import RowVec
    from kaisched.framework.session.view import SessionView


def ordered_jobs(session: SessionView, job: RowVec) -> RowVec:
    """Return job rows in job order, the most important first."""
    if len(job) < 2:  # noqa: PLR2004 - nothing to order
        return job
    host = host_of(session)
    keys = [*host.ask.job_order(host, job), session.jobs.created_s[job]]
    ordered: RowVec = job[last_first(session, job, keys)[::-1]]
    return ordered


def jobs_by_age(session: SessionView, job: RowVec) -> RowVec:
    """Return job rows by creation and name, the oldest first."""
    if len(job) < 2:  # noqa: PLR2004 - nothing to order
        return job
    ordered: RowVec = job[last_first(session, job, [session.jobs.created_s[job]])[::-1]]
    return ordered


def last_first(session: SessionView, rows: RowVec, columns: list[Any]) -> RowVec:
    """Return the places of job rows by key columns, the last first; names settle ties.

    A job may be there twice, its elastic pods before its core: so they stay where keys tie.
    """
    order: RowVec = np.lexsort(columns[::-1])[::-1]
    same = np.ones(max(len(rows) - 1, 0), np.bool_)
    for key in reversed(columns):  # the last column, their creation, leaves hardly any tie
        ranked = key.take(order)
        same &= ranked[1:] == ranked[:-1]
        if not np.count_nonzero(same):
            break
    tied = same.nonzero()[0]
    if tied.size:
        names = session.jobs.name
        begins = tied[np.diff(tied, prepend=-2) > 1]
        ends = tied[np.diff(tied, append=len(rows) + 1) > 1] + 2
        for begin, end in zip(begins.tolist(), ends.tolist(), strict=True):
            group = sorted(order[begin:end].tolist())
            order[begin:end] = sorted(group, key=lambda at: names[int(rows[at])], reverse=True)
    return order
