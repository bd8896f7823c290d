"""Groups of jobs that wait alike (of one queue, for one reason, with equal pods): share trials."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np

from kaisched.core.refusals import text_of
from kaisched.framework.session.batches import asked_of

if TYPE_CHECKING:
    from kaisched.core.axis import CodeVec, IntVec, RowVec
    from kaisched.framework.report.records import Records
    from kaisched.framework.session.session import Session

Key: TypeAlias = tuple[object, ...]
"""Identifies a group of jobs that wait alike, across cycles."""


class Alike(NamedTuple):
    """Some jobs that wait alike."""

    key: Key
    code: int
    queue: str
    rows: RowVec
    """Ascending."""


def alike(session: Session, records: Records) -> list[Alike]:
    """Return, in groups, the waiting jobs for whose reasons there are changes to try."""
    tried = [code for code in np.unique(records.codes).tolist() if text_of(code).tried]
    is_asked = np.isin(records.codes, tried)
    row, code = records.rows[is_asked], records.codes[is_asked]
    if not row.size:
        return []
    columns = _columns(session, row, code)
    group = np.zeros(len(row), np.int64)
    for column in columns:
        _, number = np.unique(column, return_inverse=True)
        _, group = np.unique(group * (int(number.max()) + 1) + number, return_inverse=True)
    order = np.argsort(group, kind="stable")
    starts = np.flatnonzero(np.diff(group[order], prepend=-1))
    numbers = np.stack(columns)[:, order[starts]].T.tolist()
    parts = np.split(row[order], starts[1:])
    return [_named(session, number, rows) for number, rows in zip(numbers, parts, strict=True)]


def _named(session: Session, numbers: list[int], rows: RowVec) -> Alike:
    """Replace row numbers by names: rows change when nodes or queues change."""
    queue, code, shape, *others = numbers
    pods: object = session.jobs.name[int(rows[0])]
    if shape >= 0:
        request = session.shapes.request[:, shape].tobytes()
        pods = request, session.shapes.constraints[shape]
    name = session.queues.name[queue]
    return Alike((name, code, pods, *others), code, name, rows)


def _columns(session: Session, row: RowVec, code: CodeVec) -> list[IntVec]:
    """Return ``(K,)`` columns that are equal for jobs that are alike."""
    jobs, podsets = session.jobs, session.podsets
    is_simple = (jobs.podset_count[row] == 1) & (jobs.shape_of_job[row] >= 0)
    active = session.ledger.job_active if session.has_moved else jobs.active
    columns: list[Any] = [
        jobs.queue_of_job[row],
        code,
        np.where(is_simple, jobs.shape_of_job[row], -1 - row),
        session.pending_of(row),
        active[row],
        podsets.minimum[jobs.first_podset[row]],
        jobs.is_preemptible[row],
        jobs.priority[row],
        *(codes[row] for codes in session.outcome.claims.values()),
    ]
    return [column.astype(np.int64) for column in columns]


class Subject(NamedTuple):
    """The properties of a job that advice about it depends on; compared across cycles."""

    created_s: float
    queue: str
    pods: int
    asked: tuple[tuple[str, int], ...]


def subject_of(session: Session, job: int) -> Subject:
    """Return the present subject of a job: a later job may have the same name."""
    jobs, ask = session.jobs, asked_of(session, job)
    names = session.axis.names
    return Subject(
        float(jobs.created_s[job]),
        session.queues.name[int(jobs.queue_of_job[job])],
        int(jobs.active[job] + jobs.pending[job]),
        tuple((names[at], int(ask[at])) for at in np.flatnonzero(ask).tolist()),
    )
