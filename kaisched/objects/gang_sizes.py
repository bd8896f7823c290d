"""Sizes of gangs: how many pods must start together by the specs of the known kinds.

Only the few numbers needed are read. Invalid ones count as 1: a group that is too small starts,
while one that is too large would wait for ever.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kaisched.errors import ObjectError
from kaisched.objects.group_faults import cycles
from kaisched.objects.pod_sets import PodSetTopology, pod_set_of
from kaisched.objects.podgroup import SubGroupSpec
from kaisched.objects.segments import MOST_SUBGROUPS
from kaisched.objects.template_topology import annotations_in, constraint_on
from kaisched.objects.workloads import MOST, Gang, Read

EXCLUSIVE_TOPOLOGY = "leaderworkerset.sigs.k8s.io/exclusive-topology"
"""Annotation of a LeaderWorkerSet whose workers are created once their leader has a node."""


def gang_of(read: Read | None, spec: object, annotations: Mapping[str, str]) -> Gang:
    """Return the gang of a workload: one pod if its kind is not read or its spec is no map.

    If a plugin's ``read`` fails or gives an invalid answer, the workload is refused.
    """
    if read is None or not isinstance(spec, Mapping):
        return Gang()
    try:
        gang: object = read(spec, annotations)
        fault = _fault(gang)
    except Exception as error:  # noqa: BLE001 - one bad object must not stop the others
        gang, fault = None, f"{type(error).__name__}: {error}"
    if fault or not isinstance(gang, Gang):
        return Gang(unsupported=f"its gang cannot be read: {fault[:300]}")
    return gang


def _fault(gang: object) -> str:
    """Describe what is wrong with an answer, empty if nothing is."""
    if not isinstance(gang, Gang):
        return f"no kaisched.Gang, but a {type(gang).__name__}"
    if not 1 <= gang.minimum <= MOST:
        return f"minimum {gang.minimum!r} is not from 1 to {MOST}"
    if any(it.size < 1 for it in gang.segments.values()):
        return "segments of no pods"
    return _tree_fault(gang)


def _tree_fault(gang: Gang) -> str:
    parent = {part.name: part.parent for part in gang.sub_groups}
    tops = sum(not it for it in parent.values())
    if len(parent) != len(gang.sub_groups) or len(parent) > 2 * MOST_SUBGROUPS:
        return "two subgroups of one name, or too many"
    if not {"", *parent} >= set(parent.values()) or cycles(parent) or (parent and not tops):
        return "a subgroup whose parent is missing, or that is inside itself"
    if gang.min_sub_group is not None and not 1 <= gang.min_sub_group <= tops:
        return f"min_sub_group {gang.min_sub_group!r} is not from 1 to {tops}"
    return ""


def sized(pods: int) -> Gang:
    """Return a gang of so many pods; of one pod if the number is invalid."""
    return Gang(minimum=pods if 1 <= pods <= MOST else 1)


def count(value: object, absent: int = 1) -> int:
    """Return a number of pods, ``absent`` for an invalid one."""
    is_count = isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= MOST
    return int(value) if is_count and isinstance(value, int) else absent


def as_map(value: object) -> Mapping[str, Any]:
    """Return a map, an empty one for anything else."""
    return value if isinstance(value, Mapping) else {}


def as_maps(value: object) -> list[Mapping[str, Any]]:
    """Return the list of maps in a value."""
    return [as_map(it) for it in value] if isinstance(value, list) else []


def _stated(spec: Mapping[str, Any]) -> int:
    """Return the minimum in the spec of a Kubeflow job, 0 without any."""
    policy = as_map(as_map(spec.get("runPolicy")).get("schedulingPolicy"))
    return count(policy.get("minAvailable"), 0)


def roles_in(specs: object) -> dict[str, int]:
    """Return how many pods each role of a Kubeflow job has."""
    return {role: count(as_map(it).get("replicas")) for role, it in as_map(specs).items()}


def kubeflow(key: str) -> Read:
    """Return a reader of a Kubeflow kind: the sum of replicas, or an elastic job's minimum."""

    def read(spec: Mapping[str, Any], _: Mapping[str, str]) -> Gang:
        counts = roles_in(spec.get(key))
        elastic = as_map(spec.get("elasticPolicy")).get("minReplicas")
        if elastic is not None:
            counts["Worker"] = count(elastic, counts.get("Worker", 1))
        return sized(_stated(spec) or sum(counts.values()))

    return read


def mpi(spec: Mapping[str, Any], _: Mapping[str, str]) -> Gang:
    """Read an MPIJob: launcher and workers."""
    counts = roles_in(spec.get("mpiReplicaSpecs"))
    if spec.get("launcherCreationPolicy") == "WaitForWorkersReady":
        counts.pop("Launcher", None)  # it is created when the workers run
    return sized(_stated(spec) or sum(counts.values()))


HEAD = "headgroup"
"""Name of the group of a RayCluster's head: the value of its label."""


def ray(spec: Mapping[str, Any], annotations: Mapping[str, str]) -> Gang:
    """Read a RayCluster: the head and the minimum of each group of workers.

    Groups are subgroups if the annotations of a template ask for a level of a topology.
    """
    groups = [(HEAD, 1, as_map(spec.get("headGroupSpec")))]
    for at, it in enumerate(as_maps(spec.get("workerGroupSpecs"))):
        pods = count(it.get("minReplicas"), 0) * count(it.get("numOfHosts"))
        name = str(it.get("groupName") or f"worker-group-{at}")
        groups.append((name, 0 if it.get("suspend") is True else pods, it))
    gang = sized(sum(pods for _, pods, _ in groups))
    parts: list[SubGroupSpec] = []
    for name, pods, it in groups:
        try:
            wish = constraint_on(annotations_in(it.get("template")), annotations)
        except ObjectError as error:
            return Gang(unsupported=f"template of group {name}: {error}")
        parts.append(SubGroupSpec(name=name, min_member=pods, topology_constraint=wish))
    is_asking = any(it.topology_constraint for it in parts)
    return Gang(minimum=gang.minimum, sub_groups=parts) if is_asking else gang


def leader_worker_set(spec: Mapping[str, Any], annotations: Mapping[str, str]) -> Gang:
    """Read a LeaderWorkerSet: the size of one group, including the leader."""
    gang = sized(count(as_map(spec.get("leaderWorkerTemplate")).get("size")))
    is_leader_first = spec.get("startupPolicy") == "LeaderReady" or bool(
        annotations.get(EXCLUSIVE_TOPOLOGY)
    )
    return Gang(minimum=gang.minimum, is_leader_first=is_leader_first)


def job_set(spec: Mapping[str, Any], annotations: Mapping[str, str]) -> Gang:
    """Read a JobSet: a subgroup for each replicated job, with a subgroup for each of its jobs.

    Each job has the constraint that the annotations of its template ask for.
    All replicated jobs are needed. If some are created after others, by an order or a dependency,
    one is enough: earlier ones may have ended when later ones are created.
    """
    parts: list[SubGroupSpec] = []
    pod_sets: dict[str, PodSetTopology] = {}
    tops = total = 0
    is_in_order = as_map(spec.get("startupPolicy")).get("startupPolicyOrder") == "InOrder"
    for replicated in as_maps(spec.get("replicatedJobs")):
        name, replicas = replicated.get("name"), count(replicated.get("replicas"))
        if not isinstance(name, str) or not replicas:
            continue
        pods = _pods_of_job(as_map(as_map(replicated.get("template")).get("spec")))
        total += replicas * pods
        if len(parts) + replicas > MOST_SUBGROUPS or total > MOST:
            return Gang()
        template = as_map(replicated.get("template"))
        of_pods = annotations_in(as_map(template.get("spec")).get("template"))
        try:
            of_each = constraint_on({**of_pods, **annotations_in(template)}, annotations)
            wish = pod_set_of(of_pods, pods) if of_each is None else None
        except ObjectError as error:
            return Gang(unsupported=f"replicated job {name}: {error}")
        if wish is not None:
            pod_sets[name] = wish
        parts.append(SubGroupSpec(name=name))
        parts += [
            SubGroupSpec(
                name=f"{name}/{index}", parent=name, min_member=pods, topology_constraint=of_each
            )
            for index in range(replicas)
        ]
        tops += 1
        is_in_order = is_in_order or bool(replicated.get("dependsOn"))
    least = 1 if is_in_order and tops > 1 else None
    return Gang(sub_groups=parts, min_sub_group=least, pod_sets=pod_sets)


def _pods_of_job(spec: Mapping[str, Any]) -> int:
    """Return how many pods a batch Job runs at once; at most as many as it has to complete."""
    parallelism = count(spec.get("parallelism"))
    return min(parallelism, count(spec.get("completions"), parallelism))
