"""Queues of a scenario, in short form or as whole Queue objects, and its node pools."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from kaisched.cluster.nodes import NodeRow
from kaisched.cluster.pools.projects import Projects
from kaisched.cluster.queues import QueueRow, queue_row
from kaisched.objects import labels
from kaisched.objects.decode import BadObject, decode_object, faults_of
from kaisched.objects.kueue import ClusterQueue, Cohort, LocalQueue
from kaisched.objects.kueue_queues import tree_of
from kaisched.objects.labels import pool_named
from kaisched.objects.load import check_queues, load_manifests
from kaisched.objects.queue import Queue, QueueResource, QueueSpec
from kaisched.objects.shard import SchedulingShard
from kaisched.objects.wire import ObjectMeta
from kaisched.sim.pools import Lists
from kaisched.sim.scenario.document import JobGroup, QueueLine, ScenarioDocument
from kaisched.sim.scenario.findings import Findings

_OBJECT_KEYS = {"apiVersion", "kind", "metadata", "spec"}


def queues_in(place: Path, found: Findings) -> list[QueueRow]:
    """Return the rows of the queues among manifests: Queues, and those of Kueue."""
    loaded = load_manifests([place])
    queues = loaded.of(Queue)
    tree = tree_of(
        loaded.of(ClusterQueue),
        loaded.of(Cohort),
        loaded.of(LocalQueue),
        taken=[queue.name for queue in queues],
        sources=loaded.sources,
    )
    good, problems = check_queues([*queues, *tree.queues], loaded.sources)
    for problem in (*loaded.problems, *tree.problems, *problems):
        found.add_error(problem, "")
    found.warnings += [str(it) for it in (*loaded.warnings, *tree.warnings)]
    if not good and not found.errors:
        found.add("holds no queues", "queuesFrom", value=str(place), fix="name another place")
    rows = [queue_row(queue) for queue in sorted(good, key=lambda it: it.name)]
    return [replace(row, created_s=row.created_s or float(at)) for at, row in enumerate(rows)]


def queues_of(
    lines: Sequence[dict[str, Any]], found: Findings
) -> tuple[list[QueueRow], list[Queue]]:
    """Return the queues in the order of the file, which is also that of their age, and the rows."""
    queues: list[Queue] = []
    at_of_name: dict[str, int] = {}
    for at, line in enumerate(lines):
        is_whole = not _OBJECT_KEYS.isdisjoint(line)
        part = found.inside("queues", at)
        queue = _whole(line, part) if is_whole else _short(line, part)
        if queue is None:
            continue
        if queue.name in at_of_name:
            first = at_of_name[queue.name]
            fix = f"queues[{first}] has it; give this one another name"
            part.add("appears twice", "name", value=queue.name, fix=fix)
            continue
        at_of_name[queue.name] = at
        queues.append(queue)
        for fault in faults_of(queue):
            if fault.is_warning:
                part.warn(fault.message, *fault.path)
    good, problems = check_queues(queues)
    for problem in problems:
        at = at_of_name[problem.name]
        if _OBJECT_KEYS.isdisjoint(lines[at]):
            problem.path = _short_path(problem.path)
        found.add_error(problem, "", "queues", at)
    rows = [(at_of_name[queue.name], queue_row(queue)) for queue in good]
    return [replace(row, created_s=row.created_s or float(at)) for at, row in rows], good


def leaves_of(rows: Sequence[QueueRow]) -> list[str]:
    """Return the names of the queues that may hold jobs, in their order."""
    parents = {row.parent for row in rows}
    return [row.name for row in rows if row.name not in parents]


def _whole(line: dict[str, Any], found: Findings) -> Queue | None:
    for key, word in (("apiVersion", Queue.API_VERSION), ("kind", Queue.KIND)):
        if line.get(key, word) != word:
            found.add("no Queue", key, value=line[key], fix=f'write "{word}"')
            return None
    plain = {key: value for key, value in line.items() if key not in ("apiVersion", "kind")}
    try:
        queue, _ = decode_object(plain, Queue)
    except BadObject as bad:
        for error in bad.errors:
            found.add_error(error, "")
        return None
    return queue


def _short(line: dict[str, Any], found: Findings) -> Queue | None:
    short: QueueLine | None = found.convert(line, QueueLine)
    if short is None:
        return None
    if not short.name:
        found.add("is empty", "name", fix="give the queue a name")
        return None
    resource = QueueResource(
        quota=short.quota, limit=short.limit, over_quota_weight=short.over_quota_weight
    )
    said = {labels.NODE_POOL: pool_named(short.pool), labels.QUEUE_PROJECT: short.project}
    return Queue(
        metadata=ObjectMeta(
            name=short.name, labels={key: value for key, value in said.items() if value}
        ),
        spec=QueueSpec(
            node_pools=short.node_pools,
            node_affinity=short.node_affinity,
            parent_queue=short.parent,
            resources={"gpu": resource},
            priority=short.priority,
            preempt_min_runtime=short.preempt_min_runtime,
            reclaim_min_runtime=short.reclaim_min_runtime,
        ),
    )


def _short_path(path: str) -> str:
    """Return the key of the short form for a path of the object."""
    path = path.removeprefix("spec.").removeprefix("resources.gpu.").removeprefix("metadata.")
    return "parent" if path == "parentQueue" else path


@dataclass(frozen=True, slots=True)
class Pools:
    """What the scenario says of node pools, read but not yet checked against each other."""

    shards: Sequence[SchedulingShard]
    """Empty where all nodes are of one shard."""
    projects: Projects
    pool_of_queue: Mapping[str, str]

    def of_group(self, group: JobGroup, found: Findings) -> tuple[str, ...]:
        """Return the pools of a group of jobs, as label values, in order."""
        if not self.shards:
            if group.pools:
                fix = "write shards, one for each node pool"
                found.add("needs several shards", "pools", fix=fix)
            return ()
        there = [labels.pool_name(it.spec.partition_label_value) for it in self.shards]
        for number, name in enumerate(group.pools):
            found.known(name, there, "node pool", "pools", number)
        if len(set(group.pools)) < len(group.pools):
            found.add("lists a node pool twice", "pools", fix="list each once")
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
        part = found.inside("shards", at)
        shard = part.shard(str(pool), spec)
        if shard is None:
            continue
        if any(it.name == shard.name for it in shards):
            fix = "keep one of them"
            part.add("two shards for this node pool", "partitionLabelValue", value=pool, fix=fix)
        if shard.spec.usage_db_config is not None:
            part.add("is for scenarios of one shard", "usageDBConfig", fix="leave it out")
        shards.append(shard)
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
