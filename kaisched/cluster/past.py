"""The past of jobs: when each job last started, and when it was last evicted."""

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
    """Start and eviction of a job, in seconds since 1970; None if unknown."""

    started_s: float | None = None
    evicted_s: float | None = None


_NO_PAST: Final = JobPast()


class Pasts:
    """The past of all jobs, which is kept in their rows."""

    def __init__(self, rows: RowStore) -> None:
        """Take the rows."""
        self._rows = rows

    def last_evicted_s(self, job: str) -> float:
        """Return when a job was last evicted, NaN if unknown."""
        row = self._rows.row_of_job(job)
        return float(self._rows.jobs.rare.data[row, EVICTED]) if row >= 0 else math.nan

    def note_eviction(self, pod: str, at_s: float) -> None:
        """Note when the job of a pod was last evicted; NaN changes nothing."""
        self._rows.accounts.note_eviction(self._rows.row_of_task(pod), at_s)

    def forget_evictions(self, at_s: float, pods: int, before: Mapping[str, float]) -> None:
        """Take back evictions of pods that were noted and never sent.

        Args:
            at_s: the noted time.
            pods: how many pods.
            before: the earlier eviction of each job of which no pod was evicted at ``at_s``.

        """
        rows = self._rows
        rows.touch()
        rows.accounts.forget_evictions(at_s, pods)
        for job, before_s in before.items():
            if self.last_evicted_s(job) == at_s:
                rows.jobs.set_rare(rows.row_of_job(job), EVICTED, before_s)

    def of_jobs(self) -> Iterable[tuple[str, JobPast]]:
        """Yield the past of each living job, by name."""
        jobs = self._rows.jobs
        started_s, rare = jobs.last_start_s.data, jobs.rare.data
        for name, job in sorted(jobs.row_of_name.items()):
            past = JobPast(_known(started_s[job]), _known(rare[job, EVICTED]))
            if past != _NO_PAST:
                yield name, past

    def restore(self, pasts: Mapping[str, JobPast], evictions_s: Iterable[float]) -> None:
        """Restore the past of jobs, and the times of all evictions in the last hour."""
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
