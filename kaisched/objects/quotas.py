"""A queue's quota, limit and weight in base units, and checks of them.

Texts such as "64Gi" are refused: KAI's Queue holds plain numbers, and so do ours.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from fractions import Fraction
from typing import Final, NamedTuple

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
from kaisched.objects.labels import LABEL_VALUE
from kaisched.objects.queue import (
    BorrowWithinCohort,
    MaxRunTime,
    Queue,
    QueueResource,
    QueueSpec,
)
from kaisched.objects.queue_affinity import affinity_faults
from kaisched.objects.shard import GPU_RESOURCES
from kaisched.units import (
    MAX_QUOTA,
    MEGABYTE,
    UNLIMITED,
    UnitError,
    is_in_bytes,
    parse_duration,
    parse_quantity,
)

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
    try:
        parsed = parse_quantity(_number_of(weight))
    except UnitError as error:
        yield Fault(path, str(error), weight, fix)
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
