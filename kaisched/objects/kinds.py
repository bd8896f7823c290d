"""Kinds of objects that are read, by API version and kind, and the handling of all others."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

from kaisched.objects.device_faults import claim_faults, slice_faults, template_faults
from kaisched.objects.disruption_budget import PodDisruptionBudget, disruption_budget_faults
from kaisched.objects.faults import Fault, did_you_mean, nearest
from kaisched.objects.group_faults import pod_group_faults
from kaisched.objects.kueue import wire as kueue
from kaisched.objects.kueue.faults import (
    cluster_queue_faults,
    cohort_faults,
    flavor_faults,
    local_queue_faults,
    workload_class_faults,
)
from kaisched.objects.node import Node
from kaisched.objects.owners import Deployment, Job, PriorityClass, ReplicaSet, StatefulSet
from kaisched.objects.pod import Pod
from kaisched.objects.podgroup import PodGroup
from kaisched.objects.queue import Queue
from kaisched.objects.queue_flavors import all_queue_faults
from kaisched.objects.resource_claims import ResourceClaim, ResourceClaimTemplate
from kaisched.objects.resource_slices import DeviceClass, DeviceTaintRule, ResourceSlice
from kaisched.objects.shard import SchedulingShard
from kaisched.objects.shard_faults import shard_faults
from kaisched.objects.storage import PersistentVolume, PersistentVolumeClaim, StorageClass
from kaisched.objects.topology import Topology
from kaisched.objects.topology_demands import preferred_of_workload
from kaisched.objects.topology_faults import topology_faults
from kaisched.objects.wire import KubernetesObject

KINDS: Final[tuple[type[KubernetesObject], ...]] = (
    Queue,
    PodGroup,
    SchedulingShard,
    Topology,
    Node,
    Pod,
    PriorityClass,
    Job,
    ReplicaSet,
    Deployment,
    StatefulSet,
    PodDisruptionBudget,
    PersistentVolumeClaim,
    PersistentVolume,
    StorageClass,
    ResourceSlice,
    DeviceClass,
    DeviceTaintRule,
    ResourceClaim,
    ResourceClaimTemplate,
    *kueue.KINDS,
)
_BY_KIND: Final = {type_.KIND: type_ for type_ in KINDS}
_OWN_GROUPS: Final = ("scheduling.run.ai", "kai.scheduler")
_NOT_OURS: Final = ("BindRequest", "Config")  # KAI's, of no use here
_FAULTS: Final[dict[type[KubernetesObject], Callable[[Any], Iterator[Fault]]]] = {
    Queue: all_queue_faults,
    PodGroup: pod_group_faults,
    SchedulingShard: shard_faults,
    Topology: topology_faults,
    Pod: preferred_of_workload,
    Job: preferred_of_workload,
    ReplicaSet: preferred_of_workload,
    Deployment: preferred_of_workload,
    StatefulSet: preferred_of_workload,
    PodDisruptionBudget: disruption_budget_faults,
    ResourceSlice: slice_faults,
    ResourceClaim: claim_faults,
    ResourceClaimTemplate: template_faults,
    kueue.ClusterQueue: cluster_queue_faults,
    kueue.Cohort: cohort_faults,
    kueue.LocalQueue: local_queue_faults,
    kueue.ResourceFlavor: flavor_faults,
    kueue.WorkloadPriorityClass: workload_class_faults,
}


_ONLY_WARNED: Final = (Pod, Job, ReplicaSet, Deployment, StatefulSet, PodDisruptionBudget)
_CHECKED_BY_SERVERS: Final = (ResourceSlice, ResourceClaim, ResourceClaimTemplate)
"""What is wrong with these no API server accepts: it is looked for in files, and not in lists."""


def has_faults(type_: type[KubernetesObject]) -> bool:
    """Tell whether objects in a server can have faults beyond their form, warnings aside."""
    return type_ in _FAULTS and type_ not in (*_ONLY_WARNED, *_CHECKED_BY_SERVERS)


def faults_of(obj: KubernetesObject) -> Iterator[Fault]:
    """Yield the faults of an object on its own, warnings included."""
    check = _FAULTS.get(type(obj))
    return check(obj) if check is not None else iter(())


def type_of(api_version: str, kind: str) -> type[KubernetesObject] | Fault | None:
    """Return the struct of a kind, None for a kind that the scheduler ignores, or a fault."""
    type_ = _BY_KIND.get(kind)
    if type_ is not None and api_version in (type_.API_VERSION, *type_.OTHER_VERSIONS):
        return type_
    group = _group(api_version)
    if type_ is not None and _group(type_.API_VERSION) == group:
        return Fault(
            ("apiVersion",),
            f"this version of {kind} is not read",
            api_version,
            f'write "{type_.API_VERSION}"',
        )
    mine = [it.KIND for it in KINDS if _group(it.API_VERSION) == group]
    if group in _OWN_GROUPS and kind not in _NOT_OURS:
        elsewhere = f'its apiVersion is "{type_.API_VERSION}"' if type_ is not None else ""
        return Fault(("kind",), "no such kind", kind, elsewhere or did_you_mean(kind, mine))
    near = nearest(kind, mine)
    if near and near.lower() in (kind.lower(), kind.lower().removesuffix("s")):
        return Fault(("kind",), "no such kind", kind, f'did you mean "{near}"?')
    return None


def _group(api_version: str) -> str:
    return api_version.rpartition("/")[0]
