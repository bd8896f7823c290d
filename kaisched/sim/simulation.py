"""A whole simulation: a stretch of a trace on a cluster of some size, under a policy."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np

from kaisched.core.snapshot import Snapshot
from kaisched.engine.cycle import UsageSource
from kaisched.errors import ConfigError, InvariantBroken
from kaisched.framework.cycle import run_cycle
from kaisched.framework.invariants.violations import violations
from kaisched.framework.memory import Memory
from kaisched.framework.plugins.probe import NULL, Probe
from kaisched.framework.policy import Policy
from kaisched.framework.report.result import CycleResult
from kaisched.sim.cluster import Cluster, Decide, equal_nodes, equal_queues
from kaisched.sim.grid import GRID_S, NEVER, tick_at
from kaisched.sim.replay import CHECKPOINT_TICKS, Pace, Replay
from kaisched.sim.report import Report, Setting, report_of
from kaisched.sim.trace import Trace
from kaisched.sim.workload import ClusterSize, QuotaMode, workload_of

Progress = Callable[[float], None]
"""Callback with the time in seconds after each cycle."""

RECORDS_EVERY: Final = 100
_FEW: Final = 20


@dataclass(frozen=True, slots=True)
class Stretch:
    """Jobs submitted from ``from_s`` on and before ``until_s``, where the clock stops too.

    Without ``until_s`` the stretch ends with the last submission. With ``is_drained`` the clock
    then goes on until nothing happens any more.
    """

    from_s: float = 0.0
    until_s: float | None = None
    is_drained: bool = False

    def bounds(self, trace: Trace) -> tuple[float, float]:
        """Return begin and end of the stretch in a trace, in seconds."""
        until_s = self.until_s
        if until_s is None:
            last_s = float(trace.submit_s[-1]) if len(trace) else 0.0
            until_s = max(last_s, self.from_s) + GRID_S
        if until_s <= self.from_s:
            raise ConfigError(
                "the stretch ends before it begins",
                path="--until",
                value=until_s,
                fix=f"end after {self.from_s:.0f} s, where it begins",
            )
        return self.from_s, until_s


class PolicyCycle:
    """The daemon's own cycle under one policy, with its memory from cycle to cycle."""

    def __init__(self, policy: Policy, usage: UsageSource | None = None) -> None:
        """Start without memory; ``usage`` is the usage history for the cycles, if any."""
        self._policy = policy
        self._usage = usage
        self._memory = Memory()
        self.probe: Probe = NULL
        """Watches plugins and actions."""

    def __call__(self, snapshot: Snapshot, now_s: float) -> CycleResult:
        """Decide on a snapshot."""
        usage = None if self._usage is None else self._usage.usage(snapshot, now_s)
        result, self._memory = run_cycle(
            snapshot, usage, self._policy, now_s, self._memory, self.probe
        )
        return result


class CheckedCycle:
    """A cycle after which every invariant must hold.

    Invariants of decision records are checked each time while few jobs wait. With a long queue, all
    records take a hundred times as long as the cycle, so they are checked every RECORDS_EVERY
    cycles.
    """

    def __init__(self, decide: Decide) -> None:
        """Wrap ``decide`` and count its cycles."""
        self._decide = decide
        self._cycles = 0

    def __call__(self, snapshot: Snapshot, now_s: float) -> CycleResult:
        """Decide on a snapshot; raise InvariantBroken with the first violation and its cycle."""
        result = self._decide(snapshot, now_s)
        self._cycles += 1
        is_short = int(np.count_nonzero(snapshot.jobs.pending)) <= _FEW
        with_records = is_short or self._cycles % RECORDS_EVERY == 0
        policy: Policy = result.records.session.policy
        found = violations(snapshot, result, policy, with_records=with_records)
        if found:
            raise InvariantBroken(
                f"cycle {self._cycles}, at {now_s:.0f} s: {found[0]}",
                fix="report it with the command line and, if there is one, the shard file",
            )
        return result


def simulate(
    trace: Trace,
    stretch: Stretch,
    size: ClusterSize,
    decide: Decide,
    *,
    quota: QuotaMode = QuotaMode.NONE,
    checkpoint_every_s: float = CHECKPOINT_TICKS * GRID_S,
    progress: Progress | None = None,
) -> Report:
    """Replay a stretch of a trace and report on it.

    ``checkpoint_every_s`` is rounded up to the grid. An evicted job repeats its work since its last
    checkpoint.
    """
    if not checkpoint_every_s > 0:
        raise ConfigError(
            "there is no time between two checkpoints",
            path="--checkpoint-every",
            value=checkpoint_every_s,
            fix=f"give {GRID_S} s or more; with {GRID_S} s, no work is lost",
        )
    from_s, until_s = stretch.bounds(trace)
    part = trace.part(from_s, until_s)
    workload = workload_of(part, size, quota)
    cluster = Cluster(workload, equal_nodes(size), equal_queues(workload))
    pace = Pace(checkpoint=tick_at(checkpoint_every_s))
    replay = Replay(workload, cluster, decide, tick_at(from_s), pace)
    last = NEVER if stretch.is_drained else tick_at(until_s)
    tell = None if progress is None else (lambda tick: progress(float(tick * GRID_S)))
    replay.run(last, tell)
    return report_of(replay, workload, Setting(trace.name, size, quota))
