"""Runs scenarios: the daemon's own cycle in virtual time, with a recorder."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from kaisched.core.tables import QueueTable
from kaisched.engine.policy import build_policy
from kaisched.framework.policy import Policy
from kaisched.sim.cluster import Cluster
from kaisched.sim.grid import NEVER
from kaisched.sim.history import VirtualHistory
from kaisched.sim.recorder import Recorder
from kaisched.sim.replay import Decide, Replay
from kaisched.sim.scenario.setup import Scenario
from kaisched.sim.simulation import CheckedCycle, PolicyCycle
from kaisched.sim.source import Drawn
from kaisched.sim.workload import Workload

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
    queues: QueueTable
    node_names: Sequence[str]
    node_gpus: Sequence[float]


def policy_of(scenario: Scenario, actions: Sequence[str] | None = None) -> tuple[Policy, list[str]]:
    """Build the policy of a scenario; return it with its warnings.

    Raises:
        ConfigError: a plugin, action or argument does not exist or is invalid.

    """
    return build_policy(scenario.shard, scenario.shard_file, actions=actions)


def run_scenario(
    scenario: Scenario,
    policy: Policy,
    progress: Progress | None = None,
    *,
    is_checked: bool = False,
    shown: Callable[[PolicyCycle], Decide] = lambda cycle: cycle,
) -> Run:
    """Run a scenario under a policy. Equal scenarios and policies give equal runs.

    ``shown`` may wrap the cycle, to show what it finds.

    Raises:
        InvariantBroken: with ``is_checked``, a cycle broke an invariant.

    """
    pace = scenario.pace
    workload = Workload(tuple(scenario.leaves), (), (), [], [], [], [], [], [])
    cluster = Cluster(workload, scenario.nodes, scenario.queues, pace.origin_s)
    table = cluster.queues
    history = None
    if scenario.usage is not None:
        history = VirtualHistory(scenario.usage, cluster.resources, table)
    cycle = shown(PolicyCycle(policy, history))
    source = Drawn(workload, scenario.planned, scenario.backlogs, pace.step_s)
    record = Recorder(workload, cluster, history, pace)
    replay = Replay(
        workload,
        cluster,
        CheckedCycle(cycle) if is_checked else cycle,
        0,
        pace,
        source=source,
        outages=scenario.outages,
        watch=record,
    )
    tell = None if progress is None else (lambda tick: progress(tick * pace.step_s))
    replay.run(NEVER if scenario.is_drained else scenario.end_tick, tell)
    record.look(replay.last)
    return Run(
        scenario=scenario,
        workload=workload,
        groups=source.groups,
        replay=replay,
        record=record,
        queues=table,
        node_names=cluster.node_names(),
        node_gpus=cluster.node_gpus(),
    )
