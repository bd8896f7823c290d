"""From API objects to rows: here the objects die.

Each function looks at one object and nothing else; one that makes no sense is an ObjectError.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from kaisched.cluster.demands import (
    DeviceClaimRef,
    claims_of,
    constraints_of,
    device_claims_of,
    has_pod_terms,
    terms_of,
    unsupported_demand,
)
from kaisched.cluster.nodes import NodeRow
from kaisched.cluster.ours import Ours
from kaisched.cluster.queue_flavors import flavored_quota, queue_flavors
from kaisched.cluster.queues import UNSET_S, QueueRow
from kaisched.cluster.rows import LOWEST_PRIORITY
from kaisched.cluster.stuck import Leaving
from kaisched.core.axis import TaskState
from kaisched.core.constraints import Constraints, NodeTerm, Taint
from kaisched.core.tables import DRAINED, HELD, OPEN, WORKLOADS, Sharing
from kaisched.errors import ObjectError
from kaisched.objects import labels
from kaisched.objects.gpus import (
    Reservation,
    ShareClaim,
    can_share,
    card_mib_of,
    lookup_of,
    reservation_of,
    share_claim_of,
)
from kaisched.objects.labels import IN_POOL, pool_mark_of
from kaisched.objects.node import Node
from kaisched.objects.pod import Pod
from kaisched.objects.podgroup import PodGroup
from kaisched.objects.queue import (
    BY_USAGE,
    MaxRunTime,
    Queue,
    QueueNodeAffinity,
    queue_lending,
    queue_shares,
    sharing_weight,
)
from kaisched.objects.requests import (
    ResourceAsk,
    node_allocatable,
    pod_requests,
    resource_asks,
    unsupported,
)
from kaisched.objects.wire import Condition, ObjectMeta
from kaisched.units import UnitError, parse_duration

_PRESSURES: Final = ("MemoryPressure", "DiskPressure", "PIDPressure", "NetworkUnavailable")
_UNMANAGED_WHEN_ABSENT: Final = ("cpu", "memory")
_SUCCEEDED: Final = "Succeeded"
_ENDED: Final = (_SUCCEEDED, "Failed")
_TRUE: Final = "True"
_STOPS: Final = {"None": OPEN, "Hold": HELD, "HoldAndDrain": DRAINED}


def node_row(node: Node, gpu_resources: Sequence[str]) -> NodeRow:
    """Return a node's row. A node that reports no Ready condition counts as ready."""
    status_of = {condition.type: condition.status for condition in node.status.conditions}
    return NodeRow(
        name=node.name,
        allocatable=node_allocatable(node, gpu_resources),
        labels=node.metadata.labels,
        taints=tuple(Taint(taint.key, taint.value, taint.effect) for taint in node.spec.taints),
        is_ready=status_of.get("Ready", _TRUE) == _TRUE,
        is_unschedulable=node.spec.unschedulable,
        has_pressure=any(status_of.get(kind) == _TRUE for kind in _PRESSURES),
        annotations=node.metadata.annotations,
        card_mib=card_mib_of(node),
        can_share=can_share(node, gpu_resources),
    )


def queue_row(queue: Queue) -> QueueRow:
    """Return a queue's row.

    GPUs are always shared out. CPU and memory that the queue says nothing about are not managed: no
    quota bounds them and no limit. Pod slots are never shared out.
    """
    spec = queue.spec
    shares, lending = queue_shares(queue), queue_lending(queue)
    for name in _UNMANAGED_WHEN_ABSENT:
        if name not in spec.resources:
            del shares[name]
    shares.pop("pods", None)
    flavors = queue_flavors(queue)
    quota = {name: share.quota for name, share in shares.items()} | flavored_quota(flavors)
    return QueueRow(
        name=queue.name,
        parent=spec.parent_queue,
        created_s=created_s(queue.metadata),
        priority=spec.priority,
        quota=quota,
        limit={name: share.limit for name, share in shares.items()},
        weight={name: share.weight for name, share in shares.items()},
        preempt_min_runtime_s=_runtime_s(spec.preempt_min_runtime),
        reclaim_min_runtime_s=_runtime_s(spec.reclaim_min_runtime),
        max_run_time=tuple(_run_times(spec.max_run_time)),
        node_affinity=tuple(_affinities(spec.node_affinity)),
        stop=_STOPS[spec.stop_policy],
        labels=queue.metadata.labels,
        annotations=queue.metadata.annotations,
        borrowing_limit={name: it.borrowing_limit for name, it in lending.items()},
        lending_limit={name: it.lending_limit for name, it in lending.items()},
        sharing=Sharing(
            weight=sharing_weight(queue),
            is_on=spec.fair_sharing.enabled,
            within=spec.preemption.within_cluster_queue,
            across=spec.preemption.reclaim_within_cohort,
            flavors=flavors,
            when_can_borrow=spec.flavor_fungibility.when_can_borrow,
            when_can_preempt=spec.flavor_fungibility.when_can_preempt,
            flavor_preference=spec.flavor_fungibility.preference,
            borrowing=spec.preemption.borrow_within_cohort.policy,
            borrowing_up_to=spec.preemption.borrow_within_cohort.max_priority_threshold,
            is_by_usage=spec.admission_scope.admission_mode == BY_USAGE,
        ),
    )


@dataclass(frozen=True, slots=True)
class PodRow:
    """What is kept of a pod."""

    key: str
    """``namespace/name``."""
    uid: str
    meta: ObjectMeta
    """Labels, annotations and owners: what grouping asks for."""
    is_ours: bool
    state: TaskState
    node: str
    nominated: str
    request: Mapping[str, int]
    constraints: Constraints
    has_pod_terms: bool
    priority: int | None
    priority_class: str
    order_priority: int
    created_s: float
    started_s: float
    """When it was placed, NaN where it does not say."""
    fault: str
    """Why it cannot be scheduled here, empty if it can."""
    has_succeeded: bool = False
    claims: tuple[tuple[str, bool], ...] = ()
    """Claims of storage: (name, whether it is made for this pod)."""
    device_claims: tuple[DeviceClaimRef, ...] = ()
    """Claims on devices, in its own order."""
    share: ShareClaim | None = None
    """Its share of GPUs that is one of these."""
    extended: tuple[ResourceAsk, ...] = ()
    """What its containers ask for of extended resources."""
    asked: Mapping[str, int] | None = None
    """Its request as it says itself, where a claim stands for a part of it."""
    is_unready: bool = False
    """It runs and says of itself that it is not ready; one that says nothing counts as ready."""
    stale_since_s: float = math.nan
    """Since when its job runs below its minimum, as a condition says; NaN without one."""
    scheduling_group: str = ""
    """Name of the group of Kubernetes' own gang API; empty for none."""
    cards: tuple[str, ...] = ()
    """The groups of the cards it shares, as far as its object says."""
    gpus: tuple[str, ...] = ()
    """The UUIDs of these cards' GPUs, likewise."""
    lookup: str = ""
    """Name of the ConfigMap in which it looks up its GPU; empty for nearly every pod."""
    reservation: Reservation | None = None
    """The shared GPU that it holds for other pods."""
    mark: tuple[str, int] | None = None
    """In which node pool its job is, and after how many moves, as a condition says."""
    leaving: Leaving | None = None
    """Since when it is being deleted; None for one that is not."""

    @property
    def namespace(self) -> str:
        """The namespace of the pod and of all it refers to."""
        return self.meta.namespace


def pod_row(pod: Pod, ours: Ours) -> PodRow:
    """Return a pod's row; a pod that makes no sense asks for nothing and has a fault."""
    meta, spec, gpu_names = pod.metadata, pod.spec, ours.gpu_resources
    fault, sharing = _fault_of(pod, ours), ours.sharing
    order_priority = None
    request: Mapping[str, int] = {}
    lookup = ""
    try:
        order_priority = labels.task_priority_of(meta)
        labels.node_types_of(meta)
        request = pod_requests(pod, gpu_names)
        if ours.offers_shares and labels.is_reservation(meta):
            request = {name: amount for name, amount in request.items() if name != "gpu"}
        if sharing.writes_lookups and not spec.node_name:
            lookup = lookup_of(pod)
    except ObjectError as error:
        fault = fault or str(error)
    return PodRow(
        key=pod.key,
        uid=meta.uid or pod.key,
        meta=meta,
        is_ours=spec.scheduler_name in ours.schedulers,
        state=state_of(pod),
        node=spec.node_name,
        nominated=pod.status.nominated_node_name,
        request=request,
        constraints=constraints_of(pod, ours),
        has_pod_terms=has_pod_terms(pod),
        priority=spec.priority,
        priority_class=spec.priority_class_name,
        order_priority=LOWEST_PRIORITY if order_priority is None else order_priority,
        created_s=created_s(meta),
        started_s=_started_s(pod),
        fault=fault,
        has_succeeded=pod.status.phase == _SUCCEEDED,
        claims=claims_of(pod) if spec.volumes else (),
        device_claims=device_claims_of(pod) if spec.resource_claims else (),
        share=share_claim_of(pod, gpu_names) if sharing.share_class and not fault else None,
        extended=resource_asks(pod, gpu_names),
        is_unready=_is_unready(pod),
        stale_since_s=_stale_since_s(pod),
        mark=_mark(pod),
        scheduling_group=spec.scheduling_group.pod_group_name if spec.scheduling_group else "",
        leaving=leaving_of(meta),
        cards=labels.gpu_groups_of(meta) if spec.node_name and ours.offers_shares else (),
        gpus=labels.gpus_of(meta) if spec.node_name and sharing.has_reservations else (),
        lookup=lookup,
        reservation=reservation_of(pod) if sharing.has_reservations else None,
    )


def _fault_of(pod: Pod, ours: Ours) -> str:
    """Return what of a pod is not offered, or an empty text."""
    fault = unsupported(
        pod,
        ours.gpu_resources,
        offers_shares=ours.offers_shares,
        has_share_claims=bool(ours.sharing.share_class),
    )
    return fault or unsupported_demand(pod) or _lookup_fault(pod, ours)


def _lookup_fault(pod: Pod, ours: Ours) -> str:
    """Return why a waiting pod would never start: its containers need what nobody writes here."""
    notes, sharing = pod.metadata.annotations, ours.sharing
    if sharing.writes_lookups or not sharing.has_reservations or pod.spec.node_name:
        return ""
    if labels.GPU_CONFIG_MAP not in notes:
        return ""
    return (
        f"annotation {labels.GPU_CONFIG_MAP}: KAI-Scheduler's webhook lets the pod look up its GPU"
        " in a ConfigMap, which this shard does not write; set spec.gpuSharing.configMaps of the"
        " shard, or make the pod anew without the webhook"
    )


def state_of(pod: Pod) -> TaskState:
    """Return where a pod is in its life, as far as the object itself says."""
    spec, phase = pod.spec, pod.status.phase
    if phase in _ENDED:
        return TaskState.GONE
    if pod.metadata.deletion_timestamp:
        return TaskState.RELEASING if spec.node_name else TaskState.GONE
    if spec.node_name:
        return TaskState.RUNNING if phase == "Running" else TaskState.BOUND
    return TaskState.GATED if spec.scheduling_gates else TaskState.PENDING


def _is_unready(pod: Pod) -> bool:
    if pod.status.phase == "Running":
        for condition in pod.status.conditions:
            if condition.type == "Ready":
                return condition.status != _TRUE
    return False


def has_same_wishes(old: Queue | PodGroup, new: Queue | PodGroup) -> bool:
    """Tell whether what is decided by is the same; statuses, which we write, do not count."""
    before, now = old.metadata, new.metadata
    return old.spec == new.spec and all(
        getattr(before, name) == getattr(now, name)
        for name in ("uid", "labels", "annotations", "creation_timestamp", "deletion_timestamp")
    )


def leaving_of(meta: ObjectMeta) -> Leaving | None:
    """Return how an object is being deleted; the time that it gives is the end of its grace."""
    if not meta.deletion_timestamp:
        return None
    grace_s = float(max(meta.deletion_grace_period_seconds or 0, 0))
    return Leaving(_time_s(meta.deletion_timestamp, math.nan) - grace_s, grace_s)


def created_s(meta: ObjectMeta) -> float:
    """Return when an object was made, 0 where it does not say."""
    return _time_s(meta.creation_timestamp, 0.0)


def _started_s(pod: Pod) -> float:
    scheduled = next((it for it in pod.status.conditions if it.type == "PodScheduled"), Condition())
    placed_s = math.nan
    if scheduled.status == _TRUE:
        placed_s = _time_s(scheduled.last_transition_time, math.nan)
    return placed_s if not math.isnan(placed_s) else _time_s(pod.status.start_time, math.nan)


def _stale_since_s(pod: Pod) -> float:
    for condition in pod.status.conditions:
        if condition.type == labels.GANG_STALE and condition.status == _TRUE:
            return _time_s(condition.last_transition_time, math.nan)
    return math.nan


def _mark(pod: Pod) -> tuple[str, int] | None:
    for condition in pod.status.conditions:
        if condition.type == IN_POOL and condition.status == _TRUE:
            return pool_mark_of(condition.message)
    return None


def _time_s(text: str, absent: float) -> float:
    try:
        return labels.time_of(text) if text else absent
    except UnitError:
        return absent


def _run_times(entries: Sequence[MaxRunTime]) -> Iterator[tuple[int, bool, float]]:
    for entry in entries:
        seconds = parse_duration(entry.time)
        for name in entry.workloads or WORKLOADS:
            yield WORKLOADS.index(name), True, seconds
            if entry.non_preemptible:
                yield WORKLOADS.index(name), False, seconds


def _affinities(
    entries: Sequence[QueueNodeAffinity],
) -> Iterator[tuple[int, tuple[NodeTerm, ...]]]:
    for entry in entries:
        terms = terms_of(term.match_expressions for term in entry.terms)
        for name in entry.workloads or WORKLOADS:
            yield WORKLOADS.index(name), terms


def _runtime_s(text: str | int | None) -> float:
    return UNSET_S if text is None else parse_duration(text)
