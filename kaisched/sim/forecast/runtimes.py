"""Run times of a forecast: declared by jobs, or learned from the runs of their queue or shard.

Learned ones are drawn from the product-limit estimate of Kaplan and Meier: runs that have ended,
and runs that go on, of which only the least length is known. Beyond the longest that is known, the
median of the rest of a run is as long as it has lasted.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np

from kaisched.core.axis import FloatVec
from kaisched.core.snapshot import Snapshot
from kaisched.objects.labels import RUN_SECONDS
from kaisched.sim.forecast.history import Past

ENOUGH: Final = 10
"""Ended runs that a queue needs for a distribution of its own."""
_LONGEST: Final = 100.0
"""Longest run, as a multiple of the longest that is known."""
_LEAST_S: Final = 1.0


class Lengths:
    """The distribution of run times, estimated from runs."""

    def __init__(self, ended_s: Sequence[float], running_s: Sequence[float] = ()) -> None:
        """Take the lengths of ended runs, and how long others have run so far."""
        self.ended = len(ended_s)
        lengths: FloatVec = np.array([*ended_s, *running_s], np.float64)
        is_end = np.arange(len(lengths)) < self.ended
        # Of equal lengths, ends come first: who still runs was there when the other ended.
        order = np.lexsort((~is_end, lengths))
        length: FloatVec = np.maximum(lengths[order], _LEAST_S)
        is_end = is_end[order]
        at_risk = np.arange(len(lengths), 0, -1)
        kept: FloatVec = np.where(is_end, 1.0 - 1.0 / at_risk, 1.0)
        left = kept.cumprod()
        self._at_s: FloatVec = length[is_end]
        self._left: FloatVec = left[is_end]
        """The part of all runs that is longer than the length at the same place."""
        self._longest_s = float(length[-1]) if len(length) else 0.0

    def draw(self, chance: float, age_s: float = 0.0) -> float:
        """Return the length of a run that has lasted ``age_s``; ``chance`` is in [0, 1).

        It is infinite if no run has ended.
        """
        if not self.ended:
            return math.inf
        at = int(np.searchsorted(self._at_s, age_s, side="right"))
        left = float(self._left[at - 1]) if at else 1.0
        wanted = left * (1.0 - chance)
        # The first length with no more than the wanted part left.
        later = self._left[at:]
        found = int(np.searchsorted(-later, -wanted, side="left"))
        if found < len(later):
            return float(self._at_s[at + found])
        from_s = max(self._longest_s, age_s)
        beyond = wanted / (float(later[-1]) if len(later) else left)
        return from_s * min(1.0 / max(beyond, 1.0 / _LONGEST), _LONGEST)


class RunTimes:
    """The run times of the jobs of a snapshot."""

    def __init__(
        self, snapshot: Snapshot, now_s: float, past: Past, declared_s: FloatVec | None = None
    ) -> None:
        """Estimate the distributions.

        Args:
            snapshot: with the jobs.
            now_s: the time of the snapshot.
            past: the runs that have ended.
            declared_s: ``(J,)`` run times in seconds, NaN for unknown; by default those in the
                annotations of the jobs.

        """
        jobs = snapshot.jobs
        self._names = snapshot.queues.name
        runs = jobs.active > 0
        started_s = np.where(np.isnan(jobs.last_start_s), jobs.created_s, jobs.last_start_s)
        self.age_s: FloatVec = np.where(runs, np.maximum(now_s - started_s, 0.0), 0.0)
        """``(J,)`` how long each job has run, 0 for those that wait."""
        self.declared_s = declared_of(snapshot, past.declared) if declared_s is None else declared_s
        ages: dict[str, list[float]] = {}
        for job in np.flatnonzero(runs).tolist():
            ages.setdefault(self._queue(int(jobs.queue_of_job[job])), []).append(self.age_s[job])
        ended = past.ended_s
        self.shard = Lengths(
            [it for of in ended.values() for it in of], [it for of in ages.values() for it in of]
        )
        self.of_queue = {
            queue: Lengths(lengths, ages.get(queue, ()))
            for queue, lengths in ended.items()
            if len(lengths) >= ENOUGH and queue
        }
        self._queue_of_job = jobs.queue_of_job

    def _queue(self, row: int) -> str:
        return self._names[row] if row >= 0 else ""

    def is_known(self, job: int) -> bool:
        """Tell whether a job declares a run time that may still be true."""
        return job < len(self.declared_s) and bool(self.declared_s[job] > self.age_s[job])

    def is_doubtful(self, job: int) -> bool:
        """Tell whether a job declares what is no run time, or runs for longer."""
        return bool(self.declared_s[job] <= self.age_s[job])

    def draw(self, job: int, queue: int, chance: float, *, is_new: bool) -> float:
        """Return the length of a job's run from its start; ``chance`` is in [0, 1)."""
        if self.is_known(job):
            return float(self.declared_s[job])
        is_running = not is_new and job < len(self.age_s)
        return self.lengths(queue).draw(chance, float(self.age_s[job]) if is_running else 0.0)

    def lengths(self, queue: int) -> Lengths:
        """Return the distribution for a queue: its own, or that of the shard."""
        return self.of_queue.get(self._queue(queue), self.shard)


def declared_of(snapshot: Snapshot, of_pod: Mapping[str, str]) -> FloatVec:
    """Return the seconds ``(J,)`` that each job declares, by itself or by a pod; NaN for none."""
    jobs, names = snapshot.jobs, snapshot.tasks.name
    declared_s = np.full(len(jobs.name), np.nan)
    for job in np.flatnonzero((jobs.active > 0) | (jobs.pending > 0)).tolist():
        text = jobs.metadata[job].annotations.get(RUN_SECONDS) if len(jobs.metadata) else None
        if text is None and of_pod:
            text = next(
                (of_pod[it] for row in jobs.tasks[job] if (it := names[row]) in of_pod), None
            )
        if text is not None:
            declared_s[job] = _seconds(text)
    return declared_s


def _seconds(text: str) -> float:
    """Return a number of seconds, 0 for what is none: no run is that short."""
    try:
        seconds = float(text)
    except ValueError:
        return 0.0
    return seconds if 0.0 < seconds < np.inf else 0.0
