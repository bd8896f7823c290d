"""What an expression sees of a device: devices that look the same get the same answer."""

from __future__ import annotations

from typing import Any, TypeAlias

from kaisched.core.claims.model import Device

Named: TypeAlias = tuple[tuple[str, str], ...] | None
"""The fields that an expression names, as (``attributes`` or ``capacity``, name); None for all."""


def profile_of(device: Device, named: Named) -> tuple[Any, ...]:
    """Return what an expression sees of a device; all of it if it does not name what it needs."""
    start = device.driver, device.is_shared
    if named is None:
        capacities = ((name, it.value.nanos) for name, it in device.capacities.items())
        return (*start, tuple(sorted(device.attributes.items())), tuple(sorted(capacities)))
    return (*start, *(_field(device, kind, name) for kind, name in named))


def _field(device: Device, kind: str, name: str) -> Any:
    if kind == "attributes":
        return device.attribute(name)
    found = device.capacities.get(name)
    if found is None:
        domain, _, rest = name.partition("/")
        found = device.capacities.get(rest) if domain == device.driver else None
    return None if found is None else found.value.nanos
