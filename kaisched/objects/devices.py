"""Devices of drivers, and claims on them, as far as objects of ``resource.k8s.io`` are read."""

# ruff: noqa: RUF012 - msgspec gives every struct its own copy of an empty list or dict

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import msgspec

from kaisched.objects.faults import Fault, Path, unit_faults
from kaisched.objects.pod import NodeSelector
from kaisched.objects.wire import Amount, Amounts, KubernetesObject, ObjectMeta, Wire
from kaisched.units import Quantity, UnitError, parse_quantity

RESOURCE_API: Final = "resource.k8s.io/v1"
RESOURCE_API_BEFORE: Final = "resource.k8s.io/v1beta2"
"""The version before, which has the same form."""


class DeviceAttribute(Wire, frozen=True, kw_only=True):
    """One value, in the field of its kind; none of them for a kind of a later version."""

    int_value: int | None = msgspec.field(default=None, name="int")
    bool_value: bool | None = msgspec.field(default=None, name="bool")
    string_value: str | None = msgspec.field(default=None, name="string")
    version_value: str | None = msgspec.field(default=None, name="version")


class RequestRange(Wire, frozen=True, kw_only=True):
    """Amounts from ``min`` to ``max``, in steps."""

    min: Amount | None = None
    max: Amount | None = None
    step: Amount | None = None


class RequestPolicy(Wire, frozen=True, kw_only=True):
    """Which amounts can be asked for."""

    default: Amount | None = None
    valid_values: list[Amount] = []
    valid_range: RequestRange | None = None


class DeviceCapacity(Wire, frozen=True, kw_only=True):
    """How much of something a device has."""

    value: Amount = 0
    request_policy: RequestPolicy | None = None


class Counter(Wire, frozen=True, kw_only=True):
    """An amount of a counter."""

    value: Amount = 0


class CounterSet(Wire, frozen=True, kw_only=True):
    """Counters that devices of a pool share."""

    name: str = ""
    counters: dict[str, Counter] = {}


class CounterConsumption(Wire, frozen=True, kw_only=True):
    """What a device takes of a set of counters."""

    counter_set: str = ""
    counters: dict[str, Counter] = {}


class DeviceTaint(Wire, frozen=True, kw_only=True):
    """Keeps claims without a matching toleration away from a device."""

    key: str = ""
    value: str = ""
    effect: str = ""


class Device(Wire, frozen=True, kw_only=True):
    """A device, or a part of one."""

    name: str = ""
    attributes: dict[str, DeviceAttribute] = {}
    capacity: dict[str, DeviceCapacity] = {}
    consumes_counters: list[CounterConsumption] = []
    node_name: str = ""
    node_selector: NodeSelector | None = None
    all_nodes: bool = False
    taints: list[DeviceTaint] = []
    binds_to_node: bool = False
    binding_conditions: list[str] = []
    binding_failure_conditions: list[str] = []
    allow_multiple_allocations: bool = False


class ResourcePool(Wire, frozen=True, kw_only=True):
    """The pool that a slice is a part of."""

    name: str = ""
    generation: int = 0
    resource_slice_count: int = 1


class ResourceSliceSpec(Wire, frozen=True, kw_only=True):
    """Contents of a slice."""

    driver: str = ""
    pool: ResourcePool = ResourcePool()
    node_name: str = ""
    node_selector: NodeSelector | None = None
    all_nodes: bool = False
    per_device_node_selection: bool = False
    devices: list[Device] = []
    shared_counters: list[CounterSet] = []


class ResourceSlice(KubernetesObject, frozen=True, kw_only=True):
    """Devices that a driver has published together."""

    API_VERSION = RESOURCE_API
    OTHER_VERSIONS = (RESOURCE_API_BEFORE,)
    KIND = "ResourceSlice"
    IS_NAMESPACED = False

    spec: ResourceSliceSpec = ResourceSliceSpec()


class CelSelector(Wire, frozen=True, kw_only=True):
    """An expression that is true for the devices wanted."""

    expression: str = ""


class DeviceSelector(Wire, frozen=True, kw_only=True):
    """Selects devices."""

    cel: CelSelector | None = None


class OpaqueConfig(Wire, frozen=True, kw_only=True):
    """Settings that only the driver understands."""

    driver: str = ""
    parameters: Any = None


class DeviceConfig(Wire, frozen=True, kw_only=True):
    """Settings of the devices of a class."""

    opaque: OpaqueConfig | None = None


class DeviceClassSpec(Wire, frozen=True, kw_only=True):
    """Which devices are in a class, and their settings."""

    selectors: list[DeviceSelector] = []
    config: list[DeviceConfig] = []
    extended_resource_name: str = ""


class DeviceClass(KubernetesObject, frozen=True, kw_only=True):
    """Devices of one sort, which claims ask for by its name."""

    API_VERSION = RESOURCE_API
    OTHER_VERSIONS = (RESOURCE_API_BEFORE,)
    KIND = "DeviceClass"
    IS_NAMESPACED = False

    spec: DeviceClassSpec = DeviceClassSpec()


class CapacityRequirements(Wire, frozen=True, kw_only=True):
    """Least amounts of capacities."""

    requests: Amounts = {}


class DeviceTaintSelector(Wire, frozen=True, kw_only=True):
    """Which devices a rule taints: those that are as each field says that is set."""

    driver: str = ""
    pool: str = ""
    device: str = ""


class DeviceTaintRuleSpec(Wire, frozen=True, kw_only=True):
    """A taint, and the devices that have it; without a selector none has."""

    device_selector: DeviceTaintSelector | None = None
    taint: DeviceTaint = DeviceTaint()


class DeviceTaintRule(KubernetesObject, frozen=True, kw_only=True):
    """Taints devices beside what their driver says of them."""

    API_VERSION = RESOURCE_API
    OTHER_VERSIONS = (
        RESOURCE_API_BEFORE,
        "resource.k8s.io/v1alpha3",
    )
    KIND = "DeviceTaintRule"
    IS_NAMESPACED = False

    spec: DeviceTaintRuleSpec = DeviceTaintRuleSpec()


# -- claims ----------------------------------------------------------------------------------------

ALL_DEVICES: Final = "All"


class DeviceToleration(Wire, frozen=True, kw_only=True):
    """A taint of devices that a request tolerates."""

    key: str = ""
    operator: str = "Equal"
    value: str = ""
    effect: str = ""
    toleration_seconds: int | None = None


class ExactRequest(Wire, frozen=True, kw_only=True):
    """A request for devices of a class."""

    device_class_name: str = ""
    selectors: list[DeviceSelector] = []
    allocation_mode: str = "ExactCount"
    count: int = 0
    admin_access: bool = False
    tolerations: list[DeviceToleration] = []
    capacity: CapacityRequirements = CapacityRequirements()


class SubRequest(ExactRequest, frozen=True, kw_only=True):
    """One alternative of a request."""

    name: str = ""


class DeviceRequest(Wire, frozen=True, kw_only=True):
    """A request, or alternatives of which the first that can be had is taken."""

    name: str = ""
    exactly: ExactRequest | None = None
    first_available: list[SubRequest] = []


class DeviceConstraint(Wire, frozen=True, kw_only=True):
    """An attribute that devices have in common, or in which they all differ."""

    requests: list[str] = []
    match_attribute: str = ""
    distinct_attribute: str = ""


class ClaimConfig(Wire, frozen=True, kw_only=True):
    """Settings for the driver."""

    requests: list[str] = []
    opaque: OpaqueConfig | None = None


class DeviceClaim(Wire, frozen=True, kw_only=True):
    """What a claim asks for."""

    requests: list[DeviceRequest] = []
    constraints: list[DeviceConstraint] = []
    config: list[ClaimConfig] = []


class ResourceClaimSpec(Wire, frozen=True, kw_only=True):
    """Contents of a claim; they never change."""

    devices: DeviceClaim = DeviceClaim()


class DeviceResult(Wire, frozen=True, kw_only=True):
    """A device that was allocated."""

    request: str = ""
    driver: str = ""
    pool: str = ""
    device: str = ""
    admin_access: bool | None = None
    tolerations: list[DeviceToleration] = []
    binding_conditions: list[str] = []
    binding_failure_conditions: list[str] = []
    share_id: str = msgspec.field(default="", name="shareID")
    consumed_capacity: Amounts = {}


class AllocatedConfig(Wire, frozen=True, kw_only=True):
    """Settings that were in force when the devices were allocated."""

    source: str = ""
    requests: list[str] = []
    opaque: OpaqueConfig | None = None


class AllocatedDevices(Wire, frozen=True, kw_only=True):
    """Devices and settings."""

    results: list[DeviceResult] = []
    config: list[AllocatedConfig] = []


class ClaimAllocation(Wire, frozen=True, kw_only=True):
    """What a claim was given, and the nodes where it can be used."""

    devices: AllocatedDevices = AllocatedDevices()
    node_selector: NodeSelector | None = None
    allocation_timestamp: str = ""


class Consumer(Wire, frozen=True, kw_only=True):
    """Who may use a claim."""

    api_group: str = ""
    resource: str = ""
    name: str = ""
    uid: str = ""


class ResourceClaimStatus(Wire, frozen=True, kw_only=True):
    """State of a claim."""

    allocation: ClaimAllocation | None = None
    reserved_for: list[Consumer] = []


class ResourceClaim(KubernetesObject, frozen=True, kw_only=True):
    """A claim on devices, of one pod or of several."""

    API_VERSION = RESOURCE_API
    OTHER_VERSIONS = (RESOURCE_API_BEFORE,)
    KIND = "ResourceClaim"

    spec: ResourceClaimSpec = ResourceClaimSpec()
    status: ResourceClaimStatus = ResourceClaimStatus()


class ClaimTemplateSpec(Wire, frozen=True, kw_only=True):
    """The claims to make; what is here of metadata is copied."""

    spec: ResourceClaimSpec = ResourceClaimSpec()


class ResourceClaimTemplate(KubernetesObject, frozen=True, kw_only=True):
    """From this a controller makes a claim for each pod that names it."""

    API_VERSION = RESOURCE_API
    OTHER_VERSIONS = (RESOURCE_API_BEFORE,)
    KIND = "ResourceClaimTemplate"

    metadata: ObjectMeta
    spec: ClaimTemplateSpec = ClaimTemplateSpec()


# -- checks ----------------------------------------------------------------------------------------


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
