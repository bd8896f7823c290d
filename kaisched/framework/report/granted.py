"""Names of the devices that claims get in a cycle."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kaisched.core.claims.model import Identity
    from kaisched.framework.report.records import CycleResult
    from kaisched.framework.session.devices import Devices


def device_name(identity: Identity) -> str:
    """Return a device as Kubernetes writes it: ``driver/pool/device``."""
    return "/".join(identity)


def granted_to(devices: Devices, task: int) -> tuple[str, ...]:
    """Return the devices that the claims of a task get with it."""
    return tuple(
        device_name(it.device.identity)
        for grant in devices.granted.get(task, ())
        for it in grant.allocation.results
    )


def devices_for(result: CycleResult, task: int) -> tuple[str, ...]:
    """Return the devices that a bind or a promise names; nothing where no pod has claims."""
    devices = result.records.session.devices
    return () if devices is None else granted_to(devices, task)
