"""One course of events: cycles in virtual time on a copy of a snapshot.

Runs last as long as was drawn for them. A pod that has ended counts as succeeded, and another one
waits in its place if its workload makes more. An evicted pod holds its room for a while; a new one
then waits in its place and begins anew. New jobs come as the course was told: as rows appended to
the snapshot, absent at first.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kaisched.cluster.rows import LOWEST_PRIORITY, RARE
from kaisched.core.axis import (
    ALLOCATED_STATES,
    BoolVec,
    FloatVec,
    IntVec,
    RowVec,
    TaskState,
)
from kaisched.core.snapshot import Snapshot
from kaisched.core.sums import summed
from kaisched.core.tables import EVICTED, NO_METADATA, SUCCEEDED, UNPROTECTED
from kaisched.core.titles import TopOwner
from kaisched.core.usage import Usage
from kaisched.engine.planning import PERIOD_S
from kaisched.framework.cycle import run_cycle
from kaisched.framework.intents import Evict
from kaisched.framework.memory import Memory
from kaisched.framework.policy import Policy
from kaisched.framework.report.records import DecisionRecord, QueueShare
from kaisched.framework.report.result import CycleResult
from kaisched.framework.session.cards import table_of


class NewJob(NamedTuple):
    """A gang of equal pods that comes at an instant, in seconds since 1970."""

    at_s: float
    queue: int
    shape: int
    pods: int
    minimum: int
    priority: int
    is_preemptible: bool
    run_s: float = math.nan
    """How long it runs; NaN where that is drawn."""


def with_jobs(snapshot: Snapshot, new: Sequence[NewJob]) -> tuple[Snapshot, range]:
    """Return a snapshot with rows for more jobs, whose pods are gone, and these rows."""
    if not new:
        return snapshot, range(0)
    jobs, tasks, podsets = snapshot.jobs, snapshot.tasks, snapshot.podsets
    first, count = len(jobs.name), len(new)
    of = np.repeat(np.arange(count), [it.pods for it in new])
    ends = len(tasks.name) + np.cumsum([it.pods for it in new])
    begins = ends - [it.pods for it in new]
    names = [f"forecast/{number}" for number in range(count)]
    pods = [f"{names[job]}-{number}" for number, job in enumerate(of.tolist())]
    budgets = snapshot.disruption_budgets
    if len(budgets):
        of_task = np.append(budgets.of_task, np.full(len(of), UNPROTECTED))
        budgets = replace(budgets, of_task=of_task)
    longer = replace(
        snapshot,
        disruption_budgets=budgets,
        jobs=replace(
            jobs,
            name=[*jobs.name, *names],
            tasks=[*jobs.tasks, *map(range, begins.tolist(), ends.tolist())],
            queue_name=[*jobs.queue_name[:first], *(snapshot.queues.name[it.queue] for it in new)],
            metadata=[*jobs.metadata, *[NO_METADATA] * count],
            top_owner=[*jobs.top_owner, *[None] * count],
            **_longer(jobs, _jobs(new, begins, len(podsets.name))),
        ),
        podsets=replace(
            podsets,
            name=[*podsets.name, *["default"] * count],
            **_longer(podsets, _podsets(new, first)),
        ),
        tasks=replace(
            tasks,
            name=[*tasks.name, *pods],
            uid=[*tasks.uid, *pods],
            **_longer(tasks, _tasks(new, of, first, len(podsets.name))),
        ),
    )
    return longer, range(first, first + count)


def _jobs(new: Sequence[NewJob], first_task: IntVec, first_podset: int) -> dict[str, Any]:
    count = len(new)
    return {
        "queue_of_job": [it.queue for it in new],
        "priority": [it.priority for it in new],
        "is_preemptible": [it.is_preemptible for it in new],
        "created_s": [it.at_s for it in new],
        "refusal": np.zeros(count),
        "first_task": first_task,
        "first_podset": first_podset + np.arange(count),
        "podset_count": np.ones(count),
        "shape_of_job": [it.shape for it in new],
        "active": np.zeros(count),
        "pending": np.zeros(count),
        "last_start_s": np.full(count, np.nan),
        "rare": np.tile(RARE, (count, 1)),
        "metadata_version": np.zeros(count),
    }


def _podsets(new: Sequence[NewJob], first_job: int) -> dict[str, Any]:
    count = len(new)
    return {
        "job_of_podset": first_job + np.arange(count),
        "minimum": [it.minimum for it in new],
        "active": np.zeros(count),
        "pending": np.zeros(count),
    }


def _tasks(new: Sequence[NewJob], of: IntVec, first_job: int, first_podset: int) -> dict[str, Any]:
    """Return the columns of the pods; ``of`` is the new job of each."""
    shape, created_s = np.array([it.shape for it in new]), np.array([it.at_s for it in new])
    return {
        "job_of_task": first_job + of,
        "podset_of_task": first_podset + of,
        "shape_of_task": shape[of],
        "state": np.full(len(of), int(TaskState.GONE)),
        "node_of_task": np.full(len(of), -1),
        "nominated_node": np.full(len(of), -1),
        "order_priority": np.full(len(of), LOWEST_PRIORITY),
        "created_s": created_s[of],
        "label_set_of_task": np.full(len(of), -1),
    }


def _longer(table: Any, more: dict[str, Any]) -> dict[str, Any]:
    """Return columns of a table with more rows, in their own types."""
    columns = {name: getattr(table, name) for name in more}
    return {
        name: np.concatenate([column, np.asarray(more[name]).astype(column.dtype)])
        for name, column in columns.items()
    }


_HOUR_S: Final = 3600.0
_NOWHERE: Final = -1


class Pods:
    """The pods of a snapshot. Amounts are summed anew for each cycle, so that none can drift."""

    def __init__(self, snapshot: Snapshot, upcoming: Sequence[int] = ()) -> None:
        """Copy what will change; the pods of ``upcoming`` jobs come later."""
        tasks, jobs = snapshot.tasks, snapshot.jobs
        self._base = snapshot
        self._last = snapshot
        self.state: NDArray[np.int8] = tasks.state.copy()
        self.node: RowVec = tasks.node_of_task.copy()
        self.nominated: RowVec = tasks.nominated_node.copy()
        self.job: RowVec = tasks.job_of_task
        self.last_start_s: FloatVec = jobs.last_start_s.copy()
        self.active: IntVec = jobs.active.copy()
        self._minimum: IntVec = snapshot.podsets.minimum.copy()
        self._rare: FloatVec = jobs.rare.copy()
        self._evictions_s = snapshot.evictions_s
        table = snapshot.nodes.cards
        self._slots = dict(table.slots_of_task) if table is not None else {}
        """The cards of each pod that has parts of GPUs."""
        for job in upcoming:
            self.state[list(jobs.tasks[job])] = TaskState.GONE

    def arrive(self, job: int) -> None:
        """Let the pods of an upcoming job wait."""
        self.state[list(self._base.jobs.tasks[job])] = TaskState.PENDING

    def start(
        self, tasks: RowVec, nodes: RowVec, now_s: float, cards: Mapping[int, tuple[int, ...]]
    ) -> None:
        """Run pods on nodes, those with parts of GPUs on these cards."""
        self._slots.update(cards)
        self.state[tasks], self.node[tasks] = TaskState.RUNNING, nodes
        jobs = np.unique(self.job[tasks])
        self.last_start_s[jobs[self.active[jobs] == 0]] = now_s

    def evict(self, tasks: RowVec, now_s: float) -> None:
        """Begin to stop pods, which still hold their room."""
        self.state[tasks] = TaskState.RELEASING
        ours = self.job[tasks]
        self._rare[ours[ours >= 0], EVICTED] = now_s
        recent = (at_s for at_s in self._evictions_s if at_s > now_s - _HOUR_S)
        self._evictions_s = (*recent, *[now_s] * len(tasks))

    def succeed(self, tasks: RowVec) -> None:
        """Count pods as done: their pod sets need so many less, as in the state store."""
        podset = self._base.tasks.podset_of_task[tasks]
        np.subtract.at(self._minimum, podset, 1)
        self._minimum.clip(0, out=self._minimum)
        np.add.at(self._rare[:, SUCCEEDED], self.job[tasks], 1)

    def release(self, tasks: RowVec, *, is_made_anew: bool) -> None:
        """Free the room of pods that have ended; made anew, they wait again."""
        self.state[tasks] = TaskState.PENDING if is_made_anew else TaskState.GONE
        self.node[tasks] = self.nominated[tasks] = _NOWHERE
        if self._slots:
            for task in tasks.tolist():
                self._slots.pop(task, None)

    def promise(self, tasks: RowVec, nodes: RowVec) -> None:
        """Promise nodes to pods that wait; earlier promises end."""
        self.nominated[self.state == TaskState.PENDING] = _NOWHERE
        self.nominated[tasks] = nodes

    def snapshot(self) -> Snapshot:
        """Return the present state."""
        base, last = self._base, self._last
        shared: dict[str, Any] = {
            "state": self.state.copy(),
            "node_of_task": self.node.copy(),
            "nominated_node": self.nominated.copy(),
        }
        now = replace(
            base,
            tasks=replace(base.tasks, **shared),
            jobs=replace(base.jobs, last_start_s=self.last_start_s.copy(), rare=self._rare.copy()),
            podsets=replace(base.podsets, minimum=self._minimum.copy()),
            revision=last.revision + 1,
            evictions_s=self._evictions_s,
        )
        nodes = replace(base.nodes, cards=table_of(now, dict(self._slots)))
        self._last = summed(replace(now, nodes=nodes), last)
        self.active = self._last.jobs.active
        return self._last


GRACE_S: Final = 30.0
"""Time for which a pod that was told to go holds its room, unless its grace period is known."""
_PART: Final = 50
"""A cycle runs when one of so many runs has ended, or as many jobs have come."""
_LEAST_GAP_S: Final = 60.0
"""After a cycle that moved no pod, the next one may always be so far away."""
_MOST_GAP: Final = 0.1
"""Longest time between two cycles, as a part of the time that has passed: what depends on time
alone, such as a minimum runtime, is seen that late."""

RunTime = Callable[[RowVec, FloatVec], FloatVec]
"""Returns how long pods run in all, in seconds, from how long each has run."""
Watch = Callable[[Snapshot, CycleResult], None]


class World(NamedTuple):
    """What a forecast begins with: all inputs of a cycle."""

    snapshot: Snapshot
    usage: Usage | None
    policy: Policy
    memory: Memory
    now_s: float


def starts_of(snapshot: Snapshot) -> FloatVec:
    """Return when each pod ``(T,)`` of a job may have started: with its job, if it was there."""
    jobs, tasks = snapshot.jobs, snapshot.tasks
    of_job = np.where(np.isnan(jobs.last_start_s), jobs.created_s, jobs.last_start_s)
    started_s: FloatVec = np.append(of_job, math.nan)[tasks.job_of_task]
    return np.fmax(started_s, tasks.created_s)


class Ended(NamedTuple):
    """The end of a course."""

    started_s: dict[int, float]
    """Job to the time until it started, of those that were waited for and have started."""
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
        *,
        started_s: FloatVec | None = None,
        following: IntVec | None = None,
        grace_s: FloatVec | None = None,
    ) -> None:
        """Begin.

        Args:
            world: what it begins with.
            run_time: how long runs last; None for ever.
            arrivals: (time, row) of jobs that come, in order; their pods are gone at first.
            watch: told of each cycle.
            started_s: ``(T,)`` when running pods have started; by default with their jobs.
            following: ``(T,)`` how many pods a workload makes one after the other in the place of
                each that ends; by default none.
            grace_s: ``(T,)`` for how many seconds pods that are told to go hold their room.

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
        self._following: IntVec = np.zeros(len(self.pods.state), np.int64)
        if following is not None:
            self._following[: len(following)] = following
        self._grace_s = np.full(len(self.pods.state), GRACE_S)
        if grace_s is not None:
            self._grace_s[: len(grace_s)] = grace_s
        self._arrivals = list(reversed(arrivals))
        self._numbered = 0
        self.steps = 0
        self._begin(starts_of(world.snapshot) if started_s is None else started_s)

    def _begin(self, started_s: FloatVec) -> None:
        """Let what runs end when it will, and what is leaving be gone after its grace."""
        pods = self.pods
        leaving = np.flatnonzero(pods.state == TaskState.RELEASING)
        self._leave(leaving)
        runs = np.flatnonzero(ALLOCATED_STATES[pods.state] & (pods.job >= 0))
        self._run(runs, np.minimum(started_s[runs], self._now_s))

    def _run(self, tasks: RowVec, started_s: FloatVec) -> None:
        if self._run_time is None or not len(tasks):
            return
        end_s = started_s + self._run_time(tasks, self._now_s - started_s)
        for at_s in np.unique(end_s).tolist():
            self._plan(tasks[end_s == at_s], max(at_s, self._now_s))

    def _leave(self, tasks: RowVec) -> None:
        """Plan when pods that were told to go are gone."""
        grace_s = self._grace_s[tasks]
        for each_s in np.unique(grace_s).tolist():
            self._plan(tasks[grace_s == each_s], self._now_s + each_s)

    def _plan(self, tasks: RowVec, at_s: float) -> None:
        self._end_s[tasks] = at_s
        if at_s == math.inf:
            return
        heapq.heappush(self._due, (at_s, self._numbered, tasks))
        self._numbered += 1

    def run(self, jobs: Collection[int], steps: int, horizon_s: float) -> Ended:
        """Go on until of each job a pending pod is bound, or until the bounds are reached.

        Args:
            jobs: rows of jobs; none to go on until nothing more happens.
            steps: the most cycles.
            horizon_s: the longest time to look ahead.

        """
        begin_s, waiting = self._now_s, set(jobs)
        started_s: dict[int, float] = {}
        while True:
            result = self._step()
            elapsed_s = self._now_s - begin_s
            bound = waiting.intersection(self.pods.job[result.bind_tasks].tolist())
            started_s |= dict.fromkeys(bound, elapsed_s)
            waiting -= bound
            ended = Ended(started_s, elapsed_s, self.steps)
            if result.stats.abandoned or (started_s and not waiting):
                return ended
            at_s = self._next_s()
            if at_s == math.inf and _is_quiet(result) and not jobs:
                return ended
            least_s = _LEAST_GAP_S if _is_quiet(result) else PERIOD_S
            at_s = min(at_s, self._now_s + max(least_s, _MOST_GAP * elapsed_s))
            if self.steps >= steps or at_s > begin_s + horizon_s:
                return ended
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
            pods.evict(evicted, self._now_s)
            self._is_evicted[evicted] = True
            self._leave(evicted)
        bound = result.bind_tasks
        if len(bound):
            pods.start(bound, result.bind_nodes, self._now_s, result.bind_cards)
            self._run(bound, np.full(len(bound), self._now_s))
        stays = ~np.isin(result.nominate_tasks, evicted)
        pods.promise(result.nominate_tasks[stays], result.nominate_nodes[stays])

    def _next_s(self) -> float:
        """Return the time of the next cycle: when enough has happened since this one."""
        wanted = max(len(self._due) // _PART, 1)
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
            pods.succeed(tasks[~leaves])
            follows = ~leaves & (self._following[tasks] > 0)
            self._following[tasks[follows]] -= 1
            comes_again = follows | leaves & self._is_evicted[tasks] & (pods.job[tasks] >= 0)
            pods.release(tasks[comes_again], is_made_anew=True)
            pods.release(tasks[~comes_again], is_made_anew=False)
        while self._arrivals and self._arrivals[-1][0] <= at_s:
            pods.arrive(self._arrivals.pop()[1])


def _is_quiet(result: CycleResult) -> bool:
    """Tell whether a cycle moved no pod; promises alone are made again until they are kept."""
    return not (len(result.bind_tasks) or len(result.evict_tasks))


MOST_CYCLES: Final = 30


@dataclass(frozen=True, slots=True)
class JobState:
    """A job after the last cycle."""

    queue: str
    running: int
    """Its pods that run."""
    waiting: int
    before: int
    """Its pods that ran before the first cycle."""
    record: DecisionRecord | None
    """Why it waits; None if it does not."""
    top_owner: TopOwner | None = None
    """What it comes from."""


@dataclass(slots=True)
class Settled:
    """A state in which nothing moves any more."""

    jobs: dict[str, JobState] = field(default_factory=dict)
    evictions: list[Evict] = field(default_factory=list)
    shares: list[QueueShare] = field(default_factory=list)
    cycles: int = 0
    is_quiet: bool = True
    """Whether the last cycle decided nothing."""
    failures: list[CycleResult] = field(default_factory=list)


def settled(world: World) -> Settled:
    """Run cycles until one decides nothing, at most ``MOST_CYCLES``."""
    found = Settled()
    results: list[CycleResult] = []

    def watch(_snapshot: object, result: CycleResult) -> None:
        results.append(result)
        found.evictions += result.evictions

    course = Course(world, None, watch=watch)
    course.run((), MOST_CYCLES, math.inf)
    last = results[-1]
    found.cycles = len(results)
    found.is_quiet = not (len(last.bind_tasks) or len(last.evict_tasks))
    found.shares = list(last.shares)
    found.failures = results
    records = {record.pod_group: record for record in last.records}
    pods, jobs = course.pods, world.snapshot.jobs
    was = ALLOCATED_STATES[world.snapshot.tasks.state]
    for job, name in enumerate(jobs.name):
        tasks = np.array(jobs.tasks[job], np.int64)
        running = int(ALLOCATED_STATES[pods.state[tasks]].sum()) if len(tasks) else 0
        waiting = int((pods.state[tasks] == TaskState.PENDING).sum()) if len(tasks) else 0
        before = int(was[tasks].sum()) if len(tasks) else 0
        if running or waiting or before:
            queue = jobs.queue_name[job]
            found.jobs[name] = JobState(
                queue, running, waiting, before, records.get(name), jobs.owner_of(job)
            )
    return found
