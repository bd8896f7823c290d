"""What drivers offer to claims: ResourceSlices and DeviceClasses."""

# ruff: noqa: RUF012 - msgspec gives every struct its own copy of an empty list or dict

from __future__ import annotations

from typing import Any, ClassVar, Final

import msgspec

from kaisched.objects.pod import NodeSelector
from kaisched.objects.wire import Amount, Amounts, KubernetesObject, Wire

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

    API_VERSION: ClassVar[str] = RESOURCE_API
    OTHER_VERSIONS: ClassVar[tuple[str, ...]] = (RESOURCE_API_BEFORE,)
    KIND: ClassVar[str] = "ResourceSlice"
    IS_NAMESPACED: ClassVar[bool] = False

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

    API_VERSION: ClassVar[str] = RESOURCE_API
    OTHER_VERSIONS: ClassVar[tuple[str, ...]] = (RESOURCE_API_BEFORE,)
    KIND: ClassVar[str] = "DeviceClass"
    IS_NAMESPACED: ClassVar[bool] = False

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

    API_VERSION: ClassVar[str] = RESOURCE_API
    OTHER_VERSIONS: ClassVar[tuple[str, ...]] = (
        RESOURCE_API_BEFORE,
        "resource.k8s.io/v1alpha3",
    )
    KIND: ClassVar[str] = "DeviceTaintRule"
    IS_NAMESPACED: ClassVar[bool] = False

    spec: DeviceTaintRuleSpec = DeviceTaintRuleSpec()
