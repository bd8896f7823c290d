"""Runs scenarios: the daemon's own cycle in virtual time, with a recorder."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from kaisched.cluster.pools.handover import DWELL_S
from kaisched.core.tables import QueueTable
from kaisched.engine.policy import build_policy
from kaisched.framework.policy import Policy
from kaisched.objects.shard import SchedulingShard
from kaisched.sim.cluster import Cluster, Decide
from kaisched.sim.crossings import Crossings
from kaisched.sim.grid import NEVER
from kaisched.sim.history import VirtualHistory
from kaisched.sim.pools import Site, Ways
from kaisched.sim.recorder import Recorder
from kaisched.sim.replay import Replay
from kaisched.sim.scenario.pools import in_pool
from kaisched.sim.scenario.setup import Scenario
from kaisched.sim.simulation import CheckedCycle, PolicyCycle
from kaisched.sim.source import Drawn
from kaisched.sim.workload import Workload
from kaisched.units import parse_duration

Progress = Callable[[float], None]
"""Callback with the time in seconds after each cycle."""


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
    workload = Workload(tuple(scenario.leaves), (), (), [], [], [], [], [], [])
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
    workload = Workload(tuple(scenario.leaves), (), (), [], [], [], [], [], [])
    clusters = _clusters(scenario, workload)
    history = _history(scenario, clusters[0])

    def decide(policy: Policy) -> Decide:
        cycle = shown(PolicyCycle(policy, history))
        return CheckedCycle(cycle) if is_checked else cycle

    policies = [policy, *(_built(scenario, it, actions) for it in scenario.others)]
    each = zip(clusters, policies, (scenario.shard, *scenario.others), strict=True)
    sites = [_site(cluster, decide(policy), shard) for cluster, policy, shard in each]
    source = Drawn(workload, scenario.planned, scenario.backlogs, pace.step_s)
    crossings = Crossings(scenario.levels, clusters[0].node_labels())
    record = Recorder(workload, clusters, history, pace, crossings)
    replay = _replay(scenario, workload, sites, source, record)
    tell = None if progress is None else (lambda tick: progress(tick * pace.step_s))
    replay.run(NEVER if scenario.is_drained else scenario.end_tick, tell)
    record.look(replay.last)
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


def _history(scenario: Scenario, cluster: Cluster) -> VirtualHistory | None:
    if scenario.usage is None:
        return None
    return VirtualHistory(scenario.usage, cluster.resources, cluster.queues)


def _built(scenario: Scenario, shard: SchedulingShard, actions: Sequence[str] | None) -> Policy:
    return build_policy(shard, scenario.shard_file, actions=actions)[0]


def _clusters(scenario: Scenario, workload: Workload) -> list[Cluster]:
    """Return the cluster of each node pool; one where there are no pools."""
    origin_s = scenario.pace.origin_s
    if not scenario.others:
        devices = scenario.offered.of(scenario.nodes)
        levels = scenario.levels
        return [Cluster(workload, scenario.nodes, scenario.queues, origin_s, levels, devices)]
    pools = [it.spec.partition_label_value for it in (scenario.shard, *scenario.others)]
    rows = scenario.lists.rows
    clusters = []
    for pool in pools:
        nodes = in_pool(scenario.nodes, pool)
        devices = scenario.offered.of(nodes)
        clusters.append(Cluster(workload, nodes, rows[pool], origin_s, devices=devices))
    return clusters


def _replay(
    scenario: Scenario,
    workload: Workload,
    sites: Sequence[Site],
    source: Drawn,
    record: Recorder,
) -> Replay:
    return Replay(
        workload,
        sites[0].cluster,
        sites[0].decide,
        0,
        scenario.pace,
        source=source,
        outages=scenario.outages,
        watch=record,
        ways=Ways(workload, sites, scenario.lists),
    )


def _site(cluster: Cluster, decide: Decide, shard: SchedulingShard) -> Site:
    spec = shard.spec
    dwell_s = DWELL_S if spec.pool_dwell is None else parse_duration(spec.pool_dwell)
    is_idle_first = spec.pool_order == "idleFirst"
    return Site(cluster, decide, spec.partition_label_value, dwell_s, is_idle_first=is_idle_first)
