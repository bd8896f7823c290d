"""Queues: the division of a cluster, as a tree of quotas, limits and weights."""

# ruff: noqa: RUF012 - msgspec gives every struct its own copy of an empty list or dict

from __future__ import annotations

from typing import Any, ClassVar, Final, Literal, get_args

from kaisched.objects.wire import KubernetesObject, StrictWire

StopPolicy = Literal["None", "Hold", "HoldAndDrain"]
WithinPolicy = Literal["Never", "LowerPriority", "LowerOrNewerEqualPriority", "Any"]
"""Whose work may go for work of another: by priority, or by priority and age."""
WorkloadType = Literal["training", "interactive", "inference"]
WORKLOAD_TYPES: Final[tuple[str, ...]] = get_args(WorkloadType)
LabelOperator = Literal["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"]
SearchPolicy = Literal["MayStopSearch", "TryNextFlavor"]
FlavorPreference = Literal["BorrowingOverPreemption", "PreemptionOverBorrowing"]
BorrowPolicy = Literal["Never", "LowerPriority"]
"""Whose work may go for work with which its queue borrows."""
AdmissionMode = Literal["NoAdmissionFairSharing", "UsageBasedAdmissionFairSharing"]
BY_USAGE: Final = "UsageBasedAdmissionFairSharing"


class QueueResource(StrictWire, frozen=True, kw_only=True):
    """A queue's quota, limit and weight of one resource.

    Units: gpu in GPUs (fractions allowed), cpu in millicores, memory in megabytes of 10**6 bytes,
    any other resource in pieces. -1 is unlimited. Defaults are a quota of 0, no limit, and a
    weight of 1.
    """

    quota: int | float = 0
    limit: int | float = -1
    over_quota_weight: int | float | str = 1
    """A number of at least 0, or None, Low, Medium, High for 0, 1, 2, 3."""
    borrowing_limit: int | float = -1
    """The most it may hold beyond its quota, where the policy of the shard lends; -1 for any."""
    lending_limit: int | float = -1
    """The most of its quota that others may have, where the policy lends; -1 for all."""


class QueueFairSharing(StrictWire, frozen=True, kw_only=True):
    """How much a queue counts among its siblings where the policy of the shard lends."""

    weight: int | float | str = 1
    """A number of at least 0, or its text, or None, Low, Medium, High for 0, 1, 2, 3."""
    enabled: bool = True
    """Read at a top-level queue, for its tree: False takes by quota and priority, not by share."""


class BorrowWithinCohort(StrictWire, frozen=True, kw_only=True):
    """From whom work may take while its queue borrows, in a tree without fair sharing."""

    policy: BorrowPolicy = "Never"
    max_priority_threshold: int | None = None
    """The highest priority that may go; any lower one when left out."""


class QueuePreemption(StrictWire, frozen=True, kw_only=True):
    """From whom work of a queue may take, where the policy of the shard lends."""

    within_cluster_queue: WithinPolicy = "LowerPriority"
    """From work of the same queue."""
    reclaim_within_cohort: WithinPolicy = "Any"
    """From work of other queues of its tree."""
    borrow_within_cohort: BorrowWithinCohort = BorrowWithinCohort()
    """Read in a tree without fair sharing: from the same queues, while its own borrows."""


class QueueAdmissionScope(StrictWire, frozen=True, kw_only=True):
    """The order in which jobs of the queues below start, where the policy of the shard lends."""

    admission_mode: AdmissionMode = "NoAdmissionFairSharing"
    """``UsageBasedAdmissionFairSharing``: the queues below share its quota, and who has used less
    lately by its weight goes first."""


class QueueFlavorResource(StrictWire, frozen=True, kw_only=True):
    """What a queue may have of one resource in a flavor; units are those of ``resources``."""

    quota: int | float = 0
    borrowing_limit: int | float = -1
    """The most it may hold beyond its quota; -1 for any."""
    lending_limit: int | float = -1
    """The most of its quota that others may have; -1 for all."""


class QueueFlavor(StrictWire, frozen=True, kw_only=True):
    """What a queue may have on nodes with some labels, where the policy of the shard lends."""

    name: str
    node_labels: dict[str, str] = {}
    """The nodes of the flavor; if empty, what a queue above states, else all other nodes."""
    resources: dict[str, QueueFlavorResource] = {}


class QueueFlavorFungibility(StrictWire, frozen=True, kw_only=True):
    """Which flavor a job gets if its first does not fit at once, where the policy lends."""

    when_can_borrow: SearchPolicy = "MayStopSearch"
    """Whether a flavor that fits by borrowing is taken before the next is tried."""
    when_can_preempt: SearchPolicy = "TryNextFlavor"
    """Whether a job waits for evictions in a flavor before the next is tried."""
    preference: FlavorPreference = "BorrowingOverPreemption"
    """What counts first between flavors that do not fit at once."""


class MaxRunTime(StrictWire, frozen=True, kw_only=True):
    """How long jobs of some types of workload may run at a stretch."""

    workloads: list[WorkloadType] = []
    """Types of workload that it is about; empty for all."""
    time: str | int
    """A duration, longer than 0."""
    non_preemptible: bool = False
    """Whether it also holds for jobs that are not preemptible."""


class NodeLabelRequirement(StrictWire, frozen=True, kw_only=True):
    """A requirement on one label of nodes."""

    key: str
    operator: LabelOperator
    values: list[str] = []
    """Of In and NotIn at least one, of Gt and Lt one whole number, of the others none."""


class NodeAffinityTerm(StrictWire, frozen=True, kw_only=True):
    """Requirements on labels of a node, all of which must hold."""

    match_expressions: list[NodeLabelRequirement]


class QueueNodeAffinity(StrictWire, frozen=True, kw_only=True):
    """The nodes on which jobs of some types of workload may be placed."""

    workloads: list[WorkloadType] = []
    """Types of workload that it is about; empty for all."""
    terms: list[NodeAffinityTerm]
    """Of these at least one must hold."""


class QueueSpec(StrictWire, frozen=True, kw_only=True):
    """A queue's place in the tree and its resources."""

    display_name: str = ""
    parent_queue: str = ""
    """Empty for a top-level queue."""
    resources: dict[str, QueueResource] = {}
    """By ``gpu``, ``cpu``, ``memory`` or an extended resource name."""
    priority: int = 100
    preempt_min_runtime: str | int | None = None
    reclaim_min_runtime: str | int | None = None
    fair_sharing: QueueFairSharing = QueueFairSharing()
    preemption: QueuePreemption = QueuePreemption()
    admission_scope: QueueAdmissionScope = QueueAdmissionScope()
    flavors: list[QueueFlavor] = []
    """In the order in which jobs try them; a leaf without any has those of the queue above."""
    node_pools: list[str] = []
    """Pools for jobs that list none themselves, the first to be tried in front; if empty, those of
    the queue above count."""
    node_affinity: list[QueueNodeAffinity] = []
    """Where jobs of the queue and of all queues below may be placed: every entry that fits a job
    must hold. What runs already stays where it is."""
    max_run_time: list[MaxRunTime] = []
    """How long jobs of the queue and of all queues below may run: the shortest time that fits a
    job counts."""
    flavor_fungibility: QueueFlavorFungibility = QueueFlavorFungibility()
    stop_policy: StopPolicy = "None"
    """Also applies to all queues below. ``Hold``: nothing new is started. ``HoldAndDrain``: running
    jobs are evicted as well."""


class Queue(KubernetesObject, frozen=True, kw_only=True):
    """A queue; only leaves hold jobs."""

    API_VERSION: ClassVar[str] = "scheduling.run.ai/v2"
    KIND: ClassVar[str] = "Queue"
    IS_NAMESPACED: ClassVar[bool] = False

    spec: QueueSpec
    status: Any = None
    """Status as stored: a fault in it must not make the queue unusable."""
