"""Queues of a scenario, in short form or as whole Queue objects, which are equivalent."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from kaisched.cluster.queues import QueueRow, queue_row
from kaisched.errors import join_path
from kaisched.objects import labels
from kaisched.objects.decode import BadObject, decode_object, faults_of
from kaisched.objects.kueue import ClusterQueue, Cohort, LocalQueue
from kaisched.objects.kueue_queues import tree_of
from kaisched.objects.labels import pool_named
from kaisched.objects.load import check_queues, load_manifests
from kaisched.objects.queue import Queue, QueueResource, QueueSpec
from kaisched.objects.wire import ObjectMeta
from kaisched.sim.scenario.document import QueueLine
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
        queue = _whole(line, found, at) if is_whole else _short(line, found, at)
        if queue is None:
            continue
        if queue.name in at_of_name:
            first = at_of_name[queue.name]
            fix = f"queues[{first}] has it; give this one another name"
            found.add("appears twice", "queues", at, "name", value=queue.name, fix=fix)
            continue
        at_of_name[queue.name] = at
        queues.append(queue)
        for fault in faults_of(queue):
            if fault.is_warning:
                path = join_path("queues", at, *fault.path)
                found.warnings.append(f"{found.file}: {path}: {fault.message}")
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


def _whole(line: dict[str, Any], found: Findings, at: int) -> Queue | None:
    for key, word in (("apiVersion", Queue.API_VERSION), ("kind", Queue.KIND)):
        if line.get(key, word) != word:
            found.add("no Queue", "queues", at, key, value=line[key], fix=f'write "{word}"')
            return None
    plain = {key: value for key, value in line.items() if key not in ("apiVersion", "kind")}
    try:
        queue, _ = decode_object(plain, Queue)
    except BadObject as bad:
        for error in bad.errors:
            found.add_error(error, "", "queues", at)
        return None
    return queue


def _short(line: dict[str, Any], found: Findings, at: int) -> Queue | None:
    short: QueueLine | None = found.convert(line, QueueLine, "queues", at)
    if short is None:
        return None
    if not short.name:
        found.add("is empty", "queues", at, "name", fix="give the queue a name")
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
