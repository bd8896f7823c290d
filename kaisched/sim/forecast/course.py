"""One course of events: cycles in virtual time until a job starts, or the steps are used up.

Runs last as long as was drawn for them. An evicted pod holds its room for a while; a new one then
waits in its place and begins anew. New jobs come as the course was told.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

import numpy as np

from kaisched.core.axis import ALLOCATED_STATES, BoolVec, RowVec, TaskState
from kaisched.core.snapshot import Snapshot
from kaisched.core.usage import Usage
from kaisched.engine.planning import PERIOD_S
from kaisched.framework.cycle import run_cycle
from kaisched.framework.memory import Memory
from kaisched.framework.policy import Policy
from kaisched.framework.report.result import CycleResult
from kaisched.sim.forecast.state import Pods

GRACE_S: Final = 30.0
"""Time for which a pod that was told to go holds its room."""
_PART: Final = 50
"""A cycle runs when one of so many running jobs has ended, or as many jobs have come."""
_LEAST_GAP_S: Final = 60.0
"""After a cycle that moved no pod, the next one may always be so far away."""
_MOST_GAP: Final = 0.1
"""Longest time between two cycles, as a part of the time that has passed: what depends on time
alone, such as a minimum runtime, is seen that late."""
_MOST_IDLE_GAP: Final = 0.25
"""The same while nothing is due."""

RunTime = Callable[[int, bool], float]
"""Returns the length of a job's run in seconds; the flag tells whether it starts anew."""
Watch = Callable[[Snapshot, CycleResult], None]


class World(NamedTuple):
    """What a forecast begins with: all inputs of a cycle."""

    snapshot: Snapshot
    usage: Usage | None
    policy: Policy
    memory: Memory
    now_s: float


class Ended(NamedTuple):
    """The end of a course."""

    started_s: float
    """Time until the job starts; infinite if it has not started."""
    looked_s: float
    """How far the course has gone."""
    steps: int


class Course:
    """A course of events that has just begun."""

    def __init__(
        self,
        world: World,
        run_time: RunTime | None,
        arrivals: Sequence[tuple[float, int]] = (),
        watch: Watch | None = None,
    ) -> None:
        """Begin.

        Args:
            world: what it begins with.
            run_time: how long runs last; None for ever.
            arrivals: (time, row) of jobs that come, in order; their pods are gone at first.
            watch: told of each cycle.

        """
        self._world = world
        self._run_time = run_time
        self._watch = watch
        self._memory = world.memory.without_hints()
        self._now_s = world.now_s
        self.pods = Pods(world.snapshot, [job for _, job in arrivals])
        self._due: list[tuple[float, int, RowVec]] = []
        self._end_s = np.full(len(self.pods.state), math.inf)
        """When each pod ends or is gone; an event at another time is stale."""
        evicted_s = np.append(world.snapshot.jobs.last_evicted_s, math.nan)[self.pods.job]
        self._is_evicted: BoolVec = ~np.isnan(evicted_s)
        """Whether a pod that leaves is made anew: not one that somebody else has deleted."""
        self._arrivals = list(reversed(arrivals))
        self._running = 0
        self._numbered = 0
        self.steps = 0
        self._begin()

    def _begin(self) -> None:
        """Let what runs end when it will, and what is leaving be gone after its grace."""
        pods = self.pods
        leaving = np.flatnonzero(pods.state == TaskState.RELEASING)
        if len(leaving):
            self._plan(leaving, self._now_s + GRACE_S)
        runs = ALLOCATED_STATES[pods.state] & (pods.job >= 0)
        for job in np.unique(pods.job[runs]).tolist():
            started_s = float(pods.last_start_s[job])
            if math.isnan(started_s):
                started_s = float(self._world.snapshot.jobs.created_s[job])
            tasks = np.array(self._world.snapshot.jobs.tasks[job], np.int64)
            self._run(job, tasks[runs[tasks]], min(started_s, self._now_s), is_new=False)

    def _run(self, job: int, tasks: RowVec, started_s: float, *, is_new: bool) -> None:
        if self._run_time is not None:
            self._running += 1
            self._plan(tasks, max(started_s + self._run_time(job, is_new), self._now_s))

    def _plan(self, tasks: RowVec, at_s: float) -> None:
        self._end_s[tasks] = at_s
        if at_s == math.inf:
            return
        heapq.heappush(self._due, (at_s, self._numbered, tasks))
        self._numbered += 1

    def run(self, job: int, steps: int, horizon_s: float) -> Ended:
        """Go on until a pending pod of a job is bound, or until the bounds are reached.

        Args:
            job: row of the job; -1 for none, to go on until nothing more happens.
            steps: the most cycles.
            horizon_s: the longest time to look ahead.

        """
        begin_s = self._now_s
        while True:
            result = self._step()
            elapsed_s = self._now_s - begin_s
            if job >= 0 and (self.pods.job[result.bind_tasks] == job).any():
                return Ended(elapsed_s, elapsed_s, self.steps)
            if result.stats.abandoned:
                return Ended(math.inf, elapsed_s, self.steps)
            at_s = self._next_s()
            if at_s == math.inf and _is_quiet(result) and job < 0:
                return Ended(math.inf, elapsed_s, self.steps)
            part = _MOST_IDLE_GAP if at_s == math.inf else _MOST_GAP
            least_s = _LEAST_GAP_S if _is_quiet(result) else PERIOD_S
            at_s = min(at_s, self._now_s + max(least_s, part * elapsed_s))
            if self.steps >= steps or at_s > begin_s + horizon_s:
                return Ended(math.inf, elapsed_s, self.steps)
            self._advance(at_s)

    def _step(self) -> CycleResult:
        world, snapshot = self._world, self.pods.snapshot()
        result, self._memory = run_cycle(
            snapshot, world.usage, world.policy, self._now_s, self._memory
        )
        self.steps += 1
        if self._watch is not None:
            self._watch(snapshot, result)
        if not result.stats.abandoned:
            self._apply(result)
        return result

    def _apply(self, result: CycleResult) -> None:
        pods, evicted = self.pods, result.evict_tasks
        if len(evicted):
            self._running -= len(np.unique(pods.job[evicted]))
            pods.evict(evicted, self._now_s)
            self._is_evicted[evicted] = True
            self._plan(evicted, self._now_s + GRACE_S)
        bound = result.bind_tasks
        if len(bound):
            pods.start(bound, result.bind_nodes, self._now_s, result.bind_cards)
            of = pods.job[bound]
            for job in np.unique(of).tolist():
                self._run(job, bound[of == job], self._now_s, is_new=True)
        stays = ~np.isin(result.nominate_tasks, evicted)
        pods.promise(result.nominate_tasks[stays], result.nominate_nodes[stays])

    def _next_s(self) -> float:
        """Return the time of the next cycle: when enough has happened since this one."""
        wanted = max(self._running // _PART, 1)
        soonest = heapq.nsmallest(wanted, self._due)
        times = [at_s for at_s, _, _ in soonest]
        times += [at_s for at_s, _ in self._arrivals[-wanted:]]
        times.sort()
        return times[min(wanted, len(times)) - 1] if times else math.inf

    def _advance(self, at_s: float) -> None:
        """Let everything happen that is due by then."""
        pods, self._now_s = self.pods, at_s
        while self._due and self._due[0][0] <= at_s:
            due_s, _, tasks = heapq.heappop(self._due)
            tasks = tasks[self._end_s[tasks] == due_s]
            if not len(tasks):
                continue
            self._end_s[tasks] = math.inf
            leaves = pods.state[tasks] == TaskState.RELEASING
            if (~leaves).any():
                self._running -= 1
                pods.release(tasks[~leaves], is_made_anew=False)
            comes_again = self._is_evicted[tasks] & (pods.job[tasks] >= 0)
            pods.release(tasks[leaves & comes_again], is_made_anew=True)
            pods.release(tasks[leaves & ~comes_again], is_made_anew=False)
        while self._arrivals and self._arrivals[-1][0] <= at_s:
            pods.arrive(self._arrivals.pop()[1])


def _is_quiet(result: CycleResult) -> bool:
    """Tell whether a cycle moved no pod; promises alone are made again until they are kept."""
    return not (len(result.bind_tasks) or len(result.evict_tasks))
