"""Reads a Pod object: its state, requests and constraints, as a row."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final, NamedTuple, TypeVar

from kaisched.cluster.rows import LOWEST_PRIORITY
from kaisched.core.axis import TaskState
from kaisched.core.constraints import (
    NO_PREFERENCES,
    Constraints,
    NodeTerm,
    PodTerm,
    Preferences,
    Requirement,
    SpreadRule,
    Toleration,
)
from kaisched.core.devices import LEAST_SHARE, DeviceDemand
from kaisched.errors import ObjectError
from kaisched.objects import labels
from kaisched.objects.gpus import (
    Groups,
    Reservation,
    ShareClaim,
    groups_of,
    lookup_of,
    reservation_of,
    share_claim_of,
    share_of,
)
from kaisched.objects.labels import IN_POOL, LABEL_VALUE, pool_condition_of
from kaisched.objects.pod import (
    RESTARTS_ALL,
    Affinity,
    LabelSelector,
    NodeAffinity,
    NodeSelector,
    Pod,
    PodAffinityTerm,
    PodSpec,
    PreferredNodeTerm,
    PreferredPodTerm,
    SelectorRequirement,
    TopologySpreadConstraint,
)
from kaisched.objects.queue import (
    NodeLabelRequirement,
)
from kaisched.objects.requests import (
    ResourceAsk,
    legacy_mig_slices,
    pod_requests,
    resource_asks,
    unsupported,
)
from kaisched.objects.shard import SchedulingShard
from kaisched.objects.wire import MOST_LABELS, Condition, ObjectMeta
from kaisched.units import UnitError

OUR_SCHEDULERS: Final = frozenset({"kaisched"})


class Sharing(NamedTuple):
    """How shares of GPUs reach the hardware."""

    has_reservations: bool = False
    """Whether reservation pods hold shared GPUs, so that a card without one takes no shares."""
    writes_lookups: bool = False
    """Whether ConfigMaps are written in which pods look up their GPU."""
    share_class: str = ""
    """The class of devices of which shares of GPUs are claims; empty where they are none."""
    least: int = LEAST_SHARE
    """Thousandths of a GPU that a part of one counts at least in its queue."""


NO_SHARING: Final = Sharing()


def sharing_of(shard: SchedulingShard) -> Sharing:
    """Return how shares of GPUs reach the hardware in a shard."""
    said = shard.has_reservations, shard.writes_lookups, shard.share_class
    return Sharing(*said, shard.least_share)


@dataclass(frozen=True, slots=True)
class Ours:
    """Scope of a store; immutable, so any thread may ask."""

    schedulers: frozenset[str]
    """Names of schedulers whose pods the store places."""
    node_pool: str
    """Node pool label of nodes, queues, pod groups and pods; empty for objects without it."""
    gpu_resources: tuple[str, ...]
    """Resource names that count as whole GPUs."""
    offers_shares: bool = False
    """Whether pods may share GPUs as parts of cards: whether that can be carried out."""
    sharing: Sharing = NO_SHARING
    has_tenants: bool = False
    """Whether authors of pods may not trust each other: what one writes binds no other's pods."""

    def has(self, meta: ObjectMeta) -> bool:
        """Tell whether an object is in the node pool."""
        return labels.node_pool_of(meta) == self.node_pool

    def may_place(self, pod: Pod) -> bool:
        """Tell whether the store places a pod, or has placed it."""
        return pod.spec.scheduler_name in self.schedulers and self.has(pod.metadata)

    def may_share(self, pod: Pod) -> bool:
        """Tell whether a pod may have shares of GPUs: this scheduler or KAI-Scheduler binds it."""
        name = pod.spec.scheduler_name
        return name in self.schedulers or name == labels.KAI_SCHEDULER


_MOST_REQUIREMENTS: Final = 1_000
"""On nodes, or pods to be near to or away from: more of one pod are not judged."""
_MOST_VALUES: Final = 20_000
"""In all requirements on nodes together: there may be a list of the nodes' names."""
_MOST_SPREADS: Final = 100
"""Topology spread constraints of one pod."""
_MOST_WEIGHT: Final = 100
_MUST, _MAY = "DoNotSchedule", "ScheduleAnyway"
"""Whether a topology spread constraint is a rule or a preference."""


def has_pod_terms(pod: Pod) -> bool:
    """Tell whether the pod must be near to, away from, or spread with other pods."""
    affinity = pod.spec.affinity
    if any(it.when_unsatisfiable == _MUST for it in pod.spec.topology_spread_constraints):
        return True
    if affinity is None:
        return False
    kinds = (affinity.pod_affinity, affinity.pod_anti_affinity)
    return any(kind is not None and kind.required for kind in kinds)


def unsupported_demand(pod: Pod) -> str:
    """Return why the demands cannot be judged here, or an empty text."""
    return next(_faults_of_demands(pod), "")


def _faults_of_demands(pod: Pod) -> Iterator[str]:
    spec, affinity = pod.spec, pod.spec.affinity or Affinity()
    if len(pod.metadata.labels) > MOST_LABELS:
        yield f"metadata.labels: there are more than {MOST_LABELS:,}; remove some"
    if excess := _excess(affinity):
        yield f"spec.affinity: {excess}; ask for less"
    if len(spec.topology_spread_constraints) > _MOST_SPREADS:
        yield f"spec.topologySpreadConstraints: more than {_MOST_SPREADS}; ask for less"
    for term in _terms_on_pods(affinity):
        if term.namespace_selector is not None and not _is_empty(term.namespace_selector):
            yield "namespaceSelector: labels of namespaces are not read; list namespaces"
    for weight in _weights(affinity):
        if not 1 <= weight <= _MOST_WEIGHT:
            yield f"spec.affinity: the weight {weight} is not from 1 to {_MOST_WEIGHT}; change it"
    yield from _faults_of_nodes(spec)


def _faults_of_nodes(spec: PodSpec) -> Iterator[str]:
    """Yield what a pod asks of nodes that is not read of them."""
    for kind in filter(None, (volume.inline for volume in spec.volumes)):
        yield (
            f"spec.volumes: {kind}: which pods of a node may share a disk that pods name themselves"
            " is not judged; use a PersistentVolumeClaim"
        )
    for container in (*spec.init_containers, *spec.containers):
        if any(rule.action == RESTARTS_ALL for rule in container.restart_policy_rules):
            yield f"restartPolicyRules: {RESTARTS_ALL}: {_NOT_READ}; choose another action"
    if spec.host_network and spec.host_users is False:
        yield f"spec.hostUsers: false with hostNetwork: {_NOT_READ}; leave out one of them"


_NOT_READ: Final = "which nodes declare this feature is not read"


def _terms_on_pods(affinity: Affinity) -> list[PodAffinityTerm]:
    """Return all terms of pod affinity and anti-affinity, required and preferred."""
    kinds = [it for it in (affinity.pod_affinity, affinity.pod_anti_affinity) if it is not None]
    required = [term for kind in kinds for term in kind.required]
    return required + [it.pod_affinity_term for kind in kinds for it in kind.preferred]


def _weights(affinity: Affinity) -> Iterator[int]:
    """Yield the weights of all preferred terms."""
    for kind in (affinity.node_affinity, affinity.pod_affinity, affinity.pod_anti_affinity):
        yield from (it.weight for it in kind.preferred) if kind is not None else ()


def _excess(affinity: Affinity) -> str:
    """Return what is too much to be judged, or an empty text."""
    terms = len(_terms_on_pods(affinity))
    if terms > _MOST_REQUIREMENTS:
        return f"{terms:,} terms on pods are more than {_MOST_REQUIREMENTS:,}"
    on_nodes = affinity.node_affinity or NodeAffinity()
    required = on_nodes.required.node_selector_terms if on_nodes.required else []
    wanted = [
        one
        for term in (*required, *(it.preference for it in on_nodes.preferred))
        for one in (*term.match_expressions, *term.match_fields)
    ]
    if len(wanted) > _MOST_REQUIREMENTS:
        return f"{len(wanted):,} requirements on nodes are more than {_MOST_REQUIREMENTS:,}"
    values = sum(len(one.values) for one in wanted)
    if values > _MOST_VALUES:
        return f"{values:,} values in requirements on nodes are more than {_MOST_VALUES:,}"
    return ""


def constraints_of(pod: Pod, ours: Ours) -> Constraints:
    """Return what decides where the pod may go; the number of its label set is the store's.

    Demands that are too many to be judged are left out: such a pod is not scheduled.
    """
    spec = pod.spec
    affinity = spec.affinity
    if affinity is not None and _excess(affinity):
        affinity = None
    node_affinity = affinity.node_affinity if affinity else None
    required = node_affinity.required if node_affinity else None
    near = affinity.pod_affinity if affinity else None
    away = affinity.pod_anti_affinity if affinity else None
    return Constraints(
        node_selector=tuple(sorted(spec.node_selector.items())),
        flavor_keys=labels.flavor_keys_of(pod.metadata),
        node_terms=None if required is None else node_terms(required),
        tolerations=_tolerations(spec),
        host_ports=_host_ports(spec),
        pod_affinity=_pod_terms(near.required if near else (), pod),
        pod_anti_affinity=_pod_terms(
            away.required if away else (), pod, pod.metadata.namespace if ours.has_tenants else ""
        ),
        spread=_spread(pod, _MUST),
        preferences=_preferences(pod, affinity or Affinity()),
        devices=_devices(pod, ours),
    )


def _devices(pod: Pod, ours: Ours) -> DeviceDemand | None:
    """Return what a pod asks of GPUs by annotation; None for nearly every pod."""
    if slices := legacy_mig_slices(pod):
        return DeviceDemand(legacy_slices=slices)
    if not ours.offers_shares:
        return None
    if labels.is_reservation(pod.metadata):
        return DeviceDemand(is_reservation=True)
    if not ours.may_share(pod):
        return None
    try:
        share = share_of(pod, ours.gpu_resources)
    except ObjectError:
        return None  # its job is refused
    least = ours.sharing.least
    return share and DeviceDemand(share.fraction, share.memory_mib, share.cards, least=least)


def claims_of(pod: Pod) -> tuple[tuple[str, bool], ...]:
    """Return the claims of storage that a pod uses: (name, whether it is made for this pod).

    Several volumes of a pod may be of one claim.
    """
    found = []
    for volume in pod.spec.volumes:
        if volume.persistent_volume_claim is not None:
            found.append((volume.persistent_volume_claim.claim_name, False))
        elif volume.ephemeral is not None:
            found.append((f"{pod.name}-{volume.name}", True))
    return tuple(dict.fromkeys(found))


class DeviceClaimRef(NamedTuple):
    """How a pod names a claim on devices."""

    label: str
    """What the pod calls it."""
    name: str
    """Of the claim; empty as long as none is made from the template."""
    is_own: bool
    """It is made from a template, for this pod alone."""
    is_needed: bool = True
    unless_plugin: bool = False
    """Needed only on nodes that do not offer by a device plugin what it is for."""


def device_claims_of(pod: Pod) -> tuple[DeviceClaimRef, ...]:
    """Return the claims on devices that a pod uses, in its own order; each of them once."""
    made = {it.name: it.resource_claim_name for it in pod.status.resource_claim_statuses}
    refs = (
        DeviceClaimRef(it.name, it.resource_claim_name, is_own=False)
        if it.resource_claim_name
        else DeviceClaimRef(
            it.name,
            made.get(it.name, ""),
            is_own=True,
            is_needed=made.get(it.name) != "",
        )
        for it in pod.spec.resource_claims
    )
    found: dict[tuple[str, str], DeviceClaimRef] = {}
    for ref in refs:
        found.setdefault((ref.name, "" if ref.name else ref.label), ref)
    return tuple(found.values())


def node_terms(selector: NodeSelector) -> tuple[NodeTerm, ...]:
    """Return the terms of a selector of which one must hold, in one canonical form."""
    terms = {
        (_requirements(term.match_expressions), _requirements(term.match_fields))
        for term in selector.node_selector_terms
    }
    return tuple(sorted((term for term in terms if _is_of_use(term)), key=repr))


def _is_of_use(term: NodeTerm) -> bool:
    """Tell whether a term may match a node: an empty one does not, nor one with a bad value.

    As in kube-scheduler, where a value that no label may have spoils the whole term.
    """
    labels, fields = term
    values = (value for one in labels for value in one.values)
    return bool(labels or fields) and all(map(LABEL_VALUE.fullmatch, values))


def terms_of(terms: Iterable[Iterable[NodeLabelRequirement]]) -> tuple[NodeTerm, ...]:
    """Return terms of a queue of which one must hold, in one canonical form."""
    return tuple(sorted({(_requirements(term), ()) for term in terms}, key=repr))


def _requirements(
    expressions: Iterable[SelectorRequirement | NodeLabelRequirement],
) -> tuple[Requirement, ...]:
    found = {
        Requirement(one.key, one.operator, tuple(sorted(set(one.values)))) for one in expressions
    }
    return tuple(sorted(found, key=repr))


def _tolerations(spec: PodSpec) -> tuple[Toleration, ...]:
    found = {
        Toleration(one.key, one.operator or "Equal", one.value, one.effect)
        for one in spec.tolerations
    }
    return tuple(sorted(found, key=repr))


def _host_ports(spec: PodSpec) -> tuple[tuple[str, str, int], ...]:
    containers = [*spec.containers]
    containers += [one for one in spec.init_containers if one.restart_policy == "Always"]
    found = set()
    for container in containers:
        for port in container.ports:
            number = port.host_port or (port.container_port if spec.host_network else 0)
            if number:
                found.add((port.protocol or "TCP", port.host_ip or "0.0.0.0", number))  # noqa: S104
    return tuple(sorted(found))


def _pod_terms(terms: Iterable[PodAffinityTerm], pod: Pod, home: str = "") -> tuple[PodTerm, ...]:
    found = {replace(_pod_term(term, pod), home=home) for term in terms}
    return tuple(sorted(found, key=repr))


def _pod_term(term: PodAffinityTerm, pod: Pod) -> PodTerm:
    everywhere = term.namespace_selector is not None and _is_empty(term.namespace_selector)
    return PodTerm(
        topology_key=term.topology_key,
        namespaces=tuple(sorted(set(term.namespaces))) or (pod.metadata.namespace,),
        all_namespaces=everywhere,
        selector=_selector_of(term, pod, term.mismatch_label_keys),
        match_none=term.label_selector is None,
    )


def _selector_of(
    term: PodAffinityTerm | TopologySpreadConstraint, pod: Pod, others: Iterable[str] = ()
) -> tuple[Requirement, ...]:
    """Return which pods a term is about: by its selector, and by the pod's own labels."""
    own = pod.metadata.labels
    found = set() if term.label_selector is None else {*_selector(term.label_selector)}
    found |= {Requirement(it, "In", (own[it],)) for it in term.match_label_keys if it in own}
    found |= {Requirement(it, "NotIn", (own[it],)) for it in others if it in own}
    return tuple(sorted(found, key=repr))


def _preferences(pod: Pod, affinity: Affinity) -> Preferences:
    """Return what a pod prefers; equal terms are one, with the sum of their weights."""
    nodes, pods = Counter[NodeTerm](), Counter[PodTerm]()
    for wish in affinity.node_affinity.preferred if affinity.node_affinity else ():
        for term in node_terms(NodeSelector(node_selector_terms=[wish.preference])):
            nodes[term] += _weight(wish)
    for kind, sign in ((affinity.pod_affinity, 1), (affinity.pod_anti_affinity, -1)):
        for it in kind.preferred if kind is not None else ():
            pods[_pod_term(it.pod_affinity_term, pod)] += sign * _weight(it)
    spread = _spread(pod, _MAY)
    if not (nodes or pods or spread):
        return NO_PREFERENCES
    return Preferences(_weighted(nodes), _weighted(pods), spread)


def _weight(wish: PreferredNodeTerm | PreferredPodTerm) -> int:
    """Return a weight, 0 for one that makes no sense: its pod is not scheduled, see above."""
    return wish.weight if 1 <= wish.weight <= _MOST_WEIGHT else 0


_Term = TypeVar("_Term", NodeTerm, PodTerm)


def _weighted(terms: Counter[_Term]) -> tuple[tuple[int, _Term], ...]:
    return tuple(sorted(((weight, term) for term, weight in terms.items() if weight), key=repr))


def _spread(pod: Pod, when: str) -> tuple[SpreadRule, ...]:
    """Return how a pod must, or may, be spread; too many constraints are left out, see above."""
    asked = pod.spec.topology_spread_constraints
    if not asked or len(asked) > _MOST_SPREADS:
        return ()
    found = {_spread_rule(it, pod) for it in asked if it.when_unsatisfiable == when}
    return tuple(sorted(found, key=repr))


def _spread_rule(one: TopologySpreadConstraint, pod: Pod) -> SpreadRule:
    selector = _selector_of(one, pod)
    pods = PodTerm(
        topology_key=one.topology_key,
        namespaces=(pod.metadata.namespace,),
        all_namespaces=False,
        selector=selector,
        match_none=not selector,  # kube-scheduler counts no pod by an empty selector either
    )
    return SpreadRule(
        pods,
        one.max_skew,
        min_domains=one.min_domains or 1,
        honors_affinity=one.node_affinity_policy != "Ignore",
        honors_taints=one.node_taints_policy == "Honor",
    )


def _selector(selector: LabelSelector) -> tuple[Requirement, ...]:
    labels = {Requirement(key, "In", (value,)) for key, value in selector.match_labels.items()}
    return tuple(sorted(labels | set(_requirements(selector.match_expressions)), key=repr))


def _is_empty(selector: LabelSelector) -> bool:
    return not selector.match_labels and not selector.match_expressions


_SUCCEEDED: Final = "Succeeded"
_ENDED: Final = (_SUCCEEDED, "Failed")
_TRUE: Final = "True"


class Leaving(NamedTuple):
    """How a pod is being deleted."""

    asked_s: float
    """Since when, in seconds since 1970 by the server's clock; NaN where that makes no sense."""
    grace_s: float
    """How long it may take over it."""


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
    """The groups of the cards it shares, as far as its object says and may be believed."""
    groups_fault: str = ""
    """What is amiss with the groups that it names."""
    gpus: tuple[str, ...] = ()
    """The UUIDs of these cards' GPUs, likewise."""
    lookup: str = ""
    """Name of the ConfigMap in which it looks up its GPU; empty for nearly every pod."""
    reservation: Reservation | None = None
    """The shared GPU that it holds for other pods."""
    pool_condition: tuple[str, int] | None = None
    """In which node pool its job is, and after how many moves, as a condition says."""
    leaving: Leaving | None = None
    """Since when it is being deleted; None for one that is not."""
    preemption_policy: str = ""
    """Whether pods may be evicted for it; empty where no API server has written that down."""

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
    groups, lookup = Groups(), ""
    if spec.node_name and ours.offers_shares:
        groups = groups_of(pod, gpu_names, may_share=ours.may_share(pod))
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
        preemption_policy=spec.preemption_policy,
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
        pool_condition=_pool_condition(pod),
        scheduling_group=spec.scheduling_group.pod_group_name if spec.scheduling_group else "",
        leaving=leaving_of(meta),
        cards=groups.names,
        groups_fault=groups.fault,
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


def _pool_condition(pod: Pod) -> tuple[str, int] | None:
    for condition in pod.status.conditions:
        if condition.type == IN_POOL and condition.status == _TRUE:
            return pool_condition_of(condition.message)
    return None


def _time_s(text: str, absent: float) -> float:
    try:
        return labels.time_of(text) if text else absent
    except UnitError:
        return absent
