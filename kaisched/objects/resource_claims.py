"""Claims on devices: ResourceClaims with what was allocated to them, and their templates."""

# ruff: noqa: RUF012 - msgspec gives every struct its own copy of an empty list or dict

from __future__ import annotations

from typing import ClassVar, Final

import msgspec

from kaisched.objects.pod import NodeSelector
from kaisched.objects.resource_slices import (
    RESOURCE_API,
    RESOURCE_API_BEFORE,
    CapacityRequirements,
    DeviceSelector,
    OpaqueConfig,
)
from kaisched.objects.wire import Amounts, KubernetesObject, ObjectMeta, Wire

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

    API_VERSION: ClassVar[str] = RESOURCE_API
    OTHER_VERSIONS: ClassVar[tuple[str, ...]] = (RESOURCE_API_BEFORE,)
    KIND: ClassVar[str] = "ResourceClaim"

    spec: ResourceClaimSpec = ResourceClaimSpec()
    status: ResourceClaimStatus = ResourceClaimStatus()


class ClaimTemplateSpec(Wire, frozen=True, kw_only=True):
    """The claims to make; what is here of metadata is copied."""

    spec: ResourceClaimSpec = ResourceClaimSpec()


class ResourceClaimTemplate(KubernetesObject, frozen=True, kw_only=True):
    """From this a controller makes a claim for each pod that names it."""

    API_VERSION: ClassVar[str] = RESOURCE_API
    OTHER_VERSIONS: ClassVar[tuple[str, ...]] = (RESOURCE_API_BEFORE,)
    KIND: ClassVar[str] = "ResourceClaimTemplate"

    metadata: ObjectMeta
    spec: ClaimTemplateSpec = ClaimTemplateSpec()
