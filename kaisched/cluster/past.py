"""What a store remembers of jobs: when they began, and when they were evicted last."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from kaisched.core.tables import EVICTED

if TYPE_CHECKING:
    import numpy as np

    from kaisched.cluster.rowstore import RowStore


@dataclass(frozen=True, slots=True)
class JobPast:
    """What a store remembers of a job, in seconds since 1970; None where nothing is known."""

    started_s: float | None = None
    evicted_s: float | None = None


_NO_PAST: Final = JobPast()


class Pasts:
    """Reads and restores the past of jobs, which is written in their rows."""

    def __init__(self, rows: RowStore) -> None:
        """Know what rows say."""
        self._rows = rows

    def last_evicted_s(self, job: str) -> float:
        """Return when a job was last evicted, NaN where that is not known."""
        row = self._rows.row_of_job(job)
        return float(self._rows.jobs.rare.data[row, EVICTED]) if row >= 0 else math.nan

    def note_eviction(self, pod: str, at_s: float) -> None:
        """Note when the job of a pod was last evicted; NaN says nothing."""
        self._rows.accounts.note_eviction(self._rows.row_of_task(pod), at_s)

    def forget_evictions(self, at_s: float, pods: int, before: Mapping[str, float]) -> None:
        """Take back that pods were evicted, for their evictions were not sent.

        Args:
            at_s: the time that was noted.
            pods: how many.
            before: by job of which no pod was evicted then, when it was evicted before that.

        """
        rows = self._rows
        rows.touch()
        rows.accounts.forget_evictions(at_s, pods)
        for job, before_s in before.items():
            if self.last_evicted_s(job) == at_s:
                rows.jobs.set_rare(rows.row_of_job(job), EVICTED, before_s)

    def of_jobs(self) -> Iterable[tuple[str, JobPast]]:
        """Yield what is remembered of each living job, by name."""
        jobs = self._rows.jobs
        started_s, rare = jobs.last_start_s.data, jobs.rare.data
        for name, job in sorted(jobs.row_of_name.items()):
            past = JobPast(_known(started_s[job]), _known(rare[job, EVICTED]))
            if past != _NO_PAST:
                yield name, past

    def restore(self, pasts: Mapping[str, JobPast], evictions_s: Iterable[float]) -> None:
        """Remember what another store did, and when pods were evicted in the last hour."""
        rows = self._rows
        for name, past in pasts.items():
            job = rows.row_of_job(name)
            if job >= 0:
                rows.jobs.last_start_s.own()[job] = _or_nan(past.started_s)
                rows.jobs.set_rare(job, EVICTED, _or_nan(past.evicted_s))
        rows.accounts.evictions_s.extend(evictions_s)


def _known(seconds: np.float64) -> float | None:
    return None if math.isnan(seconds) else float(seconds)


def _or_nan(seconds: float | None) -> float:
    return math.nan if seconds is None else seconds
