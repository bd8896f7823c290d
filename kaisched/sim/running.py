"""Runs of scenarios and of traces: the daemon's own cycle and usage history in virtual time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from kaisched.cluster.pools.handover import DWELL_S
from kaisched.core.snapshot import Snapshot
from kaisched.core.tables import QueueTable
from kaisched.engine.policy import build_policy
from kaisched.errors import ConfigError, InvariantBroken
from kaisched.framework.cycle import UsageSource, run_cycle
from kaisched.framework.invariants.violations import violations
from kaisched.framework.memory import Memory
from kaisched.framework.plugins.probe import NULL, Probe
from kaisched.framework.policy import Policy
from kaisched.framework.report.result import CycleResult
from kaisched.objects.shard import SchedulingShard
from kaisched.sim.arrivals import Drawn
from kaisched.sim.cluster import Cluster, Decide, equal_nodes, equal_queues
from kaisched.sim.pools import Site
from kaisched.sim.recorder import Crossings, Recorder, VirtualHistory
from kaisched.sim.replay import Replay
from kaisched.sim.report import Report, report_of
from kaisched.sim.scenario.load import Scenario
from kaisched.sim.scenario.queues import in_pool
from kaisched.sim.ticks import CHECKPOINT_TICKS, GRID_S, NEVER, Pace, tick_at
from kaisched.sim.workload import ClusterSize, QuotaMode, Trace, Workload, workload_of
from kaisched.units import format_duration, parse_duration

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
        last_s = float(trace.submit_s[-1]) if len(trace) else 0.0
        if self.from_s > last_s:
            after = f"--from {format_duration(self.from_s)} is after the last job of the trace"
            raise ConfigError(after, fix=f"begin at {format_duration(last_s)} or before")
        until_s = last_s + GRID_S if self.until_s is None else self.until_s
        if until_s <= self.from_s:
            begin, end = format_duration(self.from_s), format_duration(until_s)
            message = f"--until {end} is not after --from {begin}"
            raise ConfigError(message, fix="end the stretch after it begins")
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
    replay = Replay(workload, [Site(cluster, decide)], tick_at(from_s), pace)
    last = NEVER if stretch.is_drained else tick_at(until_s)
    on_tick = None if progress is None else (lambda tick: progress(float(tick * GRID_S)))
    replay.run(last, on_tick)
    return report_of(replay, workload, trace.name, size, quota)


@dataclass(frozen=True, slots=True)
class Run:
    """A finished run with its recordings."""

    scenario: Scenario
    workload: Workload
    groups: Sequence[str]
    """Origin of each job."""
    replay: Replay
    record: Recorder
    tables: Sequence[QueueTable]
    """The queues of each node pool."""
    node_names: Sequence[str]
    node_gpus: Sequence[float]

    def place_of(self, queue: str) -> tuple[QueueTable, int]:
        """Return the table and the row of a queue."""
        table = next(it for it in self.tables if queue in it.row_of_name)
        return table, table.row_of_name[queue]


def policy_of(scenario: Scenario, actions: Sequence[str] | None = None) -> tuple[Policy, list[str]]:
    """Build the policy of a scenario, of its first shard; return it with the warnings of all.

    Raises:
        ConfigError: a plugin, action or argument does not exist or is invalid.

    """
    policy, warnings = build_policy(
        scenario.shard,
        scenario.shard_file,
        actions=actions,
        has_history=scenario.usage is not None,
    )
    for shard in scenario.others:
        warnings += build_policy(shard, scenario.shard_file, actions=actions)[1]
    return policy, warnings


def cluster_of(scenario: Scenario) -> Cluster:
    """Return the first cluster of a scenario as it is before any job has come."""
    workload = Workload(tuple(scenario.leaves))
    return _clusters(scenario, workload)[0]


def run_scenario(
    scenario: Scenario,
    policy: Policy,
    progress: Progress | None = None,
    *,
    actions: Sequence[str] | None = None,
    is_checked: bool = False,
    shown: Callable[[PolicyCycle], Decide] = lambda cycle: cycle,
) -> Run:
    """Run a scenario under a policy. Equal scenarios and policies give equal runs.

    ``policy`` is that of the first shard, ``actions`` are those of the others, by default as they
    say. ``progress`` is told the time after each cycle, and ``shown`` may wrap a cycle, to show
    what it finds. With ``is_checked`` each cycle is checked for broken invariants.

    Raises:
        InvariantBroken: with ``is_checked``, a cycle broke an invariant.

    """
    pace = scenario.pace
    workload = Workload(tuple(scenario.leaves))
    clusters = _clusters(scenario, workload)
    history = None
    if scenario.usage is not None:
        history = VirtualHistory(scenario.usage, clusters[0].resources, clusters[0].queues)

    def decide(policy: Policy) -> Decide:
        cycle = shown(PolicyCycle(policy, history))
        return CheckedCycle(cycle) if is_checked else cycle

    others = [build_policy(it, scenario.shard_file, actions=actions)[0] for it in scenario.others]
    each = zip(clusters, [policy, *others], (scenario.shard, *scenario.others), strict=True)
    sites = [_site(cluster, decide(policy), shard) for cluster, policy, shard in each]
    source = Drawn(workload, scenario.planned, scenario.backlogs, pace.step_s)
    crossings = Crossings(scenario.levels, clusters[0].node_labels())
    record = Recorder(workload, clusters, history, pace, crossings)
    replay = Replay(
        workload,
        sites,
        0,
        pace,
        source=source,
        outages=scenario.outages,
        tally=record,
        lists=scenario.lists,
    )
    on_tick = None if progress is None else (lambda tick: progress(tick * pace.step_s))
    replay.run(NEVER if scenario.is_drained else scenario.end_tick, on_tick)
    return Run(
        scenario=scenario,
        workload=workload,
        groups=source.groups,
        replay=replay,
        record=record,
        tables=[cluster.queues for cluster in clusters],
        node_names=[name for cluster in clusters for name in cluster.node_names()],
        node_gpus=[gpus for cluster in clusters for gpus in cluster.node_gpus()],
    )


def _clusters(scenario: Scenario, workload: Workload) -> list[Cluster]:
    """Return the cluster of each node pool; one where there are no pools."""
    parts = [(scenario.nodes, scenario.queues)]
    if scenario.others:
        parts = [
            (in_pool(scenario.nodes, pool), rows) for pool, rows in scenario.lists.rows.items()
        ]
    return [
        Cluster(
            workload,
            nodes,
            queues,
            scenario.pace.origin_s,
            scenario.levels,
            scenario.offered.of(nodes),
        )
        for nodes, queues in parts
    ]


def _site(cluster: Cluster, decide: Decide, shard: SchedulingShard) -> Site:
    spec = shard.spec
    dwell_s = DWELL_S if spec.pool_dwell is None else parse_duration(spec.pool_dwell)
    is_idle_first = spec.pool_order == "idleFirst"
    return Site(cluster, decide, spec.partition_label_value, dwell_s, is_idle_first=is_idle_first)
