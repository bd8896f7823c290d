"""The order of jobs inside their leaf queues: the plugins' keys, then creation, then name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from kaisched.actions.candidates import Candidates
    from kaisched.core.axis import BoolVec, RowVec
    from kaisched.framework.session import Session


def leaf_lists(session: Session, candidates: Candidates) -> list[tuple[int, list[int]]]:
    """Return (leaf queue row, candidate rows in order) for each leaf that has candidates."""
    count = len(candidates)
    if count == 1:
        return [(int(candidates.queue[0]), [0])]
    if not count:
        return []
    order = sorted_rows(session, candidates)
    queue = candidates.queue[order]
    cuts = np.flatnonzero(queue[1:] != queue[:-1]) + 1
    parts = np.split(order, cuts)
    return [(int(candidates.queue[part[0]]), part.tolist()) for part in parts]


def sorted_rows(session: Session, candidates: Candidates) -> RowVec:
    """Return candidate rows by queue, then job order, then creation, then name."""
    job = candidates.job
    keys = [candidates.queue, *session.ask.job_order(session, job), session.jobs.created_s[job]]
    order = np.lexsort(keys[::-1])
    same = np.ones(len(job) - 1, np.bool_)
    for key in keys:
        ranked = key[order]
        same &= ranked[1:] == ranked[:-1]
    return _by_name(session, candidates, order, same) if same.any() else order


def _by_name(session: Session, candidates: Candidates, order: RowVec, same: BoolVec) -> RowVec:
    """Sort runs of equal keys by job name: too rare and too long to be a column."""
    edges = np.flatnonzero(np.diff(np.concatenate(([False], same, [False])).astype(np.int8)))
    rows = order.tolist()
    names = session.jobs.name
    job = candidates.job.tolist()
    for start, end in zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True):
        rows[start : end + 1] = sorted(rows[start : end + 1], key=lambda at: names[job[at]])
    return np.array(rows, np.int64)


def order_entry(session: Session, candidates: Candidates, rows: list[int]) -> list[tuple[Any, ...]]:
    """Return a sortable entry for each candidate row, in the terms of :func:`sorted_rows`."""
    job = candidates.job[rows]
    columns = [key.tolist() for key in session.ask.job_order(session, job)]
    columns.append(session.jobs.created_s[job].tolist())
    columns.append([session.jobs.name[row] for row in job.tolist()])
    return list(zip(*columns, strict=True))
