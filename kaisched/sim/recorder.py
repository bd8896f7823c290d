"""Observers of a replay: sums by queue, and the recorder of amounts over time, of jobs and nodes.

Sums are updated at a cost that grows with the events of a run and not with its length. Fair shares,
and their distance from the GPUs held, are sampled coarsely, and each sample holds until the next
one: a division at every cycle would cost more than the cycle.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from kaisched.core.axis import GPU, GPU_UNIT, Amounts, FloatVec, IntVec, RowVec
from kaisched.core.constraints import domains_at
from kaisched.core.snapshot import Snapshot
from kaisched.core.tables import QueueTable, TopologyLevel
from kaisched.core.tree import roll_up
from kaisched.core.usage import Usage
from kaisched.framework.report.result import CycleResult
from kaisched.sim.cluster import Cluster, DeviceLog
from kaisched.sim.ticks import STOP_TICKS, Pace
from kaisched.sim.workload import Gpus, Workload, plain
from kaisched.usage.feed import UsageFeed
from kaisched.usage.history import MemoryStore, Sample
from kaisched.usage.settings import UsageSettings


class Steps:
    """One amount over time, 0 before its first change. Ticks only grow."""

    __slots__ = ("ticks", "values")

    ticks: list[int]
    values: list[float]
    """Values from each tick on."""

    def __init__(self) -> None:
        """Start without changes."""
        self.ticks = []
        self.values = []

    def set(self, tick: int, value: float) -> None:
        """Set the amount from a tick on; the last value for a tick counts."""
        if self.ticks and self.ticks[-1] == tick:
            self.values[-1] = value
        elif not self.values or self.values[-1] != value:
            self.ticks.append(tick)
            self.values.append(value)

    def integral(self, at: IntVec) -> FloatVec:
        """Return the sum of the amount over all ticks before each of these ticks."""
        if not self.ticks:
            return np.zeros(len(at))
        ticks = np.array(self.ticks, np.int64)
        values = np.array(self.values, np.float64)
        before = np.concatenate(([0.0], np.cumsum(values[:-1] * np.diff(ticks))))
        row = np.searchsorted(ticks, at, side="right") - 1
        known = row >= 0
        row = np.maximum(row, 0)
        total: FloatVec = np.where(known, before[row] + values[row] * (at - ticks[row]), 0.0)
        return total

    def means(self, edges: IntVec) -> FloatVec:
        """Return the exact mean between each two edges, which loses no peak to thinning."""
        means: FloatVec = np.diff(self.integral(edges)) / np.diff(edges)
        return means

    def at(self, ticks: IntVec) -> FloatVec:
        """Return the amount at each tick."""
        if not self.ticks:
            return np.zeros(len(ticks))
        row = np.searchsorted(np.array(self.ticks, np.int64), ticks, side="right") - 1
        values: FloatVec = np.where(row >= 0, np.array(self.values)[np.maximum(row, 0)], 0.0)
        return values


def edges_between(first: int, last: int, most: int) -> IntVec:
    """Return the edges of at most ``most`` equal spans of ticks; the last span may be shorter."""
    ticks = max(last - first, 1)
    width = -(-ticks // most)
    edges = np.arange(first, first + ticks + width, width, dtype=np.int64)
    edges[-1] = first + ticks
    return np.unique(edges)


NOT_YET: Final = -1


@dataclass(slots=True)
class JobLog:
    """Times of one job, in ticks."""

    started: int = NOT_YET
    """First."""
    ended: int = NOT_YET
    runs: int = 0
    """How often the job started."""
    evictions: int = 0
    failures: int = 0
    redone: int = 0
    """Ticks of work done twice."""
    lost: Gpus = 0
    """The same in ticks of a GPU."""


class Tally:
    """Observer of a replay that keeps sums by queue, and a log of each job. Times are ticks.

    Nothing changes between two cycles: the state after one holds until the next.
    """

    def __init__(self, workload: Workload, tick: int) -> None:
        """Start at a tick with nothing held."""
        queues = len(workload.queue_names)
        self._work = workload
        self.jobs: list[JobLog] = []
        self.arrived = [0] * queues
        """Jobs that have arrived."""
        self.pending = [0] * queues
        """Jobs that wait now."""
        self.finished = [0] * queues
        """Jobs that have ended."""
        self.evicted = [0] * queues
        """Stops of jobs in favour of another job."""
        self.failed = [0] * queues
        """Stops of jobs because a node failed."""
        self.held: list[Gpus] = [0] * queues
        """GPUs of running jobs now."""
        self.used: list[Gpus] = [0] * queues
        """GPU ticks held so far."""
        self.redone: list[Gpus] = [0] * queues
        """Used GPU ticks whose work was lost when a job was stopped."""
        self.stopping: list[Gpus] = [0] * queues
        """GPU ticks of room held by evicted jobs while they stopped; not among the used ones."""
        self.entitled = [0] * queues
        """Thousandths of GPU ticks of fair share so far."""
        self.distance: Gpus = 0
        """Thousandths of GPU ticks: over time, the sum over queues of |held - fair share|."""
        self._held_since = [tick] * queues
        self._fair_share = [0] * queues
        self._fair_share_since = tick
        self._distance: Gpus = 0

    def arrive(self, job: int, tick: int) -> None:  # noqa: ARG002 - for observers over time
        """Count a new, waiting job."""
        self.jobs.append(JobLog())
        self._count(self._work.queue[job], 1)

    def move(self, job: int, before: int) -> None:
        """Count a waiting job that has left a queue for that of its project in another pool."""
        self._count(before, -1)
        self._count(self._work.queue[job], 1)

    def start(self, job: int, tick: int) -> None:
        """Count a waiting job that starts, perhaps not for the first time."""
        log = self.jobs[job]
        if log.started == NOT_YET:
            log.started = tick
        log.runs += 1
        self.pending[self._work.queue[job]] -= 1
        self._hold(job, 1, tick)

    def finish(self, job: int, tick: int) -> None:
        """Count a running job that ends by itself."""
        self.jobs[job].ended = tick
        self.finished[self._work.queue[job]] += 1
        self._hold(job, -1, tick)

    def stop(self, job: int, tick: int, redone: int, *, is_failure: bool) -> None:
        """Count a running job that waits again, as it is evicted or its node fails.

        It repeats its last ``redone`` ticks of work. If evicted, it keeps its room while it stops.
        """
        queue, gpus, log = self._work.queue[job], self._work.held(job), self.jobs[job]
        if is_failure:
            self.failed[queue] += 1
            log.failures += 1
        else:
            self.evicted[queue] += 1
            log.evictions += 1
            self.stopping[queue] += gpus * STOP_TICKS
        log.redone += redone
        log.lost += gpus * redone
        self.pending[queue] += 1
        self.redone[queue] += gpus * redone
        self._hold(job, -1, tick)

    def sample(self, tick: int, fair_share: list[int]) -> None:
        """Use these shares, in thousandths of a GPU by queue, from now on.

        The distance from the GPUs held now is used from now on too.
        """
        self._integrate_fair_share(tick)
        self._fair_share = fair_share
        self._distance = 0
        for held, share in zip(self.held, fair_share, strict=True):
            away = 1000 * held - share
            self._distance += away if away > 0 else -away

    def after(self, result: CycleResult, tick: int) -> None:
        """Note the decisions of a cycle, after they have taken effect: no sum needs them."""

    def close(self, tick: int) -> None:
        """Complete every integral at the end."""
        for queue in range(len(self.held)):
            self._integrate(queue, tick)
        self._integrate_fair_share(tick)

    def running(self, queue: int) -> int:
        """Return the jobs of a queue that run now."""
        return self.arrived[queue] - self.finished[queue] - self.pending[queue]

    def waits(self, until: int) -> list[list[int]]:
        """Return the ticks from arrival to first start by queue; who still waits counts so far."""
        work = self._work
        waits: list[list[int]] = [[] for _ in work.queue_names]
        for job, log in enumerate(self.jobs):
            started = until if log.started == NOT_YET else log.started
            waits[work.queue[job]].append(started - work.arrival[job])
        return waits

    def _count(self, queue: int, change: int) -> None:
        self.arrived[queue] += change
        self.pending[queue] += change

    def _hold(self, job: int, sign: int, tick: int) -> None:
        queue = self._work.queue[job]
        self._integrate(queue, tick)
        self.held[queue] += sign * self._work.held(job)

    def _integrate(self, queue: int, tick: int) -> None:
        self.used[queue] += self.held[queue] * (tick - self._held_since[queue])
        self._held_since[queue] = tick

    def _integrate_fair_share(self, tick: int) -> None:
        ticks = tick - self._fair_share_since
        self._fair_share_since = tick
        for queue, share in enumerate(self._fair_share):
            self.entitled[queue] += share * ticks
        self.distance += self._distance * ticks


@dataclass(frozen=True, slots=True)
class LevelOutcome:
    """How the jobs of several pods that started are spread over the domains of one level."""

    level: str
    starts: int
    """Of jobs with several pods."""
    in_one_domain: int
    """Starts with all pods in one domain."""
    domains: float
    """Mean of the domains that a start uses."""
    pairs: int
    """Pairs of pods of one job, over all starts."""
    crossing_pairs: int
    """Of these, pairs in two domains."""

    @property
    def crossing(self) -> float:
        """The part of the pairs that is in two domains."""
        return self.crossing_pairs / self.pairs if self.pairs else 0.0

    @property
    def together(self) -> float:
        """The part of the starts that is in one domain."""
        return self.in_one_domain / self.starts if self.starts else 0.0


class Crossings:
    """Sums over the starts of jobs, level by level."""

    def __init__(
        self, levels: Sequence[TopologyLevel], labels: Sequence[Mapping[str, str]]
    ) -> None:
        """Take the levels of a topology, outermost first, and the labels of the nodes by row."""
        self._domains = [domains_at(levels, at, labels) for at in range(len(levels))]
        self._starts = self._pairs = 0
        self._in_one = [0] * len(levels)
        self._used = [0] * len(levels)
        self._crossing = [0] * len(levels)

    def start(self, jobs: Sequence[int], nodes: RowVec) -> None:
        """Count the jobs that start: the job and the node of each of their pods."""
        if not self._domains:
            return
        job = np.array(jobs)
        order = np.argsort(job, kind="stable")
        for part in np.split(nodes[order], np.flatnonzero(np.diff(job[order])) + 1):
            if len(part) > 1:  # one pod makes no pair
                self._start(part)

    def _start(self, nodes: RowVec) -> None:
        pods = len(nodes)
        self._starts += 1
        self._pairs += pods * (pods - 1) // 2
        for at, domains in enumerate(self._domains):
            _, counts = np.unique(domains.of_node[nodes], return_counts=True)
            self._used[at] += len(counts)
            self._in_one[at] += len(counts) == 1
            self._crossing[at] += (pods * pods - int((counts * counts).sum())) // 2

    def outcome(self) -> tuple[LevelOutcome, ...]:
        """Return the sums of each level; none without a topology."""
        return tuple(
            LevelOutcome(
                domains.word,
                self._starts,
                self._in_one[at],
                self._used[at] / self._starts if self._starts else 0.0,
                self._pairs,
                self._crossing[at],
            )
            for at, domains in enumerate(self._domains)
        )


class VirtualHistory:
    """Usage source fed with the queues' holdings after each cycle; answers as the daemon's does.

    Between two cycles nothing changes, so one sample after each cycle holds until the next, and
    equals what the daemon would collect by continuous sampling.
    """

    def __init__(
        self, settings: UsageSettings, resources: tuple[str, ...], queues: QueueTable
    ) -> None:
        """Start without usage for ``R`` resources and ``Q`` queues."""
        self._resources, self._queues = resources, queues
        self._store = MemoryStore(settings.window, hold_s=math.inf)
        self._feed = UsageFeed(self._store, settings.fetch_s)
        self._held: Amounts = np.zeros((0, 0), np.int64)
        self._total: Amounts = np.zeros(0, np.int64)

    def hold(self, held: Amounts, total: Amounts, now_s: float) -> None:
        """Record that from now on the leaves hold ``(R, Q)`` of ``(R,)``."""
        if np.array_equal(held, self._held) and np.array_equal(total, self._total):
            return
        self._held, self._total = held, total
        used = roll_up(held, self._queues.tree)
        self._store.record(Sample(now_s, self._resources, self._queues.name, used, total))

    def usage(self, snapshot: Snapshot, now_s: float) -> Usage:
        """Return the usage until now of the snapshot's queues and resources."""
        return self._feed.answer(now_s, snapshot.queues.name, snapshot.axis.names)

    def is_ready(self) -> bool:
        """Return True: there is no store to wait for."""
        return self._feed.is_ready()


class Recorder(Tally):
    """Records a replay over time beside its sums. Amounts are GPUs."""

    def __init__(
        self,
        workload: Workload,
        clusters: Sequence[Cluster],
        usage: VirtualHistory | None,
        pace: Pace,
        crossings: Crossings,
    ) -> None:
        """Start at tick 0, with nothing held; ``usage`` is fed by the first cluster."""
        super().__init__(workload, 0)
        queues = range(len(workload.queue_names))
        self._clusters = clusters
        self._usage = usage
        self._pace = pace
        self.crossings = crossings
        self.allocated = [Steps() for _ in queues]
        self.waiting = [Steps() for _ in queues]
        """GPUs of pending jobs."""
        self.fair_share = [Steps() for _ in queues]
        self.capacity = Steps()
        self.capacity_of = [Steps() for _ in clusters]
        """The same by node pool."""
        self.stops: list[tuple[int, int, float, bool]] = []
        """(tick, queue, GPU ticks done twice, whether a node failed) of each job that stopped."""
        self.nodes = Occupancy(sum(len(cluster.node_names()) for cluster in clusters))
        self.devices = DeviceLog(cluster.devices for cluster in clusters)
        self._waiting: list[Gpus] = [0] * len(queues)
        self._changed: set[int] = set()
        self._look(0)

    def arrive(self, job: int, tick: int) -> None:
        """Count a job as waiting."""
        super().arrive(job, tick)
        self._wait(job, self._work.queue[job], 1)

    def move(self, job: int, before: int) -> None:
        """Count a waiting job for another queue than before."""
        super().move(job, before)
        self._wait(job, before, -1)
        self._wait(job, self._work.queue[job], 1)

    def start(self, job: int, tick: int) -> None:
        """Count what a job holds."""
        super().start(job, tick)
        self._wait(job, self._work.queue[job], -1)

    def finish(self, job: int, tick: int) -> None:
        """Count what a job frees."""
        super().finish(job, tick)
        self._changed.add(self._work.queue[job])

    def stop(self, job: int, tick: int, redone: int, *, is_failure: bool) -> None:
        """Count what a stopped job loses."""
        super().stop(job, tick, redone, is_failure=is_failure)
        queue = self._work.queue[job]
        self.stops.append((tick, queue, plain(redone * self._work.held(job)), is_failure))
        self._wait(job, queue, 1)

    def sample(self, tick: int, fair_share: list[int]) -> None:
        """Record the fair shares."""
        super().sample(tick, fair_share)
        for steps, share in zip(self.fair_share, fair_share, strict=True):
            steps.set(tick, share / GPU_UNIT)

    def after(self, result: CycleResult, tick: int) -> None:
        """Record what changed, and update the usage history."""
        if len(result.bind_tasks):
            self.crossings.start(self._clusters[0].jobs_of(result.bind_tasks), result.bind_nodes)
        self._look(tick)

    def close(self, tick: int) -> None:
        """Record the state at the end."""
        super().close(tick)
        self._look(tick)

    def _look(self, tick: int) -> None:
        """Record the state from a tick on."""
        for queue in self._changed:
            self.allocated[queue].set(tick, plain(self.held[queue]))
            self.waiting[queue].set(tick, plain(self._waiting[queue]))
        self._changed.clear()
        totals = [cluster.total() for cluster in self._clusters]
        gpus = [int(total[GPU]) for total in totals]
        self.capacity.set(tick, sum(gpus) / GPU_UNIT)
        for steps, there in zip(self.capacity_of, gpus, strict=True):
            steps.set(tick, there / GPU_UNIT)
        self.devices.look(tick)
        self.nodes.hold(tick, np.concatenate([it.gpus_in_use() for it in self._clusters]))
        if self._usage is not None:
            self._usage.hold(self._clusters[0].held(), totals[0], self._pace.now_s(tick))

    def _wait(self, job: int, queue: int, sign: int) -> None:
        self._waiting[queue] += sign * self._work.gpus[job]
        self._changed.add(queue)


class Occupancy:
    """GPUs in use on each node, as means over equal spans of time; few in a run of any length.

    Whenever there are too many spans, pairs of spans are merged.
    """

    MOST = 480

    def __init__(self, nodes: int) -> None:
        """Start at tick 0."""
        self.width = 1
        """Ticks in a span."""
        self._spans: list[FloatVec] = []
        """GPU ticks by node in each span."""
        self._nodes = nodes
        self._since = 0
        self._rate: FloatVec = np.zeros(nodes)

    def hold(self, tick: int, in_use: IntVec) -> None:
        """Record the milli-GPUs in use on each node from a tick on."""
        self.close(tick)
        self._rate = in_use / GPU_UNIT

    def close(self, tick: int) -> None:
        """Count up to a tick."""
        at = self._since
        while at < tick:
            span = at // self.width
            if span >= self.MOST:
                self._halve()
                continue
            while len(self._spans) <= span:
                self._spans.append(np.zeros(self._nodes))
            end = min((span + 1) * self.width, tick)
            self._spans[span] += self._rate * (end - at)
            at = end
        self._since = max(tick, self._since)

    def means(self) -> FloatVec:
        """Return means ``(N, S)`` of the spans, the last of which may be shorter."""
        if not self._spans:
            return np.zeros((self._nodes, 0))
        lengths = np.full(len(self._spans), float(self.width))
        lengths[-1] = self._since - (len(self._spans) - 1) * self.width
        means: FloatVec = np.array(self._spans).T / lengths
        return means

    def _halve(self) -> None:
        spans = self._spans
        if len(spans) % 2:
            spans.append(np.zeros(self._nodes))
        self._spans = [spans[at] + spans[at + 1] for at in range(0, len(spans), 2)]
        self.width *= 2
