"""Scenario after reading: everything that a run needs except the policy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from kaisched.cluster.nodes import NodeRow
from kaisched.cluster.queues import QueueRow
from kaisched.core.tables import TopologyLevel
from kaisched.objects.shard import SchedulingShard
from kaisched.sim.making import Job
from kaisched.sim.pools import Lists
from kaisched.sim.replay import Outage, Pace
from kaisched.sim.scenario.claims import Offered
from kaisched.sim.scenario.document import Tune
from kaisched.sim.source import Backlog
from kaisched.usage.settings import UsageSettings


@dataclass(frozen=True, slots=True)
class Scenario:
    """A scenario to run. Its jobs are drawn already, except those of backlogs."""

    name: str
    file: str
    seed: int
    end_tick: int
    is_drained: bool
    pace: Pace
    nodes: Sequence[NodeRow]
    outages: Sequence[Outage]
    levels: tuple[TopologyLevel, ...]
    """Of its topology, the outermost first; none without one."""
    offered: Offered
    """Devices for claims."""
    queues: Sequence[QueueRow]
    """All queues of the tree."""
    leaves: Sequence[str]
    """Names of the queues that hold jobs, in the order of the file."""
    planned: Sequence[Job]
    backlogs: Sequence[Backlog]
    shard: SchedulingShard
    shard_file: str
    others: Sequence[SchedulingShard]
    """Shards of other node pools."""
    lists: Lists
    """The queues of projects in each node pool."""
    usage: UsageSettings | None
    """None if cycles see no history."""
    tune: Tune | None
    raw: dict[str, Any]
    """The file as plain values, for variants of the scenario."""
    warnings: Sequence[str]
