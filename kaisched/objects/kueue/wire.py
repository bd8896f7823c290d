"""Structs of Kueue's kinds, for the versions v1beta1 and v1beta2 of its API.

Fields without a meaning here are of type Any: they are known, and a warning names them.
"""

# ruff: noqa: RUF012 - msgspec gives every struct its own copy of an empty list or dict

from __future__ import annotations

from typing import Any, ClassVar, Final, Literal, TypeAlias

from kaisched.objects.pod import Toleration
from kaisched.objects.queue import (
    BY_USAGE,
    BorrowWithinCohort,
    FlavorPreference,
    QueueAdmissionScope,
    StopPolicy,
    WithinPolicy,
)
from kaisched.objects.wire import Amount, KubernetesObject, StrictWire

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

    API_VERSION: ClassVar[str] = _NEWEST
    OTHER_VERSIONS: ClassVar[tuple[str, ...]] = _OLDER
    KIND: ClassVar[str] = "ClusterQueue"
    IS_NAMESPACED: ClassVar[bool] = False

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

    API_VERSION: ClassVar[str] = _NEWEST
    OTHER_VERSIONS: ClassVar[tuple[str, ...]] = (*_OLDER, f"{GROUP}/v1alpha1")
    KIND: ClassVar[str] = "Cohort"
    IS_NAMESPACED: ClassVar[bool] = False

    spec: CohortSpec = CohortSpec()


class LocalQueueSpec(StrictWire, frozen=True, kw_only=True):
    """The ClusterQueue behind a LocalQueue."""

    cluster_queue: str
    stop_policy: StopPolicy = "None"
    fair_sharing: FairSharing = FairSharing()


class LocalQueue(KubernetesObject, frozen=True, kw_only=True):
    """The name of a ClusterQueue in a namespace."""

    API_VERSION: ClassVar[str] = _NEWEST
    OTHER_VERSIONS: ClassVar[tuple[str, ...]] = _OLDER
    KIND: ClassVar[str] = "LocalQueue"

    spec: LocalQueueSpec


class ResourceFlavorSpec(StrictWire, frozen=True, kw_only=True):
    """The nodes of a flavor, and what its pods tolerate besides."""

    node_labels: dict[str, str] = {}
    node_taints: Any = None
    tolerations: list[Toleration] = []
    topology_name: Any = None


class ResourceFlavor(KubernetesObject, frozen=True, kw_only=True):
    """A kind of nodes that quotas name."""

    API_VERSION: ClassVar[str] = _NEWEST
    OTHER_VERSIONS: ClassVar[tuple[str, ...]] = _OLDER
    KIND: ClassVar[str] = "ResourceFlavor"
    IS_NAMESPACED: ClassVar[bool] = False

    spec: ResourceFlavorSpec = ResourceFlavorSpec()


class WorkloadPriorityClass(KubernetesObject, frozen=True, kw_only=True):
    """A name for a priority that is not that of the pods."""

    API_VERSION: ClassVar[str] = _NEWEST
    OTHER_VERSIONS: ClassVar[tuple[str, ...]] = _OLDER
    KIND: ClassVar[str] = "WorkloadPriorityClass"
    IS_NAMESPACED: ClassVar[bool] = False

    value: int


KueueObject: TypeAlias = ClusterQueue | Cohort | LocalQueue | ResourceFlavor | WorkloadPriorityClass
KINDS: Final = (ClusterQueue, Cohort, LocalQueue, ResourceFlavor, WorkloadPriorityClass)
