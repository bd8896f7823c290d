"""Node pools of a scenario: shards, and the queues of each project in each of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from kaisched.cluster.nodes import NodeRow
from kaisched.cluster.pools.projects import Projects
from kaisched.cluster.queues import QueueRow
from kaisched.objects import labels
from kaisched.objects.decode import BadObject, decode_object
from kaisched.objects.shard import SchedulingShard
from kaisched.sim.pools import Lists
from kaisched.sim.scenario.document import JobGroup, ScenarioDocument
from kaisched.sim.scenario.findings import Findings


@dataclass(frozen=True, slots=True)
class Pools:
    """What the scenario says of node pools, read but not yet checked against each other."""

    shards: Sequence[SchedulingShard]
    """Empty where all nodes are of one shard."""
    projects: Projects
    pool_of_queue: Mapping[str, str]

    def of_group(self, group: JobGroup, found: Findings, at: int) -> tuple[str, ...]:
        """Return the pools of a group of jobs, as label values, in order."""
        if not self.shards:
            if group.pools:
                fix = "write shards, one for each node pool"
                found.add("needs several shards", "jobs", at, "pools", fix=fix)
            return ()
        there = [labels.pool_name(it.spec.partition_label_value) for it in self.shards]
        for number, name in enumerate(group.pools):
            found.known(name, there, "node pool", "jobs", at, "pools", number)
        if len(set(group.pools)) < len(group.pools):
            found.add("lists a node pool twice", "jobs", at, "pools", fix="list each once")
        if group.pools:
            return tuple(map(labels.pool_named, group.pools))
        own = (self.pool_of_queue.get(group.queue, ""),)
        return self.projects.list_of(group.queue) or own


def shards_of(document: ScenarioDocument, found: Findings) -> list[SchedulingShard]:
    """Return the shards of the node pools; none where there is one shard for all nodes."""
    shards: list[SchedulingShard] = []
    if not document.shards:
        return shards
    for key, is_there in (
        ("shard", document.shard is not None),
        ("shardFile", bool(document.shard_file)),
        ("queuesFrom", bool(document.queues_from)),
        ("traces", bool(document.traces)),
        ("usage", document.usage is not None),
    ):
        if is_there:
            found.add("conflicts with shards", key, fix=f"leave out {key}, or shards")
    for at, spec in enumerate(document.shards):
        pool = spec.get("partitionLabelValue") or labels.DEFAULT_POOL
        plain: dict[str, Any] = {"metadata": {"name": str(pool)}, "spec": spec}
        try:
            shard, warnings = decode_object(plain, SchedulingShard)
        except BadObject as bad:
            for wrong in bad.errors:
                found.add_error(wrong, "spec", "shards", at)
            continue
        if any(it.name == shard.name for it in shards):
            path = ("shards", at, "partitionLabelValue")
            found.add("two shards for this node pool", *path, value=pool, fix="keep one of them")
        if shard.spec.usage_db_config is not None:
            path = ("shards", at, "usageDBConfig")
            found.add("is for scenarios of one shard", *path, fix="leave it out")
        shards.append(shard)
        found.warnings += [f"{found.file}: {it.path}: {it.message}" for it in warnings]
    return shards


def in_pool(rows: Sequence[NodeRow], pool: str) -> list[NodeRow]:
    """Return the nodes of a pool."""
    return [row for row in rows if row.labels.get(labels.NODE_POOL, "") == pool]


def lists_of(
    pools: Pools,
    rows: list[QueueRow],
    leaves: list[str],
    wanted: Sequence[tuple[int, str, Sequence[str]]],
    found: Findings,
) -> Lists:
    """Return the queues of each project in each pool; append those that are made up.

    Args:
        pools: the shards and projects.
        rows: all queues.
        leaves: names of those that hold jobs.
        wanted: (group, queue, pools) of each group of jobs.
        found: takes the faults.

    """
    rows_of = {
        it.spec.partition_label_value: [
            row for row in rows if pools.pool_of_queue[row.name] == it.spec.partition_label_value
        ]
        for it in pools.shards
    }
    there: dict[tuple[str, str], str] = {}
    for pool in rows_of:
        for name in leaves:
            if queue := pools.projects.queue_in(pool, name):
                there[pool, name] = queue
    for at, name, listed in wanted:
        _admit(pools, name, listed, there, rows, rows_of)
        if not any((pool, name) in there for pool in listed):
            names = ", ".join(map(labels.pool_name, listed))
            fix = "add a queue of its project in one of them, or admitsAllProjects to a shard"
            text = f"its project has no queue in {names}"
            found.add(text, "jobs", at, "queue", value=name, fix=fix)
    leaves += sorted({name for name in there.values() if name not in leaves})
    at_of = {name: at for at, name in enumerate(leaves)}
    # A job may be in the queue of any pool of its project when it goes on.
    queue_in = {
        (pool, at_of[other]): at_of[queue]
        for (pool, name), queue in there.items()
        for other in {name, *(there[it, name] for it in rows_of if (it, name) in there)}
    }
    return Lists(queue_in, rows_of)


def _admit(
    pools: Pools,
    name: str,
    listed: Sequence[str],
    there: dict[tuple[str, str], str],
    rows: list[QueueRow],
    rows_of: Mapping[str, list[QueueRow]],
) -> None:
    """Make up the queues of a project in those pools of a list that admit all projects."""
    for shard in pools.shards:
        pool = shard.spec.partition_label_value
        if not shard.spec.admits_all_projects or pool not in listed or (pool, name) in there:
            continue
        made = pools.projects.made_up(pool, name)
        there[pool, name] = made[-1].name
        for row in made:
            if all(row.name != it.name for it in rows):
                rows.append(replace(row, created_s=float(len(rows))))
                rows_of[pool].append(rows[-1])


def check_pools(
    pools: Pools, nodes: Sequence[NodeRow], rows: Sequence[QueueRow], found: Findings
) -> None:
    """Record nodes and queues whose pool no shard serves, and queues with parents elsewhere."""
    served = {it.spec.partition_label_value for it in pools.shards}
    for pool in sorted({row.labels.get(labels.NODE_POOL, "") for row in nodes} - served):
        fix = f"add a shard with the partitionLabelValue {pool}" if pool else "add a shard for them"
        found.add("no shard serves this node pool", "nodes", value=labels.pool_name(pool), fix=fix)
    for at, row in enumerate(rows):
        pool = pools.pool_of_queue[row.name]
        if pool not in served:
            path = ("queues", at, "pool")
            fix = "add a shard for it, or name another"
            found.add("no shard serves it", *path, value=labels.pool_name(pool), fix=fix)
        elif row.parent and pools.pool_of_queue.get(row.parent, pool) != pool:
            fix = "each pool has queues of its own, departments too"
            found.add("is in another node pool", "queues", at, "parent", value=row.parent, fix=fix)
