"""Queues: the division of a cluster, as a tree of quotas, limits and weights, and checks of them.

Amounts are plain numbers, as in KAI's Queue: texts such as "64Gi" are refused.
"""

# ruff: noqa: RUF012 - msgspec gives every struct its own copy of an empty list or dict

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping
from fractions import Fraction
from typing import Any, Final, Literal, NamedTuple

from kaisched.errors import ObjectError
from kaisched.objects.faults import (
    INT32_MAX,
    Fault,
    Path,
    Source,
    did_you_mean,
    duration_faults,
    to_error,
)
from kaisched.objects.labels import LABEL_KEY, LABEL_VALUE
from kaisched.objects.shard import GPU_RESOURCES
from kaisched.objects.wire import Amount, KubernetesObject, StrictWire, WorkloadType
from kaisched.units import (
    MAX_QUOTA,
    MEGABYTE,
    UNLIMITED,
    UnitError,
    is_in_bytes,
    parse_duration,
    parse_quantity,
)

StopPolicy = Literal["None", "Hold", "HoldAndDrain"]
WithinPolicy = Literal["Never", "LowerPriority", "LowerOrNewerEqualPriority", "Any"]
"""Whose work may go for work of another: by priority, or by priority and age."""
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

    API_VERSION = "scheduling.run.ai/v2"
    KIND = "Queue"
    IS_NAMESPACED = False

    spec: QueueSpec
    status: Any = None
    """Status as stored: a fault in it must not make the queue unusable."""


# -- checks of the node affinity -------------------------------------------------------------------

_WHOLE: Final = re.compile(r"-?[0-9]{1,18}", re.ASCII)
_WITHOUT: Final = ("Exists", "DoesNotExist")
_COMPARE: Final = ("Gt", "Lt")


def affinity_faults(entries: Iterable[QueueNodeAffinity]) -> Iterator[Fault]:
    """Yield what is wrong with the node affinity of a queue."""
    for at, entry in enumerate(entries):
        path: Path = ("spec", "nodeAffinity", at, "terms")
        if not entry.terms:
            fix = "write a term, or leave the entry out to allow all nodes"
            yield Fault(path, "no term, so no node could be used", [], fix)
        for number, term in enumerate(entry.terms):
            here: Path = (*path, number, "matchExpressions")
            if not term.match_expressions:
                yield Fault(
                    here,
                    "a term without requirements matches no node",
                    [],
                    "write a requirement on a label, or remove the term",
                )
            for place, requirement in enumerate(term.match_expressions):
                yield from _requirement_faults((*here, place), requirement)


def _requirement_faults(path: Path, one: NodeLabelRequirement) -> Iterator[Fault]:
    key, values = one.key, one.values
    if not LABEL_KEY.fullmatch(key):
        yield Fault((*path, "key"), "no name of a label", key, "write one such as run.ai/type")
    if one.operator in _WITHOUT:
        if values:
            fix = "leave the values out, or write In or NotIn"
            yield Fault((*path, "values"), f"{one.operator} takes no values", values, fix)
    elif one.operator in _COMPARE:
        if len(values) != 1 or not _WHOLE.fullmatch(values[0]):
            fix = 'write one whole number, such as ["80"]'
            yield Fault((*path, "values"), f"{one.operator} compares numbers", values, fix)
    elif not values:
        fix = "list the values of the label"
        yield Fault((*path, "values"), f"{one.operator} needs values", values, fix)
    else:
        for at, value in enumerate(values):
            if not LABEL_VALUE.fullmatch(value):
                fix = "write letters, digits, hyphens, dots and underscores, at most 63"
                yield Fault((*path, "values", at), "no value of a label", value, fix)


# -- amounts in base units, and checks of them -----------------------------------------------------

OWN_NAMES: Final = ("gpu", "cpu", "memory")
PODS: Final = "pods"
OTHER_NAMES: Final = (PODS, "ephemeral-storage")
WEIGHT_NAMES: Final = {"None": 0.0, "Low": 1.0, "Medium": 2.0, "High": 3.0}
MAX_WEIGHT: Final = 1e9
MIN_WEIGHT: Final = 1e-9
_UNIT_OF: Final = {"gpu": "GPUs", "cpu": "millicores", "memory": "megabytes (10^6 bytes)"}


class ResourceShare(NamedTuple):
    """A queue's quota, limit and weight of one resource, in base units; UNLIMITED for no bound."""

    quota: int = 0
    limit: int = UNLIMITED
    weight: float = 1.0


class Lending(NamedTuple):
    """The most that a queue borrows and lends of one resource, in base units."""

    borrowing_limit: int = UNLIMITED
    lending_limit: int = UNLIMITED


def queue_shares(queue: Queue) -> dict[str, ResourceShare]:
    """Return the share by resource: always gpu, cpu and memory, and those that the queue names.

    Raises:
        ObjectError: the first fault of the shares, with its path.

    """
    shares = dict.fromkeys(OWN_NAMES, ResourceShare())
    for name, resource in queue.spec.resources.items():
        fault = next((it for it in _share_faults(name, resource) if not it.is_warning), None)
        if fault is not None:
            raise _error(queue, fault)
        shares[name] = ResourceShare(
            base_units(name, resource.quota),
            base_units(name, resource.limit),
            weight_of(resource),
        )
    return shares


def queue_lending(queue: Queue) -> dict[str, Lending]:
    """Return the limits of borrowing and lending that a queue states, by resource.

    What is wrong with them is found by :func:`queue_shares`.
    """
    return {
        name: Lending(
            base_units(name, resource.borrowing_limit), base_units(name, resource.lending_limit)
        )
        for name, resource in queue.spec.resources.items()
    }


def sharing_weight(queue: Queue) -> Fraction:
    """Return the weight among siblings, exactly; it is 0, or from 1e-9 to 1e9.

    Raises:
        ObjectError: it makes no sense, with its path.

    """
    for fault in _sharing_faults(queue):
        raise _error(queue, fault)
    weight = parse_quantity(_number_of(queue.spec.fair_sharing.weight))
    return Fraction(weight.numerator, weight.denominator)


def weight_of(resource: QueueResource) -> float:
    """Return the over-quota weight as a number; callers have checked its name."""
    weight = resource.over_quota_weight
    return WEIGHT_NAMES[weight] if isinstance(weight, str) else float(weight)


def _number_of(weight: float | str) -> int | float | str:
    """Return a weight among siblings as a number or its text, by its name where it has one."""
    if isinstance(weight, str) and weight in WEIGHT_NAMES:
        return int(WEIGHT_NAMES[weight])
    return weight


def queue_faults(queue: Queue) -> Iterator[Fault]:
    """Yield the faults of a queue on its own."""
    spec = queue.spec
    for name, resource in spec.resources.items():
        yield from name_faults(("spec", "resources", name), name)
        yield from _share_faults(name, resource)
    yield from _sharing_faults(queue)
    yield from _switch_faults(spec)
    yield from threshold_faults(spec.preemption.borrow_within_cohort)
    if abs(spec.priority) > INT32_MAX:
        yield Fault(("spec", "priority"), "out of range", spec.priority, "write at most 2^31 - 1")
    if spec.parent_queue == queue.name:
        yield Fault(
            ("spec", "parentQueue"),
            "the queue is its own parent",
            spec.parent_queue,
            "name another queue, or leave it out for a top-level queue",
        )
    yield from _pool_faults(spec.node_pools)
    yield from affinity_faults(spec.node_affinity)
    yield from _run_time_faults(spec.max_run_time)
    yield from duration_faults(
        {
            ("spec", "preemptMinRuntime"): spec.preempt_min_runtime,
            ("spec", "reclaimMinRuntime"): spec.reclaim_min_runtime,
        }
    )


def _run_time_faults(entries: list[MaxRunTime]) -> Iterator[Fault]:
    for at, entry in enumerate(entries):
        path: Path = ("spec", "maxRunTime", at, "time")
        wrong = list(duration_faults({path: entry.time}))
        yield from wrong
        if not wrong and parse_duration(entry.time) == 0:
            yield Fault(path, "no job could run", entry.time, 'write a duration, such as "24h"')


def _pool_faults(pools: list[str]) -> Iterator[Fault]:
    for at, name in enumerate(pools):
        path: Path = ("spec", "nodePools", at)
        if not name or not LABEL_VALUE.fullmatch(name):
            fix = 'write the label value of its nodes, or "default" for nodes without the label'
            yield Fault(path, "no name of a node pool", name, fix)
        elif name in pools[:at]:
            yield Fault(path, "given twice", name, "keep one of the two")


def _error(queue: Queue, fault: Fault) -> ObjectError:
    return to_error(fault, Source(), queue.KIND, queue.name)


def name_faults(path: Path, name: str) -> Iterator[Fault]:
    """Yield what is wrong with the name of a resource."""
    if name in GPU_RESOURCES:
        yield Fault(path, "GPUs of all vendors are counted together", fix='write "gpu"')
    elif "/" not in name and not name.startswith("hugepages-"):
        known = (*OWN_NAMES, *OTHER_NAMES)
        if name not in known:
            yield Fault(path, f"unknown resource {name[:80]!r}", fix=did_you_mean(name, known))


def _share_faults(name: str, resource: QueueResource) -> Iterator[Fault]:
    path: Path = ("spec", "resources", name)
    amounts = {
        "quota": resource.quota,
        "limit": resource.limit,
        "borrowingLimit": resource.borrowing_limit,
        "lendingLimit": resource.lending_limit,
    }
    wrong = list(amount_faults(path, name, amounts))
    yield from wrong
    if not wrong and base_units(name, resource.limit) < base_units(name, resource.quota):
        quota = "unlimited" if resource.quota == -1 else resource.quota
        yield Fault(
            (*path, "limit"),
            f"below the quota of {quota}, so the rest of the quota can never be used",
            resource.limit,
            "raise the limit, or lower the quota",
            is_warning=True,
        )
    for field, least in (("quota", 1), ("limit", 0)) if name == PODS and not wrong else ():
        if amounts[field] >= least:
            fix = "leave it out, or write a quota by flavor where the policy lends"
            yield Fault(
                (*path, field), "pods are not counted", amounts[field], fix, is_warning=True
            )
    yield from _weight_faults((*path, "overQuotaWeight"), resource.over_quota_weight)


def amount_faults(path: Path, name: str, amounts: Mapping[str, float]) -> Iterator[Fault]:
    """Yield what is wrong with amounts of a resource, by the names of their fields."""
    unit = _UNIT_OF.get("memory" if is_in_bytes(name) else name, "pieces")
    for field, amount in amounts.items():
        wrong = _amount_fault(name, amount)
        if wrong:
            fix = f"write -1 for unlimited, or a number of {unit}"
            yield Fault((*path, field), wrong, amount, fix)


def _sharing_faults(queue: Queue) -> Iterator[Fault]:
    weight = queue.spec.fair_sharing.weight
    path: Path = ("spec", "fairSharing", "weight")
    fix = f'write a number of at least 0, as 2 or "0.5", or one of {", ".join(WEIGHT_NAMES)}'
    yield from sibling_weight_faults(path, _number_of(weight), fix)


def sibling_weight_faults(path: Path, weight: Amount, fix: str = "") -> Iterator[Fault]:
    """Yield what is wrong with a weight among siblings: no quantity, or out of range."""
    try:
        parsed = parse_quantity(weight)
    except UnitError as error:
        yield Fault(path, str(error), weight, fix or error.fix)
        return
    value = Fraction(parsed.numerator, parsed.denominator)
    if value > MAX_WEIGHT or 0 < value < Fraction(MIN_WEIGHT).limit_denominator(10**9):
        yield Fault(path, "out of range", weight, "write 0, or a number from 1e-9 to 1e9")


def _switch_faults(spec: QueueSpec) -> Iterator[Fault]:
    if spec.parent_queue and not spec.fair_sharing.enabled:
        path, fix = ("spec", "fairSharing", "enabled"), "write it in the queue at the top"
        message = "has no effect below a top-level queue"
        yield Fault(path, message, spec.fair_sharing.enabled, fix, is_warning=True)


def threshold_faults(borrow: BorrowWithinCohort) -> Iterator[Fault]:
    """Yield the fault of a threshold that no priority has."""
    most = borrow.max_priority_threshold
    if most is not None and abs(most) > INT32_MAX:
        path: Path = ("spec", "preemption", "borrowWithinCohort", "maxPriorityThreshold")
        yield Fault(path, "out of range", most, "write at most 2^31 - 1, the largest priority")


def _amount_fault(name: str, amount: float) -> str:
    if amount == -1:
        return ""
    if not math.isfinite(amount):
        return "not a finite number"
    if amount < 0:
        return "negative; only -1 has a meaning"
    return "more than any cluster has" if base_units(name, amount) >= MAX_QUOTA else ""


def _weight_faults(path: Path, weight: float | str) -> Iterator[Fault]:
    fix = f"write a number of at least 0, or one of {', '.join(WEIGHT_NAMES)}"
    if isinstance(weight, str):
        if weight not in WEIGHT_NAMES:
            near = did_you_mean(weight, tuple(WEIGHT_NAMES))
            yield Fault(path, "unknown weight", weight, near if near.endswith("?") else fix)
    elif not math.isfinite(weight):
        yield Fault(path, "not a finite number", weight, fix)
    elif weight < 0:
        yield Fault(path, "negative", weight, fix)
    elif weight > MAX_WEIGHT or 0 < weight < MIN_WEIGHT:
        yield Fault(path, "out of range", weight, "write 0, or a number from 1e-9 to 1e9")


def base_units(name: str, amount: float) -> int:
    """Return an amount of a resource in base units; UNLIMITED for -1."""
    if amount == -1:
        return UNLIMITED
    factor = 1  # millicores and pieces are base units already
    if name == "gpu":
        factor = 1000
    elif is_in_bytes(name):
        factor = MEGABYTE
    return parse_quantity(amount).times(factor, 1, round_up=False, most=MAX_QUOTA)


# -- checks of quotas by flavor --------------------------------------------------------------------


def all_queue_faults(queue: Queue) -> Iterator[Fault]:
    """Yield the faults of a queue on its own, those of its flavors included."""
    yield from queue_faults(queue)
    yield from flavor_faults(queue)


def flavor_faults(queue: Queue) -> Iterator[Fault]:
    """Yield the faults of a queue's flavors."""
    seen: set[str] = set()
    for number, flavor in enumerate(queue.spec.flavors):
        path: Path = ("spec", "flavors", number)
        if not flavor.name:
            yield Fault((*path, "name"), "empty", fix="name the flavor")
        if flavor.name in seen:
            yield Fault((*path, "name"), "a flavor is given twice", flavor.name, "drop one of them")
        seen.add(flavor.name)
        if not flavor.resources:
            fix = "write the quota of at least one resource"
            yield Fault((*path, "resources"), "empty", fix=fix)
        for name, resource in flavor.resources.items():
            where = (*path, "resources", name)
            yield from name_faults(where, name)
            amounts = {
                "quota": resource.quota,
                "borrowingLimit": resource.borrowing_limit,
                "lendingLimit": resource.lending_limit,
            }
            yield from amount_faults(where, name, amounts)
            plain = queue.spec.resources.get(name)
            if plain is not None and plain.quota != 0 and name != PODS:
                yield Fault(
                    ("spec", "resources", name, "quota"),
                    "not counted beside quotas by flavor",
                    plain.quota,
                    "leave it out; the quotas in flavors are added up",
                    is_warning=True,
                )
