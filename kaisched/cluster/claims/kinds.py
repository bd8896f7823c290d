"""The kinds of objects that are about claims on devices."""

from __future__ import annotations

from typing import Final, TypeAlias

from kaisched.objects.devices import (
    DeviceClass,
    DeviceTaintRule,
    ResourceClaim,
    ResourceClaimTemplate,
    ResourceSlice,
)

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
