"""Recorder of a run: amounts by queue over time, each job, each node."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from kaisched.core.axis import GPU, GPU_UNIT, FloatVec, IntVec
from kaisched.framework.report.result import CycleResult
from kaisched.sim.cluster import Cluster
from kaisched.sim.crossings import Crossings
from kaisched.sim.devices import DeviceLog
from kaisched.sim.history import VirtualHistory
from kaisched.sim.replay import Pace
from kaisched.sim.series import Steps
from kaisched.sim.workload import Gpus, Workload, plain

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


class Recorder:
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
