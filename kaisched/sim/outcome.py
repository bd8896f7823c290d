"""Outcome of a scenario: the sums of the run and of each queue, and its timeline."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from kaisched.core.axis import GPU, GPU_UNIT, FloatVec, IntVec
from kaisched.sim.entitlement import entitled, wanted
from kaisched.sim.recorder import LevelOutcome, Steps, edges_between
from kaisched.sim.report import Failure, Waits, waits_of
from kaisched.sim.running import Run
from kaisched.sim.workload import plain
from kaisched.units import UNLIMITED

HOUR_S = 3600.0


@dataclass(frozen=True, slots=True)
class QueueOutcome:
    """Outcome of one queue that holds jobs."""

    name: str
    weight: float
    quota_gpus: float
    """-1 for unlimited."""
    jobs: int
    finished: int
    running: int
    pending: int
    evictions: int
    failures: int
    """Stops of jobs because a node failed."""
    gpu_hours: float
    lost_gpu_hours: float
    """GPU-hours of work done twice, and of room held by jobs while they stopped."""
    fair_share_gpu_hours: float
    """GPU-hours that the cycles divided out to the queue."""
    entitled_gpu_hours: float
    """GPU-hours that work, weight and quota entitled the queue to over the run."""
    got: float | None
    """GPU-hours by entitled GPU-hours; None if the queue was entitled to none."""
    wait: Waits | None
    """None if no job arrived."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """Outcome of the whole run."""

    name: str
    seed: int
    step_s: float
    until_s: float
    nodes: int
    gpus: float
    """GPUs of all nodes, failed ones too."""
    jobs: int
    finished: int
    running: int
    pending: int
    evictions: int
    failures: int
    cycles: int
    gpu_hours: float
    lost_gpu_hours: float
    utilisation: float
    """GPU-hours used, as a part of those of ready nodes."""
    fair_share_distance: float
    """Mean over time of half the sum over queues of |held - fair share|, by the GPUs there were."""
    fairness_error: float
    """Half the sum over queues of |GPU-hours - entitled|, by all GPU-hours entitled."""
    jain: float
    """Jain's index of what queues got of what they were entitled to: 1 is equal."""
    makespan_s: float | None
    """Time of the last end; None unless every job has ended."""
    queues: tuple[QueueOutcome, ...]
    plugin_failures: tuple[Failure, ...]
    levels: tuple[LevelOutcome, ...] = ()
    """Of the topology, if there is one."""


def outcome_of(run: Run) -> Outcome:
    """Sum up a run."""
    replay, tally, scenario = run.replay, run.replay.tally, run.scenario
    step_s = scenario.pace.step_s
    hours = step_s / HOUR_S
    end = np.array([replay.last], np.int64)
    due = entitled_until(run, end)[:, 0]
    used = np.array([plain(it) for it in tally.used], np.float64)
    capacity = float(run.record.capacity.integral(end)[0])
    came, finished, pending = sum(tally.arrived), sum(tally.finished), sum(tally.pending)
    queues = _queues(run, due)
    return Outcome(
        name=scenario.name,
        seed=scenario.seed,
        step_s=step_s,
        until_s=replay.last * step_s,
        nodes=len(run.node_names),
        gpus=sum(run.node_gpus),
        jobs=came,
        finished=finished,
        running=came - finished - pending,
        pending=pending,
        evictions=sum(tally.evicted),
        failures=sum(tally.failed),
        cycles=replay.cycles,
        gpu_hours=float(used.sum()) * hours,
        lost_gpu_hours=plain(sum(tally.redone) + sum(tally.stopping)) * hours,
        utilisation=float(used.sum()) / capacity if capacity else 0.0,
        fair_share_distance=plain(tally.distance) / (2 * GPU_UNIT * capacity) if capacity else 0.0,
        fairness_error=error_between(used, due),
        jain=jain_of(used, due),
        makespan_s=replay.last_end * step_s if came == finished else None,
        queues=queues,
        plugin_failures=tuple(
            Failure(*failure, times) for failure, times in sorted(replay.failures.items())
        ),
        levels=run.record.crossings.outcome(),
    )


def error_between(used: FloatVec, due: FloatVec) -> float:
    """Return half the sum of the differences by the sum due; 0 if nothing was due."""
    whole = float(due.sum())
    return float(np.abs(used - due).sum()) / (2 * whole) if whole else 0.0


def jain_of(used: FloatVec, due: FloatVec) -> float:
    """Return Jain's index of amounts used by amounts due; 1 if nothing was due."""
    some = due > 0
    got = used[some] / due[some]
    squares = float((got * got).sum())
    return float(got.sum()) ** 2 / (len(got) * squares) if squares else 1.0


def entitled_until(run: Run, at: IntVec) -> FloatVec:
    """Return GPU ticks ``(V, T)`` that each leaf was entitled to up to each tick."""
    leaves, work = run.scenario.leaves, work_of(run)
    due = np.zeros((len(leaves), len(at)))
    for table, capacity in zip(run.tables, run.record.capacity_of, strict=True):
        mine = [leaf for leaf, name in enumerate(leaves) if name in table.row_of_name]
        if mine:  # each node pool divides its own time
            rows = [table.row_of_name[leaves[leaf]] for leaf in mine]
            due[mine] = entitled(table, rows, [work[leaf] for leaf in mine], capacity, at)
    return due


def work_of(run: Run) -> list[Steps]:
    """Return what each leaf would have held if no job had ever waited."""
    endless = [
        (backlog.bodies.queue, backlog.begin_tick)
        for backlog in run.scenario.backlogs
        if backlog.is_endless
    ]
    return wanted(run.workload, endless, run.record.capacity)


def _queues(run: Run, due: FloatVec) -> tuple[QueueOutcome, ...]:
    tally, work, last = run.replay.tally, run.workload, run.replay.last
    step_s = run.scenario.pace.step_s
    hours = step_s / HOUR_S
    waits = tally.waits(last)
    rows = []
    for queue, name in enumerate(work.queue_names):
        table, row = run.place_of(name)
        quota = int(table.deserved[GPU, row])
        used = plain(tally.used[queue])
        rows.append(
            QueueOutcome(
                name=name,
                weight=float(table.weight[GPU, row]),
                quota_gpus=-1.0 if quota >= UNLIMITED else quota / GPU_UNIT,
                jobs=tally.arrived[queue],
                finished=tally.finished[queue],
                running=tally.running(queue),
                pending=tally.pending[queue],
                evictions=tally.evicted[queue],
                failures=tally.failed[queue],
                gpu_hours=used * hours,
                lost_gpu_hours=plain(tally.redone[queue] + tally.stopping[queue]) * hours,
                fair_share_gpu_hours=tally.entitled[queue] / GPU_UNIT * hours,
                entitled_gpu_hours=float(due[queue]) * hours,
                got=used / float(due[queue]) if due[queue] > 0 else None,
                wait=waits_of(waits[queue], step_s),
            )
        )
    return tuple(rows)


MOST_POINTS: Final = 1_000
_MOST_DIVISIONS: Final = 250
"""Instants at which the entitlement is computed; it is linear in between."""


@dataclass(frozen=True, slots=True)
class Timeline:
    """Columns over T points, the ends of equal spans; amounts are means of a span."""

    begin_s: FloatVec
    """``(T,)`` begin of each span."""
    end_s: FloatVec
    queues: tuple[str, ...]
    allocated: FloatVec
    """``(V, T)`` GPUs."""
    waiting: FloatVec
    """``(V, T)`` GPUs that waiting jobs request."""
    fair_share: FloatVec
    """``(V, T)`` GPUs."""
    gpu_hours: FloatVec
    """``(V, T)`` GPU-hours up to the end of the span."""
    entitled_hours: FloatVec
    """``(V, T)`` entitled GPU-hours up to the end of the span."""
    capacity: FloatVec
    """``(T,)`` GPUs."""
    jain: FloatVec
    """``(T,)`` index of GPU-hours by entitled ones, up to the end of the span."""
    evictions: FloatVec
    """``(V, T)`` evictions in the span."""
    lost_hours: FloatVec
    """``(V, T)`` GPU-hours lost to evictions and failures in the span."""

    @property
    def utilisation(self) -> FloatVec:
        """``(T,)`` part of the GPUs in use."""
        there = np.maximum(self.capacity, 1e-9)
        used: FloatVec = np.where(self.capacity > 0, self.allocated.sum(axis=0) / there, 0.0)
        return used

    @property
    def entitled(self) -> FloatVec:
        """``(V, T)`` GPUs: growth of the entitlement in each span."""
        spans = np.diff(self.entitled_hours, axis=1, prepend=0.0)
        rate: FloatVec = spans / ((self.end_s - self.begin_s) / HOUR_S)
        return np.maximum(rate, 0.0)


def timeline_of(run: Run, points: int = MOST_POINTS) -> Timeline:
    """Thin a run to a timeline of at most this many points."""
    record, last = run.record, run.replay.last
    step_s = run.scenario.pace.step_s
    hours = step_s / HOUR_S
    edges = edges_between(0, last, points)
    instants: FloatVec = edges.astype(np.float64) * step_s
    used = np.array([steps.integral(edges[1:]) for steps in record.allocated]) * hours
    some = edges_between(0, last, _MOST_DIVISIONS)
    known = entitled_until(run, some) * hours
    due = np.array([np.interp(edges[1:], some, line) for line in known])
    evictions = np.zeros((len(record.allocated), len(edges) - 1))
    lost = np.zeros_like(evictions)
    for tick, queue, redone, is_failure in record.stops:
        span = min(int(np.searchsorted(edges, tick, side="right")) - 1, len(edges) - 2)
        evictions[queue, span] += not is_failure
        lost[queue, span] += redone * hours
    return Timeline(
        begin_s=instants[:-1],
        end_s=instants[1:],
        queues=run.workload.queue_names,
        allocated=np.array([steps.means(edges) for steps in record.allocated]),
        waiting=np.array([steps.means(edges) for steps in record.waiting]),
        fair_share=np.array([steps.means(edges) for steps in record.fair_share]),
        gpu_hours=used,
        entitled_hours=due,
        capacity=record.capacity.means(edges),
        jain=np.array([jain_of(used[:, at], due[:, at]) for at in range(len(edges) - 1)]),
        evictions=evictions,
        lost_hours=lost,
    )
