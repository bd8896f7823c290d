"""Pods: the fields that decide about placement, requests and state; their budgets and volumes."""

# ruff: noqa: RUF012 - msgspec gives every struct its own copy of an empty list or dict

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import msgspec

from kaisched.objects.faults import Fault
from kaisched.objects.wire import Amounts, Condition, KubernetesObject, Wire


class Resources(Wire, frozen=True, kw_only=True):
    """Requests of a container; a resource with a limit but no request uses its limit."""

    requests: Amounts = {}
    limits: Amounts = {}


class ContainerPort(Wire, frozen=True, kw_only=True):
    """A port of a container; only ``host_port`` (0 for none) matters to placement."""

    container_port: int = 0
    host_port: int = 0
    host_ip: str = msgspec.field(default="", name="hostIP")
    protocol: str = "TCP"


RESTARTS_ALL: Final = "RestartAllContainers"
"""An action that only nodes can take that declare it as a feature."""


class RestartRule(Wire, frozen=True, kw_only=True):
    """What is done when a container ends in some way."""

    action: str = ""


class Container(Wire, frozen=True, kw_only=True):
    """A container or init container; an init container with ``Always`` is a sidecar."""

    name: str = ""
    resources: Resources = Resources()
    ports: list[ContainerPort] = []
    restart_policy: str = ""
    restart_policy_rules: list[RestartRule] = []


class Toleration(Wire, frozen=True, kw_only=True):
    """A taint that the pod tolerates."""

    key: str = ""
    operator: str = "Equal"
    value: str = ""
    effect: str = ""
    toleration_seconds: int | None = None


class SelectorRequirement(Wire, frozen=True, kw_only=True):
    """``key operator values``; operators In, NotIn, Exists, DoesNotExist, for nodes also Gt, Lt."""

    key: str = ""
    operator: str = ""
    values: list[str] = []


class LabelSelector(Wire, frozen=True, kw_only=True):
    """Selector whose requirements must all hold; an empty one matches everything."""

    match_labels: dict[str, str] = {}
    match_expressions: list[SelectorRequirement] = []


class NodeSelectorTerm(Wire, frozen=True, kw_only=True):
    """Requirements that must all hold; a term without any matches no node."""

    match_expressions: list[SelectorRequirement] = []
    match_fields: list[SelectorRequirement] = []


class NodeSelector(Wire, frozen=True, kw_only=True):
    """Terms of which any one must hold."""

    node_selector_terms: list[NodeSelectorTerm] = []


class PreferredNodeTerm(Wire, frozen=True, kw_only=True):
    """A preference, with its weight from 1 to 100."""

    weight: int = 1
    preference: NodeSelectorTerm = NodeSelectorTerm()


class NodeAffinity(Wire, frozen=True, kw_only=True):
    """Nodes that the pod requires or prefers."""

    required_during_scheduling_ignored_during_execution: NodeSelector | None = None
    preferred_during_scheduling_ignored_during_execution: list[PreferredNodeTerm] = []

    @property
    def required(self) -> NodeSelector | None:
        """The required terms, of which one must hold; None without a requirement."""
        return self.required_during_scheduling_ignored_during_execution

    @property
    def preferred(self) -> list[PreferredNodeTerm]:
        """The wishes."""
        return self.preferred_during_scheduling_ignored_during_execution


class PodAffinityTerm(Wire, frozen=True, kw_only=True):
    """Pods to be near to (or away from), within one value of the topology key."""

    topology_key: str = ""
    label_selector: LabelSelector | None = None
    """None matches no pod."""
    namespaces: list[str] = []
    namespace_selector: LabelSelector | None = None
    """None: the listed namespaces, or the pod's own; empty: all namespaces."""
    match_label_keys: list[str] = []
    """Only pods count that have the pod's own values of these labels."""
    mismatch_label_keys: list[str] = []
    """Only pods count that have other values of these labels."""


class PreferredPodTerm(Wire, frozen=True, kw_only=True):
    """A preference, with its weight from 1 to 100."""

    weight: int = 1
    pod_affinity_term: PodAffinityTerm = PodAffinityTerm()


class PodAffinity(Wire, frozen=True, kw_only=True):
    """Affinity or anti-affinity to other pods."""

    required_during_scheduling_ignored_during_execution: list[PodAffinityTerm] = []
    preferred_during_scheduling_ignored_during_execution: list[PreferredPodTerm] = []

    @property
    def required(self) -> list[PodAffinityTerm]:
        """Terms that must all hold."""
        return self.required_during_scheduling_ignored_during_execution

    @property
    def preferred(self) -> list[PreferredPodTerm]:
        """The wishes."""
        return self.preferred_during_scheduling_ignored_during_execution


class Affinity(Wire, frozen=True, kw_only=True):
    """All three kinds of affinity."""

    node_affinity: NodeAffinity | None = None
    pod_affinity: PodAffinity | None = None
    pod_anti_affinity: PodAffinity | None = None


class TopologySpreadConstraint(Wire, frozen=True, kw_only=True):
    """How evenly pods are to be spread over the values of a label of nodes."""

    max_skew: int = 1
    topology_key: str = ""
    when_unsatisfiable: str = ""
    """``DoNotSchedule``: a rule; ``ScheduleAnyway``: a wish."""
    label_selector: LabelSelector | None = None
    """Which pods of the pod's namespace count; None for none."""
    match_label_keys: list[str] = []
    """Only pods count that have the pod's own values of these labels."""
    min_domains: int | None = None
    node_affinity_policy: str | None = None
    node_taints_policy: str | None = None


class SchedulingGate(Wire, frozen=True, kw_only=True):
    """Keeps a pod from being scheduled as long as it has the gate."""

    name: str = ""


class PodResourceClaim(Wire, frozen=True, kw_only=True):
    """A claim on devices through DRA: one that exists, or one to be made from a template."""

    name: str = ""
    resource_claim_name: str = ""
    resource_claim_template_name: str = ""


class ClaimSource(Wire, frozen=True, kw_only=True):
    """A claim of storage that exists independently of the pod."""

    claim_name: str = ""


class EphemeralSource(Wire, frozen=True, kw_only=True):
    """A claim that is created for the pod, and deleted with it."""


class InlineSource(Wire, frozen=True, kw_only=True):
    """A disk that a pod names itself, and that pods of one node cannot share if one writes to it.

    Which disk it is, is not read.
    """


class PodVolume(Wire, frozen=True, kw_only=True):
    """A volume of a pod; only those with claims matter to placement, and some are not offered."""

    name: str = ""
    persistent_volume_claim: ClaimSource | None = None
    ephemeral: EphemeralSource | None = None
    aws_elastic_block_store: InlineSource | None = None
    gce_persistent_disk: InlineSource | None = None
    iscsi: InlineSource | None = None
    rbd: InlineSource | None = None

    @property
    def inline(self) -> str:
        """The kind of disk that the pod names itself; empty for any other volume."""
        disks = {
            "awsElasticBlockStore": self.aws_elastic_block_store,
            "gcePersistentDisk": self.gce_persistent_disk,
            "iscsi": self.iscsi,
            "rbd": self.rbd,
        }
        return next((kind for kind, disk in disks.items() if disk is not None), "")


NEVER: Final = "Never"
"""The preemption policy of pods for which nothing is evicted."""


class SchedulingGroup(Wire, frozen=True, kw_only=True):
    """The group of Kubernetes' own gang API that the pod is in."""

    pod_group_name: str = ""


class PodSpec(Wire, frozen=True, kw_only=True):
    """Settings of a pod, among them its requests."""

    scheduler_name: str = "default-scheduler"
    node_name: str = ""
    node_selector: dict[str, str] = {}
    affinity: Affinity | None = None
    tolerations: list[Toleration] = []
    priority: int | None = None
    priority_class_name: str = ""
    preemption_policy: str = ""
    containers: list[Container] = []
    init_containers: list[Container] = []
    resources: Resources | None = None
    """Of the pod as a whole; resources named here override the containers' sum."""
    overhead: Amounts = {}
    host_network: bool = False
    host_users: bool | None = None
    """False: in a user namespace of its own."""
    scheduling_gates: list[SchedulingGate] = []
    topology_spread_constraints: list[TopologySpreadConstraint] = []
    resource_claims: list[PodResourceClaim] = []
    volumes: list[PodVolume] = []
    termination_grace_period_seconds: int | None = None
    scheduling_group: SchedulingGroup | None = None


class PodClaimStatus(Wire, frozen=True, kw_only=True):
    """The claim that was made from a template; without a name, none is needed."""

    name: str = ""
    resource_claim_name: str = ""


class ContainerStatus(Wire, frozen=True, kw_only=True):
    """What the kubelet has allocated to a container, and what the container runs with."""

    name: str = ""
    allocated_resources: Amounts = {}
    resources: Resources | None = None


class PodStatus(Wire, frozen=True, kw_only=True):
    """State of a pod."""

    phase: str = "Pending"
    container_statuses: list[ContainerStatus] = []
    init_container_statuses: list[ContainerStatus] = []
    allocated_resources: Amounts = {}
    """To the pod as a whole."""
    resources: Resources | None = None
    """Of the pod as a whole."""
    resize: str = ""
    """How a resize stands; before Kubernetes 1.33, which has conditions for it."""
    resource_claim_statuses: list[PodClaimStatus] = []
    nominated_node_name: str = ""
    conditions: list[Condition] = []
    start_time: str = ""
    reason: str = ""


class Pod(KubernetesObject, frozen=True, kw_only=True):
    """A pod."""

    API_VERSION = "v1"
    KIND = "Pod"

    spec: PodSpec
    status: PodStatus = PodStatus()


# -- disruption budgets ----------------------------------------------------------------------------


class DisruptionBudgetSpec(Wire, frozen=True, kw_only=True):
    """Pods that a budget protects."""

    selector: LabelSelector | None = None
    """Pods of its namespace; None selects no pod, an empty one every pod."""
    unhealthy_pod_eviction_policy: str = ""
    """``AlwaysAllow``: pods that are not ready do not count; else only while enough are healthy."""


class DisruptionBudgetStatus(Wire, frozen=True, kw_only=True):
    """Numbers that the controller of budgets has computed."""

    disruptions_allowed: int = 0
    current_healthy: int = 0
    desired_healthy: int = 0
    observed_generation: int = 0
    disrupted_pods: dict[str, str] = {}
    """Evicted pods, by name, whose end the controller has not seen yet."""


class PodDisruptionBudget(KubernetesObject, frozen=True, kw_only=True):
    """A budget for evictions."""

    API_VERSION = "policy/v1"
    KIND = "PodDisruptionBudget"

    spec: DisruptionBudgetSpec = DisruptionBudgetSpec()
    status: DisruptionBudgetStatus = DisruptionBudgetStatus()


def is_valid(requirement: SelectorRequirement) -> bool:
    """Tell whether a requirement is valid; a selector with an invalid one selects no pod."""
    if not requirement.key:
        return False
    if requirement.operator in ("In", "NotIn"):
        return bool(requirement.values)
    return requirement.operator in ("Exists", "DoesNotExist") and not requirement.values


def disruption_budget_faults(budget: PodDisruptionBudget) -> Iterator[Fault]:
    """Yield warnings about selectors that select nothing, and about a missing status."""
    selector = budget.spec.selector
    for at, one in enumerate(selector.match_expressions if selector is not None else ()):
        if not is_valid(one):
            yield Fault(
                ("spec", "selector", "matchExpressions", at),
                "no requirement, so that the budget protects no pod",
                f"{one.key} {one.operator}",
                "write a key, In or NotIn with values, or Exists or DoesNotExist without",
                is_warning=True,
            )
    if budget.status == DisruptionBudgetStatus():
        yield Fault(
            ("status", "disruptionsAllowed"),
            "missing, so that no pod it selects may be evicted",
            fix="write how many may be, or take the object from a cluster",
            is_warning=True,
        )


# -- storage ---------------------------------------------------------------------------------------

SELECTED_NODE: Final = "volume.kubernetes.io/selected-node"
"""Annotation of a claim: the node for which its volume is to be created."""
BIND_COMPLETED: Final = "pv.kubernetes.io/bind-completed"
WAITS_FOR_POD: Final = "WaitForFirstConsumer"
BOUND_BY_CONTROLLER: Final = "pv.kubernetes.io/bound-by-controller"
NO_PROVISIONER: Final = "kubernetes.io/no-provisioner"
ONE_POD: Final = "ReadWriteOncePod"


class ClaimSpec(Wire, frozen=True, kw_only=True):
    """Settings of a claim."""

    volume_name: str = ""
    storage_class_name: str = ""
    access_modes: list[str] = []
    resources: Resources = Resources()
    selector: LabelSelector | None = None
    """Labels of the volumes that may be taken; None for all."""
    volume_mode: str = "Filesystem"
    volume_attributes_class_name: str = ""


class ClaimStatus(Wire, frozen=True, kw_only=True):
    """State of a claim, or of a volume."""

    phase: str = ""


class PersistentVolumeClaim(KubernetesObject, frozen=True, kw_only=True):
    """A claim of storage."""

    API_VERSION = "v1"
    KIND = "PersistentVolumeClaim"

    spec: ClaimSpec = ClaimSpec()
    status: ClaimStatus = ClaimStatus()

    @property
    def is_bound(self) -> bool:
        """Whether the claim has its volume."""
        is_done = BIND_COMPLETED in self.metadata.annotations or self.status.phase == "Bound"
        return bool(self.spec.volume_name) and is_done


class VolumeNodeAffinity(Wire, frozen=True, kw_only=True):
    """Nodes on which a volume can be used."""

    required: NodeSelector | None = None


class ClaimReference(Wire, frozen=True, kw_only=True):
    """The claim that a volume is for."""

    namespace: str = ""
    name: str = ""
    uid: str = ""


class VolumeSpec(Wire, frozen=True, kw_only=True):
    """Settings of a volume."""

    node_affinity: VolumeNodeAffinity = VolumeNodeAffinity()
    storage_class_name: str = ""
    access_modes: list[str] = []
    capacity: Amounts = {}
    claim_ref: ClaimReference | None = None
    volume_mode: str = "Filesystem"
    volume_attributes_class_name: str = ""


class PersistentVolume(KubernetesObject, frozen=True, kw_only=True):
    """A volume."""

    API_VERSION = "v1"
    KIND = "PersistentVolume"
    IS_NAMESPACED = False

    spec: VolumeSpec = VolumeSpec()
    status: ClaimStatus = ClaimStatus()

    def is_for(self, claim: PersistentVolumeClaim) -> bool:
        """Tell whether the volume names a claim as its own."""
        ref, meta = self.spec.claim_ref, claim.metadata
        return (
            ref is not None
            and (ref.namespace, ref.name) == (meta.namespace, meta.name)
            and ref.uid in ("", meta.uid)
        )


class TopologyRequirement(Wire, frozen=True, kw_only=True):
    """A node label and its values, of which one is required."""

    key: str = ""
    values: list[str] = []


class TopologyTerm(Wire, frozen=True, kw_only=True):
    """Requirements that must all hold."""

    match_label_expressions: list[TopologyRequirement] = []


class StorageClass(KubernetesObject, frozen=True, kw_only=True):
    """How volumes are created."""

    API_VERSION = "storage.k8s.io/v1"
    KIND = "StorageClass"
    IS_NAMESPACED = False

    provisioner: str = ""
    volume_binding_mode: str = "Immediate"
    allowed_topologies: list[TopologyTerm] = []
    """Terms of which any one must hold; no terms mean every node."""
