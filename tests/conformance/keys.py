"""The keys of scheduling cases: those that the runner reads, and those that say nothing to it.

A key that stands in neither list may change what is right, so a case with one is not judged.
"""

from collections.abc import Iterator, Mapping
from typing import Any

FOR_PEOPLE = {
    "case": {"id", "name", "source", "checked", "notes", "features"},
    "config": {"plugins_given", "declared_actions", "feature_gates"},
    "job": {"structure_given", "preemptibility_declared"},
    "task": {"declared_name", "index", "annotations"},
}
"""They tell where a case is from, or say once more what other keys say."""
WITHOUT_EFFECT = {
    # Bounds on time, and a way to skip equal jobs: neither has a say in what comes out.
    "config": {"search_budgets", "use_scheduling_signatures"},
    # Quality of service decides on NUMA zones only, and those are not offered.
    "job": {"qos_class"},
    "request": {"best_effort"},
    "queue": {"department", "orphan"},
    "topology": {"aliases"},
}
"""They change nothing here, with the reason."""
READ = {
    "case": {"mode", "actions", "rounds", "config", "cluster", "expected"},
    "config": {
        "plugins",
        "staleness_grace_s",
        "max_consolidation_victims",
        "consolidating_reclaim",
        "bind_always_fails",
    },
    "plugin": {"name", "arguments", "disabled"},
    "rounds": {"until_match", "after_match", "delay_s"},
    "cluster": {
        "nodes",
        "queues",
        "jobs",
        "topologies",
        "dra",
        "min_node_gpu_memory_mib",
        "max_node_gpu_memory_mib",
    },
    "node": {
        "name",
        "gpus",
        "allocatable_gpus",
        "dra_gpus",
        "gpu_memory_mib",
        "gpu_memory_known",
        "cpu_millis",
        "memory_bytes",
        "max_pods",
        "mig_strategy",
        "mig_instances",
        "labels",
        "numa",
    },
    "queue": {
        "name",
        "parent",
        "created_offset_s",
        "priority",
        "gpu",
        "cpu_millis",
        "memory_mb",
        "reclaim_min_runtime_s",
        "preempt_min_runtime_s",
    },
    "job": {
        "name",
        "namespace",
        "queue",
        "priority",
        "preemptible",
        "created_offset_s",
        "deleted_in_test",
        "stale_for_s",
        "last_start_offset_s",
        "root",
        "tasks",
        "preemption_delay_s",
        "staleness_grace_s",
    },
    "group": {"name", "topology", "groups", "pod_sets", "min_sub_group"},
    "pod_set": {"name", "min_available", "topology"},
    "task": {
        "id",
        "state",
        "node",
        "pod_set",
        "gpu_groups",
        "order_priority",
        "request",
        "legacy_mig",
        "node_affinity_any_of",
        "labels",
        "pod_affinity",
        "pod_anti_affinity",
        "resource_claims",
        "resource_claim_templates",
        "persistent_volume_claims",
        "numa_observed",
    },
    "request": {
        "gpus",
        "gpu_fraction",
        "gpu_memory_mib",
        "gpu_devices",
        "mig",
        "cpu_millis",
        "memory_bytes",
    },
    "expected": {"jobs", "tasks", "nodes", "limits", "numa_zones", "numa_zones_available"},
    "topology": {"name", "levels"},
}
"""By place. Features that are not offered are found by them, see ``missing_features``."""


def unknown_keys(case: Mapping[str, Any]) -> list[str]:
    """Return the keys of a scheduling case that the runner does not know, as ``place.key``."""
    return sorted(
        {
            f"{place}.{key}"
            for place, found in _parts(case)
            for key in found
            if not any(key in table.get(place, ()) for table in (READ, FOR_PEOPLE, WITHOUT_EFFECT))
        }
    )


def _parts(case: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield every part of a case with the name of its place."""
    cluster = case["cluster"]
    yield "case", case
    yield "config", case["config"]
    yield "expected", case["expected"]
    yield "cluster", cluster
    yield "rounds", case.get("rounds") or {}
    for place, parts in (
        ("plugin", case["config"]["plugins"]),
        ("node", cluster["nodes"]),
        ("queue", cluster["queues"]),
        ("topology", cluster["topologies"]),
        ("job", cluster["jobs"]),
    ):
        for part in parts:
            yield place, part
    for job in cluster["jobs"]:
        yield from _groups(job["root"])
        for task in job["tasks"]:
            yield "task", task
            yield "request", task["request"]


def _groups(group: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    yield "group", group
    for pod_set in group["pod_sets"]:
        yield "pod_set", pod_set
    for below in group["groups"]:
        yield from _groups(below)
