"""The order of jobs: the plugins' keys, then creation, then name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from kaisched.framework.session.host import host_of

if TYPE_CHECKING:
    from kaisched.core.axis import IntVec, RowVec
    from kaisched.framework.session.view import SessionView

_RANK: Final = "job_order.rank"
_TIED: Final = "job_order.tied"


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
    if not tied.size:
        return order
    rank = _rank_of_names(session, int(tied.size))
    if rank is not None:
        behind = -np.arange(len(rows))
        by_name: RowVec = np.lexsort([behind, rank.take(rows), *columns[::-1]])[::-1]
        return by_name
    names = session.jobs.name
    begins = tied[np.diff(tied, prepend=-2) > 1]
    ends = tied[np.diff(tied, append=len(rows) + 1) > 1] + 2
    for begin, end in zip(begins.tolist(), ends.tolist(), strict=True):
        group = sorted(order[begin:end].tolist())
        order[begin:end] = sorted(group, key=lambda at: names[int(rows[at])], reverse=True)
    return order


def _rank_of_names(session: SessionView, tied: int) -> IntVec | None:
    """Return the place ``(J,)`` of each job by name, once ties have cost more than to sort all.

    A cycle with one search in a large cluster has few ties; one with a thousand has them each time.
    """
    found = session.found
    rank: IntVec | None = found.get(_RANK)
    if rank is not None:
        return rank
    names = session.jobs.name
    found[_TIED] = found.get(_TIED, 0) + tied
    if found[_TIED] < len(names):
        return None
    rank = found[_RANK] = np.empty(len(names), np.int64)
    rank[sorted(range(len(names)), key=names.__getitem__)] = np.arange(len(names))
    return rank
