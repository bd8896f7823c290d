"""Sizes of gangs: how many pods must start together by the specs of the known kinds of workloads.

Only the few numbers needed are read. Invalid ones count as 1: a group that is too small starts,
while one that is too large would wait for ever. Sources: KAI-Scheduler's pod grouper for the rules,
the projects' own API references for the fields.
"""

from __future__ import annotations

import re
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple

from kaisched.errors import ObjectError, join_path
from kaisched.objects import labels
from kaisched.objects.faults import Fault, Path, Source, to_error
from kaisched.objects.labels import LABEL_KEY
from kaisched.objects.podgroup import SubGroupSpec, cycles
from kaisched.objects.wire import TopologyConstraint
from kaisched.objects.workloads import (
    MOST,
    MOST_SUBGROUPS,
    Gang,
    PodSetTopology,
    Read,
    Workload,
    WorkloadKind,
    WorkloadRole,
    annotations_in,
    constraint_on,
    parts_of,
    pod_set_of,
    resized,
    segments_on,
    table_of,
)

# -- reading any kind ------------------------------------------------------------------------------

EXCLUSIVE_TOPOLOGY = "leaderworkerset.sigs.k8s.io/exclusive-topology"
"""Annotation of a LeaderWorkerSet whose workers are created once their leader has a node."""
EXCLUSIVE_JOBS = "alpha.jobset.sigs.k8s.io/exclusive-topology"
"""Annotation of a JobSet, or of the template of a job: of each job the other pods are created once
the first one has a node."""
NODE_SELECTOR_STRATEGY = "alpha.jobset.sigs.k8s.io/node-selector"
"""Annotation beside it with which all pods are created at once."""


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
    if not 0 <= gang.minimum <= MOST:
        return f"minimum {gang.minimum!r} is not from 0 to {MOST}"
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
    if gang.min_sub_group is not None and not 0 <= gang.min_sub_group <= tops:
        return f"min_sub_group {gang.min_sub_group!r} is not from 0 to {tops}"
    return ""


def needed_by(gang: Gang) -> int:
    """Return how many pods must start together: of subgroups the least that suffice."""
    return _needed_below(gang, "", gang.min_sub_group) if gang.sub_groups else gang.minimum


def _needed_below(gang: Gang, parent: str, least: int | None) -> int:
    """Return how many pods so many of the subgroups of another need; of all of them for None."""
    parents = {it.parent for it in gang.sub_groups}
    needed = [
        _needed_below(gang, it.name, it.min_sub_group)
        if it.name in parents
        else (it.min_member or 0)
        for it in gang.sub_groups
        if it.parent == parent
    ]
    return sum(sorted(needed)[:least])


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


class Role(NamedTuple):
    """What a workload says of the pods of one role."""

    name: str
    pods: int
    least: int
    """How many of them must start with the rest."""
    template: object = None
    topology: TopologyConstraint | None = None


def of_roles(roles: Sequence[Role], stated: int = 0, later: tuple[str, ...] = ()) -> Gang:
    """Return a gang with a subgroup for each role.

    Args:
        roles: those that must start first come first.
        stated: how many pods of all roles must start together; 0 if each role has its own minimum.
        later: roles whose pods are created once others run.

    """
    needs = _divided(stated, roles) if stated else [role.least for role in roles]
    named = list(zip(roles, needs, strict=True))
    gang = sized(sum(pods for role, pods in named if role.name not in later))
    if sum(needs) > MOST or (len(roles) < 2 and not any(it.topology for it in roles)):  # noqa: PLR2004
        return gang
    parts = [
        SubGroupSpec(name=role.name, min_member=pods, topology_constraint=role.topology)
        for role, pods in named
    ]
    try:
        wishes = {it.name: pod_set_of(annotations_in(it.template), it.pods) for it in roles}
    except ObjectError as error:
        return Gang(unsupported=f"template of a role: {error}")
    pod_sets = {name: wish for name, wish in wishes.items() if wish is not None}
    return Gang(minimum=gang.minimum, sub_groups=parts, later=later, pod_sets=pod_sets)


def _divided(stated: int, roles: Sequence[Role]) -> list[int]:
    """Return a minimum for each role whose sum is ``stated``: one pod of each comes first.

    The largest role is to have what is more than all of them.
    """
    needs = [0] * len(roles)
    caps = [[min(it.least, 1) for it in roles], [it.least for it in roles]]
    for cap in (*caps, [it.pods for it in roles]):
        for at, most in enumerate(cap):
            needs[at] += max(min(most - needs[at], stated - sum(needs)), 0)
    if roles:
        needs[max(range(len(roles)), key=lambda at: roles[at].pods)] += stated - sum(needs)
    return needs


_FIRST: Final = ("Chief", "Master", "Launcher", "PS", "Worker")
"""Roles of Kubeflow jobs in the order in which a minimum of the whole job is divided."""


def _replicas(spec: Mapping[str, Any], key: str) -> list[Role]:
    """Return the roles of a Kubeflow job; of elastic workers the minimum is needed."""
    elastic = as_map(spec.get("elasticPolicy")).get("minReplicas")
    found = {name: as_map(it) for name, it in as_map(spec.get(key)).items()}
    roles: list[Role] = []
    for name in sorted(found, key=lambda it: _FIRST.index(it) if it in _FIRST else len(_FIRST)):
        pods = count(found[name].get("replicas"))
        is_elastic = name == "Worker" and elastic is not None
        least = min(count(elastic, pods), pods) if is_elastic else pods
        roles.append(Role(name.lower(), pods, least, found[name].get("template")))
    return roles


def kubeflow(key: str) -> Read:
    """Return a reader of a Kubeflow kind: a subgroup for each role."""
    return lambda spec, _: of_roles(_replicas(spec, key), _stated(spec))


def mpi(spec: Mapping[str, Any], _: Mapping[str, str]) -> Gang:
    """Read an MPIJob: launcher and workers."""
    is_waiting = spec.get("launcherCreationPolicy") == "WaitForWorkersReady"
    later = ("launcher",) if is_waiting else ()
    return of_roles(_replicas(spec, "mpiReplicaSpecs"), _stated(spec), later)


def volcano(spec: Mapping[str, Any], _: Mapping[str, str]) -> Gang:
    """Read a Volcano Job: its tasks. Those that depend on others are created after these."""
    roles: list[Role] = []
    later: list[Role] = []
    for at, task in enumerate(as_maps(spec.get("tasks"))):
        pods = count(task.get("replicas"), 0)
        name, least = str(task.get("name") or f"default{at}"), count(task.get("minAvailable"), pods)
        some = later if as_map(task.get("dependsOn")).get("name") else roles
        some.append(Role(name, pods, least, task.get("template")))
    stated = count(spec.get("minAvailable"), 0)
    return of_roles([*roles, *later], stated, tuple(it.name for it in later))


HEAD = "headgroup"
"""Name of the group of a RayCluster's head: the value of its label."""


def ray(spec: Mapping[str, Any], annotations: Mapping[str, str]) -> Gang:
    """Read a RayCluster: the head and each group of workers.

    A group needs its ``minReplicas``. Without one it has a fixed size and needs all of its pods,
    unless the cluster scales itself.
    """
    is_scaling = spec.get("enableInTreeAutoscaling") is True
    groups = [(HEAD, 1, 1, as_map(spec.get("headGroupSpec")))]
    for at, it in enumerate(as_maps(spec.get("workerGroupSpecs"))):
        least = count(it.get("minReplicas"), 0)
        most = count(it.get("maxReplicas"), MOST)
        pods = max(min(count(it.get("replicas"), least), most), least)
        hosts = 0 if it.get("suspend") is True else count(it.get("numOfHosts"))
        name = str(it.get("groupName") or f"worker-group-{at}")
        groups.append((name, pods * hosts, (least if least or is_scaling else pods) * hosts, it))
    roles: list[Role] = []
    for name, pods, least, it in groups:
        try:
            wish = constraint_on(annotations_in(it.get("template")), annotations)
        except ObjectError as error:
            return Gang(unsupported=f"template of group {name}: {error}")
        roles.append(Role(name, pods, least, it.get("template"), wish))
    return of_roles(roles)


SPARK: Final = of_roles([Role("driver", 1, 1), Role("executor", 0, 0)])
"""A Spark application whose driver is a pod: it creates the executors, and ends with it."""


def plain_leader_worker_set(spec: Mapping[str, Any], annotations: Mapping[str, str]) -> Gang:
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
    leader_first: list[str] = []
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
        jobs = [
            SubGroupSpec(
                name=f"{name}/{index}", parent=name, min_member=pods, topology_constraint=of_each
            )
            for index in range(replicas)
        ]
        parts += [SubGroupSpec(name=name), *jobs]
        if any(map(_follows_leaders, (annotations, annotations_in(template)))):
            leader_first += [it.name for it in jobs]
        tops += 1
        is_in_order = is_in_order or bool(replicated.get("dependsOn"))
    least = 1 if is_in_order and tops > 1 else None
    return Gang(
        sub_groups=parts,
        min_sub_group=least,
        pod_sets=pod_sets,
        leader_first=tuple(leader_first),
    )


def _follows_leaders(notes: Mapping[str, str]) -> bool:
    """Tell whether annotations of a JobSet or of a job have pods made after the first one."""
    return EXCLUSIVE_JOBS in notes and NODE_SELECTOR_STRATEGY not in notes


def batch_job(spec: Mapping[str, Any], _: Mapping[str, str]) -> Gang:
    """Return the gang of a batch Job: one pod, since each of its pods can run alone."""
    return Gang(completions=count(spec.get("completions"), 0))


def _pods_of_job(spec: Mapping[str, Any]) -> int:
    """Return how many pods a batch Job runs at once; at most as many as it has to complete."""
    parallelism = count(spec.get("parallelism"))
    return min(parallelism, count(spec.get("completions"), parallelism))


# -- kinds whose numbers are at places of their spec -----------------------------------------------


@dataclass(frozen=True, slots=True)
class ByPaths:
    """Reads a gang from the numbers at places of a spec."""

    roles: tuple[WorkloadRole, ...]
    is_by_label: bool = False
    """Whether a label says the role of a pod, so that each role is a subgroup."""

    def __call__(self, spec: Mapping[str, Any], annotations: Mapping[str, str]) -> Gang:
        """Return the gang: of each role its minimum, else its replicas."""
        del annotations
        roles = [_counted(spec, role) for role in self.roles]
        if self.is_by_label:
            return of_roles(roles)
        return Gang(minimum=min(sum(role.least for role in roles), MOST))


def _counted(spec: Mapping[str, Any], role: WorkloadRole) -> Role:
    """Return a role, which needs no more pods than it has; one where nothing says how many."""
    pods, minimum = _sum_at(spec, role.replicas), _sum_at(spec, role.minimum)
    if pods is None:
        pods = 1 if minimum is None else minimum
    return Role(role.name, pods, pods if minimum is None else min(minimum, pods))


def _sum_at(spec: Mapping[str, Any], path: str) -> int | None:
    """Return the number at a place of a spec; None if one is missing or invalid."""
    if not path:
        return None
    found: list[Any] = [spec]
    for step in _STEP.findall(path.removeprefix("spec")):
        found = [it for at in found for it in _below(at, step)]
    counts = [count(int(it) if _is_number(it) else it, -1) for it in found]
    return None if min(counts, default=0) < 0 else min(sum(counts), MOST)


_STEP: Final = re.compile(r"[^.\[\]]+")


def _below(at: object, step: str) -> list[Any]:
    """Return what a step leads to: all items of a list for ``*``; None for what is not there."""
    if isinstance(at, list):
        index = int(step) if step.isdecimal() else len(at)
        return at if step == "*" else at[index : index + 1] or [None]
    return [as_map(at).get(step)] if step != "*" else []


def _is_number(value: object) -> bool:
    return isinstance(value, str) and value.isascii() and value.isdecimal() and len(value) < 8  # noqa: PLR2004


def declared(kind: WorkloadKind) -> Workload:
    """Return the row of a kind that a shard declares.

    If it says only the class of a known kind, all else stays as it is.
    """
    row = Workload(kind.api_version, kind.plural, kind.kind, priority_class=kind.priority_class)
    known = KNOWN.get((row.api_group, row.kind))
    if known is not None and not (kind.pods or kind.counts or kind.index_label):
        return replace(known, priority_class=kind.priority_class)
    is_by_label = bool(kind.role_label)
    return replace(
        row,
        pods=kind.pods or "together",
        read=ByPaths(kind.counts, is_by_label) if kind.counts else None,
        index_label=kind.index_label,
        role_labels=(kind.role_label,) if is_by_label else (),
    )


MIN_SCALE: Final = "autoscaling.knative.dev/min-scale"
"""Annotation of a Revision: how many of its pods there are at least."""


def revision(_: Mapping[str, Any], annotations: Mapping[str, str]) -> Gang:
    """Read a Revision of a Knative Service: its least scale, which may be 0."""
    said = annotations.get(MIN_SCALE, "")
    return Gang(minimum=min(int(said), MOST) if _is_number(said) else 1)


# -- kinds whose pods can be segments --------------------------------------------------------------

WORKER: Final = "worker"
"""Name of the subgroup of all workers of a PyTorchJob: the value of their label."""
WORKERS: Final = "workers"
"""Name of the subgroup of the segments of a group of a LeaderWorkerSet."""
_PYTORCH: Final = "pytorchReplicaSpecs"


def pytorch(spec: Mapping[str, Any], annotations: Mapping[str, str]) -> Gang:
    """Read a PyTorchJob: a subgroup for each role, or for each segment of its workers."""
    roles = _replicas(spec, _PYTORCH)
    gang = of_roles(roles, _stated(spec))
    workers = next((it for it in roles if it.name == WORKER), Role(WORKER, 0, 0))
    others = [it for it in roles if it.name != WORKER and it.pods]
    least = min(max(gang.minimum - sum(it.pods for it in others), 0), workers.pods)
    try:
        notes = annotations_in(workers.template)
        segments = segments_on(notes, annotations, workers.pods, least)
    except ObjectError as error:
        return Gang(unsupported=f"template of its workers: {error}")
    if segments is None or not workers.pods:
        return gang
    parts = [SubGroupSpec(name=it.name, min_member=it.pods) for it in others]
    parts += parts_of(segments, WORKER)
    return Gang(minimum=gang.minimum, sub_groups=parts, segments={WORKER: segments})


def leader_worker_set(spec: Mapping[str, Any], annotations: Mapping[str, str]) -> Gang:
    """Read a LeaderWorkerSet: the size of one group, or a subgroup for each segment of it."""
    gang = plain_leader_worker_set(spec, annotations)
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
        sub_groups=parts_of(segments, WORKERS),
        segments={WORKERS: segments},
        is_leader_first=gang.is_leader_first,
    )


# -- Grove -----------------------------------------------------------------------------------------

TOPOLOGY_NAME: Final = "grove.io/topology-name"
"""Annotation of a PodGang that names the topology of its levels."""
_CONFIGS: Final = "topologyConstraintGroupConfigs"
_GROUPS: Final = "podgroups"


def pod_gang(spec: Mapping[str, Any], annotations: Mapping[str, str]) -> Gang:
    """Read a PodGang: a subgroup for each group of pods, with those that are to be near each other.

    Each group needs its ``minReplicas``, and all groups are needed.
    """
    topology = annotations.get(TOPOLOGY_NAME) or annotations.get(labels.TOPOLOGY, "")
    try:
        parts = [*_configs(spec, topology), *_groups(spec, topology)]
        whole = _packed(spec, topology, "spec")
    except ObjectError as error:
        return Gang(unsupported=str(error))
    if len(parts) > MOST_SUBGROUPS:
        return Gang(unsupported=f"{len(parts)} groups of pods; {MOST_SUBGROUPS} are the most")
    name = spec.get("priorityClassName")
    return Gang(
        sub_groups=parts,
        topology_constraint=whole,
        priority_class=name if isinstance(name, str) else "",
    )


def _configs(spec: Mapping[str, Any], topology: str) -> list[SubGroupSpec]:
    """Return the subgroups that hold groups which are to be near each other."""
    used = set(_config_of(spec).values())
    return [
        SubGroupSpec(
            name=_name(it, at),
            topology_constraint=_packed(it, topology, "spec", _CONFIGS, at),
        )
        for at, it in enumerate(as_maps(spec.get(_CONFIGS)))
        if _name(it, at) in used
    ]


def _groups(spec: Mapping[str, Any], topology: str) -> list[SubGroupSpec]:
    parent = _config_of(spec)
    return [
        SubGroupSpec(
            name=_name(it, at),
            min_member=count(it.get("minReplicas")),
            parent=parent.get(_name(it, at), ""),
            topology_constraint=_packed(it, topology, "spec", _GROUPS, at),
        )
        for at, it in enumerate(as_maps(spec.get(_GROUPS)))
    ]


def _config_of(spec: Mapping[str, Any]) -> dict[str, str]:
    """Return which config holds a group, by the name of the group."""
    known = {_name(it, at) for at, it in enumerate(as_maps(spec.get(_GROUPS)))}
    found: dict[str, str] = {}
    for at, it in enumerate(as_maps(spec.get(_CONFIGS))):
        names = it.get("podGroupNames")
        for name in names if isinstance(names, list) else ():
            if isinstance(name, str) and name in known:
                found[name] = _name(it, at)
    return found


def _name(part: Mapping[str, Any], at: int) -> str:
    return str(part.get("name") or f"group-{at}")


def _packed(part: Mapping[str, Any], topology: str, *path: str | int) -> TopologyConstraint | None:
    """Return the levels of the ``packConstraint`` of a part of the spec."""
    levels = as_map(as_map(part.get("topologyConstraint")).get("packConstraint"))
    required, preferred = (str(levels.get(key) or "") for key in ("required", "preferred"))
    if required and not topology:
        where = join_path(*path, "topologyConstraint", "packConstraint", "required")
        fix = f"name it in the annotation {TOPOLOGY_NAME}"
        raise ObjectError(f"{required[:80]!r}: a level of no topology", path=where, fix=fix)
    if not topology or not (required or preferred):
        return None
    return TopologyConstraint(
        topology=topology,
        required_topology_level=required,
        preferred_topology_level=preferred,
    )


# -- Kubernetes' own gang API ----------------------------------------------------------------------

GANG_API: Final = "scheduling.k8s.io"
GANG_API_KIND: Final = "PodGroup"
GANG_API_PLURAL: Final = "podgroups"
GANG_API_VERSIONS: Final = ("v1beta1", "v1alpha3", "v1alpha2")
"""Supported versions, the preferred one first."""


def gang_api_row(versions: Container[str]) -> Workload | None:
    """Return the row of the first supported version that is served, or None."""
    version = next((it for it in GANG_API_VERSIONS if it in versions), None)
    if version is None:
        return None
    return Workload(f"{GANG_API}/{version}", GANG_API_PLURAL, GANG_API_KIND, read=read_gang_api)


def read_gang_api(spec: Mapping[str, Any], _: Mapping[str, str]) -> Gang:
    """Read a PodGroup: how many pods must start together, or that each starts by itself."""
    return _unsupported(spec) or _gang(spec)


def _gang(spec: Mapping[str, Any]) -> Gang:
    policy, cls = as_map(spec.get("schedulingPolicy")), spec.get("priorityClassName")
    priority_class = cls if isinstance(cls, str) else ""
    label = next((str(it.get("key")) for it in _constraints(spec)), "")
    if "gang" not in policy:
        # What keeps pods together is one job, even if each of them may start by itself.
        return Gang(is_each=not label, priority_class=priority_class, node_label=label)
    minimum = sized(count(as_map(policy["gang"]).get("minCount"))).minimum
    return Gang(minimum=minimum, priority_class=priority_class, node_label=label)


def _constraints(spec: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return as_maps(as_map(spec.get("schedulingConstraints")).get("topology"))


def _unsupported(spec: Mapping[str, Any]) -> Gang | None:
    policy: Path = ("spec", "schedulingPolicy")
    said = as_map(spec.get("schedulingPolicy"))
    if not said.keys() & {"gang", "basic"}:
        return _refused(policy, "no such policy", ", ".join(said), "write gang or basic")
    minimum = as_map(said.get("gang")).get("minCount", 1)
    if "gang" in said and not count(minimum, 0) >= 1:
        fix = f"write how many pods must start together, from 1 to {MOST}"
        return _refused((*policy, "gang", "minCount"), "out of range", minimum, fix)
    where: Path = ("spec", "schedulingConstraints", "topology")
    wishes = _constraints(spec)
    if len(wishes) > 1:
        keys = ", ".join(str(it.get("key")) for it in wishes)
        return _refused(where, "more than one constraint", keys, "keep one of them")
    key = wishes[0].get("key") if wishes else "none"
    if not isinstance(key, str) or not LABEL_KEY.fullmatch(key):
        fix = "write a label of nodes; its value will be the same for all pods"
        return _refused((*where, 0, "key"), "no label of nodes", key, fix)
    parent = spec.get("parentCompositePodGroupName")
    if parent:
        where = ("spec", "parentCompositePodGroupName")
        return _refused(where, "groups of groups are not offered", parent, "leave it out")
    return None


def _refused(path: Path, what: str, value: object, fix: str) -> Gang:
    return Gang(unsupported=str(to_error(Fault(path, what, value, fix), Source())))


INFERENCE: Final = "inference"
_KUBEFLOW: Final = (labels.REPLICA_TYPE, labels.JOB_ROLE)

WORKLOADS: Final = (
    Workload("batch/v1", "jobs", "Job", read=batch_job),
    Workload("batch/v1", "cronjobs", "CronJob", "through"),
    Workload("apps/v1", "replicasets", "ReplicaSet", "each"),
    Workload("apps/v1", "deployments", "Deployment", "each", priority_class=INFERENCE),
    Workload("apps/v1", "statefulsets", "StatefulSet"),
    Workload(
        "jobset.x-k8s.io/v1alpha2",
        "jobsets",
        "JobSet",
        read=job_set,
        subgroup_labels=(labels.REPLICATED_JOB, labels.JOB_INDEX),
    ),
    Workload(
        "leaderworkerset.x-k8s.io/v1",
        "leaderworkersets",
        "LeaderWorkerSet",
        read=leader_worker_set,
        index_label=labels.GROUP_INDEX,
        segment_label=labels.WORKER_INDEX,
        size_annotation=labels.GROUP_SIZE,
    ),
    Workload(
        "kubeflow.org/v1",
        "pytorchjobs",
        "PyTorchJob",
        read=pytorch,
        role_labels=_KUBEFLOW,
        segment_label=labels.REPLICA_INDEX,
    ),
    *(
        Workload("kubeflow.org/v1", plural, kind, read=kubeflow(key), role_labels=_KUBEFLOW)
        for plural, kind, key in (
            ("tfjobs", "TFJob", "tfReplicaSpecs"),
            ("xgboostjobs", "XGBoostJob", "xgbReplicaSpecs"),
            ("jaxjobs", "JAXJob", "jaxReplicaSpecs"),
        )
    ),
    Workload(
        "kubeflow.org/v2beta1",
        "mpijobs",
        "MPIJob",
        read=mpi,
        role_labels=_KUBEFLOW,
        other_versions=("kubeflow.org/v1",),
    ),
    Workload(
        "batch.volcano.sh/v1alpha1",
        "jobs",
        "Job",
        read=volcano,
        role_labels=(labels.VOLCANO_TASK,),
    ),
    Workload("trainer.kubeflow.org/v1alpha1", "trainjobs", "TrainJob", "through"),
    Workload(
        "ray.io/v1",
        "rayclusters",
        "RayCluster",
        read=ray,
        priority_label=labels.RAY_PRIORITY_CLASS,
        role_labels=(labels.RAY_GROUP,),
    ),
    Workload("ray.io/v1", "rayjobs", "RayJob", "through"),
    Workload("ray.io/v1", "rayservices", "RayService", "through"),
    Workload(
        "scheduler.grove.io/v1alpha1",
        "podgangs",
        "PodGang",
        read=pod_gang,
        name_label=labels.POD_GANG,
        subgroup_labels=(labels.POD_CLIQUE,),
    ),
    Workload("grove.io/v1alpha1", "podcliques", "PodClique", "through"),
    Workload("grove.io/v1alpha1", "podcliquescalinggroups", "PodCliqueScalingGroup", "through"),
    Workload("grove.io/v1alpha1", "podcliquesets", "PodCliqueSet", "through"),
    Workload(
        "kubeflow.org/v1",
        "notebooks",
        "Notebook",
        priority_class="build",
        other_versions=("kubeflow.org/v1beta1",),
    ),
    Workload("kubeflow.org/v1beta1", "scheduledworkflows", "ScheduledWorkflow", "through"),
    Workload(
        "amlarc.azureml.com/v1alpha1",
        "amljobs",
        "AmlJob",
        read=ByPaths((WorkloadRole(name="", replicas="spec.job.options.envs.AZUREML_NODE_COUNT"),)),
    ),
    Workload("serving.knative.dev/v1", "services", "Service", "through"),
    Workload("serving.knative.dev/v1", "configurations", "Configuration", "through"),
    Workload(
        "serving.knative.dev/v1", "revisions", "Revision", read=revision, priority_class=INFERENCE
    ),
    Workload(
        "machinelearning.seldon.io/v1",
        "seldondeployments",
        "SeldonDeployment",
        other_versions=("machinelearning.seldon.io/v1alpha2",),
    ),
    Workload("kubevirt.io/v1", "virtualmachineinstances", "VirtualMachineInstance"),
    Workload("workspace.devfile.io/v1alpha2", "devworkspaces", "DevWorkspace"),
    Workload("egx.nvidia.io/v1", "spotrequests", "SPOTRequest", priority_class=INFERENCE),
    Workload("run.ai/v1", "runaijobs", "RunaiJob", "each"),
    Workload("argoproj.io/v1alpha1", "workflows", "Workflow", "through"),
    Workload("tekton.dev/v1", "taskruns", "TaskRun", "through"),
    Workload("tekton.dev/v1", "pipelineruns", "PipelineRun", "through"),
    Workload(
        "nvidia.com/v1alpha1",
        "dynamographdeployments",
        "DynamoGraphDeployment",
        "through",
        other_versions=("nvidia.com/v1beta1",),
    ),
    Workload(
        "nvidia.com/v1alpha1",
        "dynamocomponentdeployments",
        "DynamoComponentDeployment",
        "through",
        other_versions=("nvidia.com/v1beta1",),
    ),
)
KNOWN: Final = table_of(WORKLOADS)
_KINDS: Final = frozenset({"pod", "podgroup"} | {it.kind.lower() for it in WORKLOADS})


def kind_of(word: str) -> str:
    """Return the kind, in small letters, that ``job``, ``jobs`` or ``Job.batch`` stands for.

    Empty for a word that is no kind of what pods come from.
    """
    kind = word.lower().partition(".")[0]
    return next((it for it in (kind, kind.removesuffix("s")) if it in _KINDS), "")
