"""Kueue's kinds, for the versions v1beta1 and v1beta2 of its API, and checks of each on its own.

Fields without a meaning here are of type Any: they are known, and a warning names them.
"""

# ruff: noqa: RUF012 - msgspec gives every struct its own copy of an empty list or dict

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any, Final, Literal, TypeAlias

from kaisched.objects.faults import INT32_MAX, Fault, Path
from kaisched.objects.pod import Toleration
from kaisched.objects.queue import (
    BY_USAGE,
    BorrowWithinCohort,
    FlavorPreference,
    QueueAdmissionScope,
    StopPolicy,
    WithinPolicy,
    sibling_weight_faults,
    threshold_faults,
)
from kaisched.objects.wire import Amount, KubernetesObject, StrictWire
from kaisched.units import UnitError, parse_quantity

GROUP: Final = "kueue.x-k8s.io"
_NEWEST: Final = f"{GROUP}/v1beta2"
_OLDER: Final = (f"{GROUP}/v1beta1",)
QUEUE_NAME: Final = f"{GROUP}/queue-name"
"""Label of a Job or Pod: its LocalQueue."""
PRIORITY_CLASS: Final = f"{GROUP}/priority-class"
"""Label of a Job or Pod: its WorkloadPriorityClass."""


class FlavorResource(StrictWire, frozen=True, kw_only=True):
    """A quota of one resource in one flavor; amounts are Kubernetes quantities."""

    name: str
    nominal_quota: Amount = 0
    borrowing_limit: Amount | None = None
    lending_limit: Amount | None = None


class FlavorQuotas(StrictWire, frozen=True, kw_only=True):
    """The quotas in one flavor."""

    name: str
    resources: list[FlavorResource] = []


class ResourceGroup(StrictWire, frozen=True, kw_only=True):
    """Resources that come from the same flavors, the first choice first."""

    covered_resources: list[str] = []
    flavors: list[FlavorQuotas] = []


class FairSharing(StrictWire, frozen=True, kw_only=True):
    """The weight among siblings."""

    weight: Amount = 1


class Preemption(StrictWire, frozen=True, kw_only=True):
    """From whom work of a ClusterQueue may take."""

    within_cluster_queue: WithinPolicy = "Never"
    reclaim_within_cohort: WithinPolicy = "Never"
    borrow_within_cohort: BorrowWithinCohort = BorrowWithinCohort()


class FlavorFungibility(StrictWire, frozen=True, kw_only=True):
    """Which flavor a workload gets if its first does not fit at once."""

    when_can_borrow: Literal["MayStopSearch", "TryNextFlavor", "Borrow"] = "MayStopSearch"
    when_can_preempt: Literal["MayStopSearch", "TryNextFlavor", "Preempt"] = "TryNextFlavor"
    preference: FlavorPreference = "BorrowingOverPreemption"


class ClusterQueueSpec(StrictWire, frozen=True, kw_only=True):
    """Quotas of a ClusterQueue, and its place in the tree."""

    cohort: str = ""
    """The name of the field in v1beta1."""
    cohort_name: str = ""
    resource_groups: list[ResourceGroup] = []
    fair_sharing: FairSharing = FairSharing()
    preemption: Preemption = Preemption()
    stop_policy: StopPolicy = "None"
    namespace_selector: Any = None
    queueing_strategy: Any = None
    flavor_fungibility: FlavorFungibility = FlavorFungibility()
    admission_checks: Any = None
    admission_checks_strategy: Any = None
    admission_scope: QueueAdmissionScope = QueueAdmissionScope()
    concurrent_admission_policy: Any = None

    @property
    def above(self) -> str:
        """The cohort, empty for none."""
        return self.cohort_name or self.cohort

    @property
    def is_by_usage(self) -> bool:
        """Whether its LocalQueues are served in the order of their past usage."""
        return self.admission_scope.admission_mode == BY_USAGE


class ClusterQueue(KubernetesObject, frozen=True, kw_only=True):
    """A queue with quotas."""

    API_VERSION = _NEWEST
    OTHER_VERSIONS = _OLDER
    KIND = "ClusterQueue"
    IS_NAMESPACED = False

    spec: ClusterQueueSpec = ClusterQueueSpec()


class CohortSpec(StrictWire, frozen=True, kw_only=True):
    """Quotas of a Cohort, and its place in the tree."""

    parent: str = ""
    """The name of the field in v1alpha1."""
    parent_name: str = ""
    resource_groups: list[ResourceGroup] = []
    fair_sharing: FairSharing = FairSharing()

    @property
    def above(self) -> str:
        """The cohort above, empty for none."""
        return self.parent_name or self.parent


class Cohort(KubernetesObject, frozen=True, kw_only=True):
    """An inner node of the tree of queues."""

    API_VERSION = _NEWEST
    OTHER_VERSIONS = (*_OLDER, f"{GROUP}/v1alpha1")
    KIND = "Cohort"
    IS_NAMESPACED = False

    spec: CohortSpec = CohortSpec()


class LocalQueueSpec(StrictWire, frozen=True, kw_only=True):
    """The ClusterQueue behind a LocalQueue."""

    cluster_queue: str
    stop_policy: StopPolicy = "None"
    fair_sharing: FairSharing = FairSharing()


class LocalQueue(KubernetesObject, frozen=True, kw_only=True):
    """The name of a ClusterQueue in a namespace."""

    API_VERSION = _NEWEST
    OTHER_VERSIONS = _OLDER
    KIND = "LocalQueue"

    spec: LocalQueueSpec


class ResourceFlavorSpec(StrictWire, frozen=True, kw_only=True):
    """The nodes of a flavor, and what its pods tolerate besides."""

    node_labels: dict[str, str] = {}
    node_taints: Any = None
    tolerations: list[Toleration] = []
    topology_name: Any = None


class ResourceFlavor(KubernetesObject, frozen=True, kw_only=True):
    """A kind of nodes that quotas name."""

    API_VERSION = _NEWEST
    OTHER_VERSIONS = _OLDER
    KIND = "ResourceFlavor"
    IS_NAMESPACED = False

    spec: ResourceFlavorSpec = ResourceFlavorSpec()


class WorkloadPriorityClass(KubernetesObject, frozen=True, kw_only=True):
    """A name for a priority that is not that of the pods."""

    API_VERSION = _NEWEST
    OTHER_VERSIONS = _OLDER
    KIND = "WorkloadPriorityClass"
    IS_NAMESPACED = False

    value: int


# -- checks ----------------------------------------------------------------------------------------

KueueObject: TypeAlias = ClusterQueue | Cohort | LocalQueue | ResourceFlavor | WorkloadPriorityClass
KINDS: Final = (ClusterQueue, Cohort, LocalQueue, ResourceFlavor, WorkloadPriorityClass)


_SPEC: Final = ("spec",)
_WEIGHT: Final = ("spec", "fairSharing", "weight")
NO_MEANING: Final[dict[str, tuple[tuple[object, ...], str]]] = {
    "queueingStrategy": (
        ("BestEffortFIFO",),
        "jobs that fit are started past one that does not, as with BestEffortFIFO",
    ),
    "admissionChecks": (([],), "nothing waits for checks"),
    "admissionChecksStrategy": (({},), "nothing waits for checks"),
    "concurrentAdmissionPolicy": (({},), "a job is tried in one flavor after the other"),
}
"""Fields of a ClusterQueue: values that need no warning, and what holds here instead."""


def cluster_queue_faults(queue: ClusterQueue) -> Iterator[Fault]:
    """Yield the faults of a ClusterQueue, and what has no meaning here."""
    spec = queue.spec
    yield from _two_names("cohort", spec.cohort, "cohortName", spec.cohort_name)
    yield from _group_faults(spec.resource_groups, has_parent=bool(spec.above))
    yield from sibling_weight_faults(_WEIGHT, spec.fair_sharing.weight)
    yield from threshold_faults(spec.preemption.borrow_within_cohort)
    values = {
        "queueingStrategy": spec.queueing_strategy,
        "admissionChecks": spec.admission_checks,
        "admissionChecksStrategy": spec.admission_checks_strategy,
        "concurrentAdmissionPolicy": spec.concurrent_admission_policy,
    }
    for name, value in values.items():
        as_here, instead = NO_MEANING[name]
        if value is not None and value not in as_here:
            yield _ignored((*_SPEC, name), value, instead)
    if spec.namespace_selector is None:
        fix = "in Kueue it then selects no namespace; here every LocalQueue may use the queue"
        yield Fault((*_SPEC, "namespaceSelector"), "missing", fix=fix, is_warning=True)
    elif spec.namespace_selector != {}:
        yield _ignored(
            (*_SPEC, "namespaceSelector"),
            spec.namespace_selector,
            "namespaces are not read, so every LocalQueue may use the queue",
        )


def cohort_faults(cohort: Cohort) -> Iterator[Fault]:
    """Yield the faults of a Cohort."""
    spec = cohort.spec
    yield from _two_names("parent", spec.parent, "parentName", spec.parent_name)
    yield from _group_faults(spec.resource_groups, has_parent=bool(spec.above))
    yield from sibling_weight_faults(_WEIGHT, spec.fair_sharing.weight)


def local_queue_faults(queue: LocalQueue) -> Iterator[Fault]:
    """Yield the faults of a LocalQueue."""
    if not queue.spec.cluster_queue:
        yield Fault(("spec", "clusterQueue"), "empty", fix="name a ClusterQueue")
    yield from sibling_weight_faults(_WEIGHT, queue.spec.fair_sharing.weight)


def flavor_faults(flavor: ResourceFlavor) -> Iterator[Fault]:
    """Yield what of a ResourceFlavor has no meaning here."""
    spec = flavor.spec
    values = {
        "nodeTaints": (spec.node_taints, "taints of the nodes themselves count"),
        "topologyName": (spec.topology_name, "topologies have no effect"),
    }
    for name, (value, instead) in values.items():
        if value not in (None, [], ""):
            yield _ignored((*_SPEC, name), value, instead)


def workload_class_faults(cls: WorkloadPriorityClass) -> Iterator[Fault]:
    """Yield the faults of a WorkloadPriorityClass."""
    if abs(cls.value) > INT32_MAX:
        yield Fault(("value",), "out of range", cls.value, "write at most 2^31 - 1")


def _ignored(path: Path, value: Any, instead: str) -> Fault:
    return Fault(path, "has no meaning here", value, instead, is_warning=True)


def _two_names(older: str, one: str, newer: str, other: str) -> Iterator[Fault]:
    if one and other and one != other:
        yield Fault((*_SPEC, older), f"{newer} says {other!r}", one, "keep one of the two")


def _group_faults(groups: list[ResourceGroup], *, has_parent: bool) -> Iterator[Fault]:
    covered = Counter(name for group in groups for name in group.covered_resources)
    flavors = Counter(flavor.name for group in groups for flavor in group.flavors)
    for at, group in enumerate(groups):
        path: Path = ("spec", "resourceGroups", at)
        for place, name in enumerate(group.covered_resources):
            if covered[name] > 1:
                where = (*path, "coveredResources", place)
                yield Fault(where, "a resource is covered twice", name, "cover it in one place")
        if not group.flavors:
            yield Fault((*path, "flavors"), "empty", fix="write at least one flavor")
        for number, flavor in enumerate(group.flavors):
            where = (*path, "flavors", number)
            if flavors[flavor.name] > 1:
                yield Fault((*where, "name"), "a flavor is given twice", flavor.name, "drop one")
            said = [it.name for it in flavor.resources]
            if sorted(said) != sorted(group.covered_resources):
                covers = ", ".join(group.covered_resources) or "nothing"
                fix = f"write one entry for each of coveredResources: {covers}"
                yield Fault((*where, "resources"), "not those that are covered", said, fix)
            for place, resource in enumerate(flavor.resources):
                yield from _amount_faults((*where, "resources", place), resource, has_parent)


def _amount_faults(path: Path, resource: FlavorResource, has_parent: bool) -> Iterator[Fault]:
    amounts = {
        "nominalQuota": resource.nominal_quota,
        "borrowingLimit": resource.borrowing_limit,
        "lendingLimit": resource.lending_limit,
    }
    for name, amount in amounts.items():
        if amount is None:
            continue
        try:
            parse_quantity(amount)
        except UnitError as error:
            yield Fault((*path, name), str(error), amount, error.fix)
        else:
            if name != "nominalQuota" and not has_parent:
                fix = "leave it out, or name the cohort to borrow from and to lend to"
                yield Fault((*path, name), "needs a cohort", amount, fix)
