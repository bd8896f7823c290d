"""Observers of a replay: sums by queue, and the recorder of amounts over time, of jobs and nodes.

Sums are updated at a cost that grows with the events of a run and not with its length. Fair shares,
and their distance from the GPUs held, are sampled coarsely, and each sample holds until the next
one: a division at every cycle would cost more than the cycle.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from kaisched.core.axis import GPU, GPU_UNIT, Amounts, FloatVec, IntVec, RowVec
from kaisched.core.constraints import domains_at
from kaisched.core.snapshot import Snapshot
from kaisched.core.tables import QueueTable, TopologyLevel
from kaisched.core.tree import roll_up
from kaisched.core.usage import Usage
from kaisched.framework.report.result import CycleResult
from kaisched.sim.cluster import Cluster, DeviceLog
from kaisched.sim.ticks import Pace
from kaisched.sim.workload import Gpus, Workload, plain
from kaisched.usage.feed import UsageFeed
from kaisched.usage.history import MemoryStore, Sample
from kaisched.usage.settings import UsageSettings

if TYPE_CHECKING:
    from kaisched.sim.workload import Gpus


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


class Tally:
    """Running sums per queue. Times are ticks."""

    __slots__ = (
        "_distance",
        "_fair_share",
        "_fair_share_since",
        "_held_since",
        "arrived",
        "distance",
        "entitled",
        "evicted",
        "failed",
        "finished",
        "held",
        "pending",
        "redone",
        "stopping",
        "used",
        "waits",
    )

    arrived: list[int]
    """Jobs that have arrived."""
    pending: list[int]
    """Jobs that wait now."""
    finished: list[int]
    """Jobs that have ended."""
    evicted: list[int]
    """Stops of jobs in favour of another job."""
    failed: list[int]
    """Stops of jobs because a node failed."""
    held: list[Gpus]
    """GPUs of running jobs now."""
    used: list[Gpus]
    """GPU ticks held so far."""
    redone: list[Gpus]
    """Used GPU ticks whose work was lost when a job was stopped."""
    stopping: list[Gpus]
    """GPU ticks of room held by evicted jobs while they stopped; not among the used ones."""
    entitled: list[int]
    """Thousandths of GPU ticks of fair share so far."""
    waits: list[list[int]]
    """Ticks from arrival to first start, of each job that has started."""
    distance: Gpus
    """Thousandths of GPU ticks: over time, the sum over queues of |held - fair share|."""

    def __init__(self, queues: int, tick: int) -> None:
        """Start at a tick with nothing held."""
        self.arrived = [0] * queues
        self.pending = [0] * queues
        self.finished = [0] * queues
        self.evicted = [0] * queues
        self.failed = [0] * queues
        self.held = [0] * queues
        self.used = [0] * queues
        self.redone = [0] * queues
        self.stopping = [0] * queues
        self.entitled = [0] * queues
        self.distance = 0
        self.waits = [[] for _ in range(queues)]
        self._held_since = [tick] * queues
        self._fair_share = [0] * queues
        self._fair_share_since = tick
        self._distance: Gpus = 0

    def arrive(self, queue: int) -> None:
        """Count a new, waiting job."""
        self.arrived[queue] += 1
        self.pending[queue] += 1

    def move(self, before: int, after: int) -> None:
        """Count a waiting job for another queue."""
        for queue, change in ((before, -1), (after, 1)):
            self.arrived[queue] += change
            self.pending[queue] += change

    def start(self, queue: int, gpus: Gpus, tick: int) -> None:
        """Count a waiting job that starts."""
        self.pending[queue] -= 1
        self._hold(queue, gpus, tick)

    def finish(self, queue: int, gpus: Gpus, tick: int) -> None:
        """Count a running job that ends."""
        self.finished[queue] += 1
        self._hold(queue, -gpus, tick)

    def evict(self, queue: int, gpus: Gpus, tick: int, *, redone: int, stopping: int) -> None:
        """Count a running job that is stopped and waits again.

        It repeats its last ``redone`` ticks of work, and keeps its room for ``stopping`` ticks.
        """
        self.evicted[queue] += 1
        self.pending[queue] += 1
        self.redone[queue] += gpus * redone
        self.stopping[queue] += gpus * stopping
        self._hold(queue, -gpus, tick)

    def fail(self, queue: int, gpus: Gpus, tick: int, *, redone: int) -> None:
        """Count a running job whose node failed: it waits again, and holds nothing."""
        self.failed[queue] += 1
        self.pending[queue] += 1
        self.redone[queue] += gpus * redone
        self._hold(queue, -gpus, tick)

    def sample_fair_share(self, tick: int, fair_share: list[int]) -> None:
        """Use these shares, in thousandths of a GPU by queue, from now on.

        The distance from the GPUs held now is used from now on too.
        """
        self._integrate_fair_share(tick)
        self._fair_share = fair_share
        self._distance = 0
        for held, share in zip(self.held, fair_share, strict=True):
            away = 1000 * held - share
            self._distance += away if away > 0 else -away

    def close(self, tick: int) -> None:
        """Complete every integral at the end."""
        for queue in range(len(self.held)):
            self._hold(queue, 0, tick)
        self._integrate_fair_share(tick)

    def _hold(self, queue: int, change: Gpus, tick: int) -> None:
        held = self.held[queue]
        self.used[queue] += held * (tick - self._held_since[queue])
        self._held_since[queue] = tick
        self.held[queue] = held + change

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


class Watch:
    """Observer that is told of jobs as they start and stop, and of the cluster after each cycle.

    Nothing changes between two cycles: the state after one holds until the next. This one ignores
    everything; who derives from it notes what it needs.
    """

    def arrive(self, job: int, tick: int) -> None:
        """Note that a job arrives."""

    def move(self, job: int, before: int, tick: int) -> None:
        """Note that a waiting job has left a queue for that of its project in another pool."""

    def start(self, job: int, tick: int) -> None:
        """Note that a job starts, perhaps not for the first time."""

    def finish(self, job: int, tick: int) -> None:
        """Note that a job ends by itself."""

    def stop(self, job: int, tick: int, redone: int, *, is_failure: bool) -> None:
        """Note that a job is evicted or its node fails, and that it will repeat work."""

    def sample(self, tick: int, fair_share: list[int]) -> None:
        """Note the fair shares, in thousandths of a GPU by queue, at a tick."""

    def after(self, result: CycleResult, tick: int) -> None:
        """Note the decisions of a cycle, after they have taken effect."""


NOT_YET = -1


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


class Recorder(Watch):
    """Records a replay. Amounts are GPUs."""

    def __init__(
        self,
        workload: Workload,
        clusters: Sequence[Cluster],
        usage: VirtualHistory | None,
        pace: Pace,
        crossings: Crossings,
    ) -> None:
        """Start at tick 0, with nothing held; ``usage`` is fed by the first cluster."""
        queues = range(len(workload.queue_names))
        self._work = workload
        self._clusters = clusters
        self._usage = usage
        self._pace = pace
        self.crossings = crossings
        self.held = [Steps() for _ in queues]
        self.waiting = [Steps() for _ in queues]
        """GPUs of pending jobs."""
        self.fair_share = [Steps() for _ in queues]
        self.capacity = Steps()
        self.capacity_of = [Steps() for _ in clusters]
        """The same by node pool."""
        self.jobs: list[JobLog] = []
        self.stops: list[tuple[int, int, float, bool]] = []
        """(tick, queue, GPU ticks done twice, whether a node failed) of each job that stopped."""
        self.nodes = Occupancy(sum(len(cluster.node_names()) for cluster in clusters))
        self.devices = DeviceLog(cluster.devices for cluster in clusters)
        self._held: list[Gpus] = [0] * len(queues)
        self._waiting: list[Gpus] = [0] * len(queues)
        self._changed: set[int] = set()
        self.look(0)

    def arrive(self, job: int, tick: int) -> None:  # noqa: ARG002 - noted after the cycle
        """Count a job as waiting."""
        self.jobs.append(JobLog())
        self._shift(job, waiting=1, held=0)

    def move(self, job: int, before: int, tick: int) -> None:  # noqa: ARG002 - as arrive
        """Count a waiting job for another queue than before."""
        self._waiting[before] -= self._work.gpus[job]
        self._changed.add(before)
        self._shift(job, waiting=1, held=0)

    def start(self, job: int, tick: int) -> None:
        """Count what a job holds."""
        log = self.jobs[job]
        if log.started == NOT_YET:
            log.started = tick
        log.runs += 1
        self._shift(job, waiting=-1, held=1)

    def finish(self, job: int, tick: int) -> None:
        """Count what a job frees."""
        self.jobs[job].ended = tick
        self._shift(job, waiting=0, held=-1)

    def stop(self, job: int, tick: int, redone: int, *, is_failure: bool) -> None:
        """Count what a stopped job loses."""
        log = self.jobs[job]
        log.redone += redone
        if is_failure:
            log.failures += 1
        else:
            log.evictions += 1
        lost = redone * self._work.held(job)
        log.lost += lost
        self.stops.append((tick, self._work.queue[job], plain(lost), is_failure))
        self._shift(job, waiting=1, held=-1)

    def sample(self, tick: int, fair_share: list[int]) -> None:
        """Record the fair shares."""
        for steps, share in zip(self.fair_share, fair_share, strict=True):
            steps.set(tick, share / GPU_UNIT)

    def after(self, result: CycleResult, tick: int) -> None:
        """Record what changed, and update the usage history."""
        if len(result.bind_tasks):
            self.crossings.start(self._clusters[0].jobs_of(result.bind_tasks), result.bind_nodes)
        self.look(tick)

    def look(self, tick: int) -> None:
        """Record the state from a tick on."""
        for queue in self._changed:
            self.held[queue].set(tick, plain(self._held[queue]))
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

    def _shift(self, job: int, *, waiting: int, held: int) -> None:
        work = self._work
        queue = work.queue[job]
        self._waiting[queue] += waiting * work.gpus[job]
        self._held[queue] += held * work.held(job)
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
