"""The order of jobs inside their leaf queues: the plugins' keys, then creation, then name."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import numpy as np

from kaisched.core.refusals import Refusal

if TYPE_CHECKING:
    from kaisched.actions.order.candidates import Candidates
    from kaisched.core.axis import BoolVec, IntVec, RowVec
    from kaisched.framework.session.session import Session


class LeafJobs:
    """One leaf's candidate rows in order; names settle ties only in the part that is read.

    Names are too long to be a column. A burst of jobs created in one second is one long tie, of
    which a cycle reads the first few.
    """

    __slots__ = ("_job", "_names", "_run", "_settled", "queue", "rows")

    def __init__(
        self, session: Session, candidates: Candidates, rows: list[int], run: list[int]
    ) -> None:
        """Take rows that are sorted except for ties; equal numbers in ``run`` are one tie."""
        self.queue = int(candidates.queue[rows[0]])
        self.rows = rows
        self._run = run
        self._settled = 0
        self._names = session.jobs.name
        self._job = candidates.job  # of all candidates: shared, since there may be many leaves

    def __len__(self) -> int:
        """Return how many rows are left."""
        return len(self.rows)

    def settle(self, end: int) -> None:
        """Put the first ``end`` rows in their final order."""
        rows, run = self.rows, self._run
        end = min(end, len(rows))
        while self._settled < end:
            start = stop = self._settled
            while stop < len(rows) and run[stop] == run[start]:
                stop += 1
            if stop - start > 1:
                tied = rows[start:stop]
                jobs = self._job[tied].tolist()
                name = {at: self._names[job] for at, job in zip(tied, jobs, strict=True)}
                rows[start:stop] = sorted(tied, key=name.__getitem__)
            self._settled = stop

    def drop_first(self, count: int) -> None:
        """Forget the first rows."""
        if count:
            del self.rows[:count], self._run[:count]
            self._settled = max(0, self._settled - count)

    def keep(self, is_alive: BoolVec) -> None:
        """Keep the rows marked in a mask over all candidates."""
        kept = is_alive[self.rows]
        self._settled = int(np.count_nonzero(kept[: self._settled]))
        marks = kept.tolist()
        self.rows = list(itertools.compress(self.rows, marks))
        self._run = list(itertools.compress(self._run, marks))

    def insert(self, place: int, row: int) -> None:
        """Insert a row at its place; all rows must be settled."""
        self.rows.insert(place, row)
        self._run.insert(place, -1)
        self._settled = len(self.rows)


def leaf_lists(session: Session, candidates: Candidates) -> list[LeafJobs]:
    """Return the ordered candidates of each leaf queue that has some."""
    count = len(candidates)
    if count < 2:  # noqa: PLR2004 - nothing to order
        return [LeafJobs(session, candidates, [0], [0])] if count else []
    order, run = sorted_rows(session, candidates, np.arange(count))
    queue = candidates.queue[order]
    cuts = [0, *(np.flatnonzero(queue[1:] != queue[:-1]) + 1).tolist(), count]
    rows, runs = order.tolist(), run.tolist()
    return [
        LeafJobs(session, candidates, rows[start:end], runs[start:end])
        for start, end in itertools.pairwise(cuts)
    ]


def sorted_rows(session: Session, candidates: Candidates, rows: RowVec) -> tuple[RowVec, IntVec]:
    """Return candidate rows by queue, job order and creation, and the number of each row's tie."""
    job = candidates.job[rows]
    keys = [
        candidates.queue[rows],
        *(session.ask.job_order(session, job) or ()),
        session.jobs.created_s[job],
    ]
    order: RowVec = np.lexsort(keys[::-1])
    same = np.ones(len(job) - 1, np.bool_)
    for key in keys:
        ranked = key[order]
        same &= ranked[1:] == ranked[:-1]
    return rows[order], np.concatenate(([0], np.cumsum(~same)))


def order_entry(session: Session, candidates: Candidates, rows: list[int]) -> list[tuple[Any, ...]]:
    """Return a sortable entry for each candidate row, with the keys of :func:`sorted_rows`."""
    job = candidates.job[rows]
    columns = [key.tolist() for key in session.ask.job_order(session, job) or ()]
    columns.append(session.jobs.created_s[job].tolist())
    columns.append([session.jobs.name[row] for row in job.tolist()])
    return list(zip(*columns, strict=True))


def keep_best(session: Session, candidates: Candidates, depth: int) -> Candidates:
    """Keep the best ``depth`` jobs of every leaf queue, in job order."""
    mask = np.zeros(len(candidates), np.bool_)
    for jobs in leaf_lists(session, candidates):
        jobs.settle(depth)
        mask[jobs.rows[:depth]] = True
    if not mask.all():
        session.outcome.refusal[candidates.job[~mask]] = int(Refusal.QUEUE_DEPTH)
    return candidates.keep(mask)
