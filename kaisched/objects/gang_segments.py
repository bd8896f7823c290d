"""Sizes of gangs that KAI-Scheduler's annotations divide into segments: two kinds can be."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from kaisched.errors import ObjectError
from kaisched.objects import gang_sizes
from kaisched.objects.gang_sizes import as_map, count, kubeflow, roles_in
from kaisched.objects.podgroup import SubGroupSpec
from kaisched.objects.segments import parts_of, resized
from kaisched.objects.template_topology import annotations_in, segments_on
from kaisched.objects.workloads import Gang

WORKER: Final = "worker"
"""Name of the subgroup of all workers of a PyTorchJob: the value of their label."""
GROUP: Final = "workers"
"""Name of the subgroup of the segments of a group of a LeaderWorkerSet."""
_REPLICAS: Final = "pytorchReplicaSpecs"
_pytorch: Final = kubeflow(_REPLICAS)


def pytorch(spec: Mapping[str, Any], annotations: Mapping[str, str]) -> Gang:
    """Read a PyTorchJob: the sum of replicas, or a subgroup for each segment of its workers."""
    gang, counts = _pytorch(spec, annotations), roles_in(spec.get(_REPLICAS))
    workers = counts.pop("Worker", 0)
    least = min(max(gang.minimum - sum(counts.values()), 0), workers)
    template = as_map(as_map(spec.get(_REPLICAS)).get("Worker")).get("template")
    try:
        segments = segments_on(annotations_in(template), annotations, workers, least)
    except ObjectError as error:
        return Gang(unsupported=f"template of its workers: {error}")
    if segments is None or not workers:
        return gang
    others = [
        SubGroupSpec(name=role.lower(), min_member=pods) for role, pods in counts.items() if pods
    ]
    parts = [*others, *parts_of(segments, WORKER)]
    return Gang(minimum=gang.minimum, sub_groups=parts, segments={WORKER: segments})


def leader_worker_set(spec: Mapping[str, Any], annotations: Mapping[str, str]) -> Gang:
    """Read a LeaderWorkerSet: the size of one group, or a subgroup for each segment of it."""
    gang = gang_sizes.leader_worker_set(spec, annotations)
    template = as_map(spec.get("leaderWorkerTemplate"))
    policy = as_map(template.get("subGroupPolicy"))
    is_excluded = policy.get("subGroupPolicyType") == "LeaderExcluded"
    size = count(policy.get("subGroupSize"), 0) or None
    try:
        segments = segments_on(
            annotations_in(template.get("workerTemplate")),
            annotations,
            gang.minimum,
            gang.minimum,
            size,
            leader="outside" if is_excluded else "inside",
        )
        segments = segments and resized(segments, gang.minimum)
    except ObjectError as error:
        return Gang(unsupported=f"template of its workers: {error}")
    if segments is None:
        return gang
    return Gang(
        minimum=gang.minimum,
        sub_groups=parts_of(segments, GROUP),
        segments={GROUP: segments},
        is_leader_first=gang.is_leader_first,
    )
