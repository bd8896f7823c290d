"""Faults of slices, claims and their templates: amounts and numbers that an API server refuses."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from kaisched.objects.faults import Fault, Path, unit_faults
from kaisched.objects.resource_claims import (
    ResourceClaim,
    ResourceClaimSpec,
    ResourceClaimTemplate,
)
from kaisched.objects.resource_slices import Counter, RequestPolicy, ResourceSlice
from kaisched.units import Quantity, UnitError, parse_quantity


def slice_faults(one: ResourceSlice) -> Iterator[Fault]:
    """Yield what is wrong with the amounts of a slice."""
    for at, device in enumerate(one.spec.devices):
        path: Path = ("spec", "devices", at)
        for name, capacity in device.capacity.items():
            yield from _amount_faults((*path, "capacity", name, "value"), capacity.value)
            if capacity.request_policy is not None:
                where = (*path, "capacity", name, "requestPolicy")
                yield from _policy_faults(where, capacity.request_policy)
        for number, consumed in enumerate(device.consumes_counters):
            where = (*path, "consumesCounters", number, "counters")
            yield from _counter_faults(where, consumed.counters)
    for at, counters in enumerate(one.spec.shared_counters):
        where = ("spec", "sharedCounters", at, "counters")
        yield from _counter_faults(where, counters.counters)


def claim_faults(claim: ResourceClaim) -> Iterator[Fault]:
    """Yield what is wrong with the numbers of a claim, and with the amounts that it has."""
    yield from _request_faults(("spec",), claim.spec)
    allocation = claim.status.allocation
    for at, result in enumerate(() if allocation is None else allocation.devices.results):
        path: Path = ("status", "allocation", "devices", "results", at, "consumedCapacity")
        for name, amount in result.consumed_capacity.items():
            yield from _amount_faults((*path, name), amount)


def template_faults(template: ResourceClaimTemplate) -> Iterator[Fault]:
    """Yield what is wrong with the numbers of a template of claims."""
    yield from _request_faults(("spec", "spec"), template.spec.spec)


def _request_faults(path: Path, spec: ResourceClaimSpec) -> Iterator[Fault]:
    for at, request in enumerate(spec.devices.requests):
        where: Path = (*path, "devices", "requests", at)
        options = [((*where, "exactly"), request.exactly)] if request.exactly is not None else []
        for number, one in enumerate(request.first_available):
            options.append(((*where, "firstAvailable", number), one))
        for option, ask in options:
            if ask.count < 0:
                fix = "write how many devices, 1 or more"
                yield Fault((*option, "count"), "less than 1", ask.count, fix)
            for name, amount in ask.capacity.requests.items():
                yield from _amount_faults((*option, "capacity", "requests", name), amount)


def _policy_faults(path: Path, policy: RequestPolicy) -> Iterator[Fault]:
    if policy.default is not None:
        yield from _amount_faults((*path, "default"), policy.default)
    for at, amount in enumerate(policy.valid_values):
        yield from _amount_faults((*path, "validValues", at), amount)
    bounds = policy.valid_range
    if bounds is None:
        return
    for name, end in (("min", bounds.min), ("max", bounds.max)):
        if end is not None:
            yield from _amount_faults((*path, "validRange", name), end)
    if bounds.step is not None:
        where = (*path, "validRange", "step")
        yield from unit_faults(where, bounds.step, _positive)


def _counter_faults(path: Path, counters: dict[str, Counter]) -> Iterator[Fault]:
    for name, counter in counters.items():
        yield from _amount_faults((*path, name, "value"), counter.value)


def _amount_faults(path: Path, amount: object) -> Iterator[Fault]:
    return unit_faults(path, amount, _quantity)


def _quantity(amount: Any) -> Quantity:
    return parse_quantity(amount)


def _positive(amount: object) -> None:
    if not _quantity(amount).numerator:
        raise UnitError("a step of 0", "write an amount above 0, or leave it out")
