"""Source of a scenario's jobs as they arrive: planned jobs, and backlogs that are refilled."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kaisched.sim.grid import NEVER, tick_at
from kaisched.sim.making import MOST_JOBS, Bodies, Job
from kaisched.sim.workload import Workload


@dataclass(frozen=True, slots=True)
class Backlog:
    """Jobs of a group of which a fixed number always waits between two instants."""

    bodies: Bodies
    depth: int
    most: int
    begin_tick: int
    end_tick: int

    @property
    def is_endless(self) -> bool:
        """Tell whether the backlog never runs out of jobs."""
        return self.most >= MOST_JOBS and self.end_tick == NEVER


class Drawn:
    """Adds jobs to an initially empty workload as they arrive."""

    def __init__(
        self, workload: Workload, planned: Sequence[Job], backlogs: Sequence[Backlog], step_s: float
    ) -> None:
        """Take planned jobs in any order; jobs submitted at one instant keep their order."""
        self._work = workload
        self._step_s = step_s
        self._planned = sorted(planned, key=lambda job: job.submitted_s)
        self._at = 0
        self._backlogs = backlogs
        self._made = [0] * len(backlogs)
        self._due: dict[int, dict[int, int]] = {}
        """Number of jobs that each backlog lacks, by tick."""
        self._backlog_of_job: dict[int, int] = {}
        for at, backlog in enumerate(backlogs):
            self._want(at, backlog.depth, backlog.begin_tick)
        self.groups: list[str] = []
        """Origin of each job of the workload."""

    @property
    def next_tick(self) -> int:
        """The earliest tick at which jobs arrive, :data:`NEVER` without any."""
        planned = NEVER
        if self._at < len(self._planned):
            planned = tick_at(self._planned[self._at].submitted_s, self._step_s)
        return min(planned, min(self._due, default=NEVER))

    def take(self, tick: int) -> range:
        """Return the jobs that arrive at this tick."""
        first = len(self._work)
        planned = self._planned
        while self._at < len(planned):
            job = planned[self._at]
            if tick_at(job.submitted_s, self._step_s) > tick:
                break
            self._add(job, tick)
            self._at += 1
        for at, count in sorted(self._due.pop(tick, {}).items()):
            for _ in range(count):
                self._backlog_of_job[len(self._work)] = at
                self._add(self._backlogs[at].bodies.make(tick * self._step_s), tick)
        return range(first, len(self._work))

    def note_start(self, job: int, tick: int) -> None:
        """Refill a backlog at the next tick after one of its jobs starts."""
        at = self._backlog_of_job.pop(job, None)
        if at is not None:
            self._want(at, 1, tick + 1)

    def _want(self, at: int, count: int, tick: int) -> None:
        backlog = self._backlogs[at]
        count = min(count, backlog.most - self._made[at])
        if count > 0 and tick < backlog.end_tick:
            self._made[at] += count
            due = self._due.setdefault(tick, {})
            due[at] = due.get(at, 0) + count

    def _add(self, job: Job, tick: int) -> None:
        work = self._work
        work.submitted_s.append(job.submitted_s)
        work.arrival.append(tick)
        work.ticks.append(job.ticks)
        work.gpus.append(job.gpus)
        work.queue.append(job.queue)
        work.kind.append(job.kind)
        self.groups.append(job.group)
