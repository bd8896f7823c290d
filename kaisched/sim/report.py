"""Report of a simulation: sums per queue and in all, ready to print or to compare."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kaisched.framework.report.records import who_failed
from kaisched.sim.replay import Replay
from kaisched.sim.ticks import GRID_S
from kaisched.sim.workload import ClusterSize, QuotaMode, Workload, plain


@dataclass(frozen=True, slots=True)
class Setting:
    """Setting of a simulation."""

    trace: str
    size: ClusterSize
    quota: QuotaMode


@dataclass(frozen=True, slots=True)
class Waits:
    """Seconds from arrival to first start over all jobs; jobs still waiting count so far."""

    mean_s: float
    p50_s: float
    p95_s: float
    longest_s: float


@dataclass(frozen=True, slots=True)
class QueueReport:
    """One queue."""

    name: str
    weight: float
    quota_gpus: int
    jobs: int
    finished: int
    running: int
    pending: int
    evictions: int
    gpu_hours: float
    lost_gpu_hours: float
    """GPU-hours lost to evictions: work done twice, and room held by jobs while they stopped."""
    entitled_gpu_hours: float
    """GPU-hours that demand, weight and quota entitled the queue to."""
    got: float | None
    """GPU-hours by entitled GPU-hours; None if the queue asked for none."""
    wait: Waits | None
    """None if no job arrived."""


@dataclass(frozen=True, slots=True)
class Failure:
    """A failing plugin or action, with its error and the number of failures."""

    plugin: str
    question: str
    error: str
    times: int

    def warning(self) -> str:
        """Return the failure as a line of text."""
        who = who_failed(self.plugin, self.question)
        return f"warning: {who} failed {self.times} times: {self.error}"


@dataclass(frozen=True, slots=True)
class Report:
    """The whole."""

    trace: str
    nodes: int
    gpus: int
    quota: str
    from_s: float
    until_s: float
    jobs: int
    finished: int
    running: int
    pending: int
    evictions: int
    cycles: int
    gpu_hours: float
    lost_gpu_hours: float
    redone_gpu_hours: float
    """GPU-hours of work done twice, which are also among the GPU-hours."""
    utilisation: float
    """GPU-hours used, as a part of the cluster's."""
    fair_share_distance: float
    """Mean over time of half the sum over queues of |held - fair share|, by the cluster's GPUs."""
    checkpoint_every_s: float
    makespan_s: float | None
    """From the beginning to the last end; None unless every job has ended."""
    queues: tuple[QueueReport, ...]
    failures: tuple[Failure, ...]


def report_of(replay: Replay, workload: Workload, setting: Setting) -> Report:
    """Sum up a finished replay."""
    tally = replay.tally
    queues = _queues(replay, workload)
    ticks = replay.last - replay.first
    came, finished, pending = sum(tally.arrived), sum(tally.finished), sum(tally.pending)
    used, redone = plain(sum(tally.used)), plain(sum(tally.redone))
    capacity = ticks * setting.size.gpus
    return Report(
        trace=setting.trace,
        nodes=setting.size.nodes,
        gpus=setting.size.gpus,
        quota=setting.quota.value,
        from_s=_seconds(replay.first),
        until_s=_seconds(replay.last),
        jobs=came,
        finished=finished,
        running=came - finished - pending,
        pending=pending,
        evictions=sum(tally.evicted),
        cycles=replay.cycles,
        gpu_hours=_hours(used),
        lost_gpu_hours=_hours(redone + plain(sum(tally.stopping))),
        redone_gpu_hours=_hours(redone),
        utilisation=used / capacity if ticks else 0.0,
        fair_share_distance=plain(tally.distance) / (2 * 1000 * capacity) if ticks else 0.0,
        checkpoint_every_s=_seconds(replay.pace.checkpoint),
        makespan_s=_seconds(replay.last_end - replay.first) if came == finished else None,
        queues=queues,
        failures=tuple(
            Failure(*failure, times) for failure, times in sorted(replay.failures.items())
        ),
    )


def _queues(replay: Replay, workload: Workload) -> tuple[QueueReport, ...]:
    tally = replay.tally
    waits = tally.waits(replay.last)
    rows = []
    for queue, name in enumerate(workload.queue_names):
        used, entitled = plain(tally.used[queue]), tally.entitled[queue] / 1000
        rows.append(
            QueueReport(
                name=name,
                weight=workload.weights[queue],
                quota_gpus=workload.quotas[queue],
                jobs=tally.arrived[queue],
                finished=tally.finished[queue],
                running=tally.running(queue),
                pending=tally.pending[queue],
                evictions=tally.evicted[queue],
                gpu_hours=_hours(used),
                lost_gpu_hours=_hours(plain(tally.redone[queue] + tally.stopping[queue])),
                entitled_gpu_hours=_hours(entitled),
                got=used / entitled if entitled else None,
                wait=waits_of(waits[queue]),
            )
        )
    return tuple(rows)


def waits_of(ticks: list[int], step_s: float = GRID_S) -> Waits | None:
    """Sum up waits; return None without any."""
    if not ticks:
        return None
    ticks = sorted(ticks)
    return Waits(
        mean_s=sum(ticks) * step_s / len(ticks),
        p50_s=float(nearest_rank(ticks, 50) * step_s),
        p95_s=float(nearest_rank(ticks, 95) * step_s),
        longest_s=float(ticks[-1] * step_s),
    )


def nearest_rank(ordered: Sequence[int], percent: int) -> int:
    """Return the least value that at least ``percent`` of the values do not exceed."""
    return ordered[max(-(-len(ordered) * percent // 100) - 1, 0)]


def _seconds(ticks: int) -> float:
    return float(ticks * GRID_S)


def _hours(ticks: float) -> float:
    return ticks * GRID_S / 3600
