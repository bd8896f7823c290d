"""The kinds of objects that are about claims on devices."""

from __future__ import annotations

from typing import Final, TypeAlias

from kaisched.objects.resource_claims import ResourceClaim, ResourceClaimTemplate
from kaisched.objects.resource_slices import DeviceClass, DeviceTaintRule, ResourceSlice

OfferedObject: TypeAlias = ResourceSlice | DeviceClass | DeviceTaintRule
ClaimObject: TypeAlias = OfferedObject | ResourceClaim | ResourceClaimTemplate
DEVICE_OBJECTS: Final = (
    ResourceSlice,
    DeviceClass,
    DeviceTaintRule,
    ResourceClaim,
    ResourceClaimTemplate,
)
"""Templates matter to whoever makes claims of them."""
