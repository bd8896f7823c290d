"""Gathers the pools of devices that can be used from a node, in the order in which they are tried.

Of each pool only the newest generation counts. A pool whose slices are not all there yet gives no
devices, nor does one that contradicts itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from kaisched.core.claims.model import Device, Place, Site, Slice
from kaisched.core.constraints import NodeTerm, Requirement


@dataclass(slots=True)
class Pool:
    """The devices of a pool that can be used from one node."""

    driver: str
    name: str
    devices: list[tuple[Slice, Device]] = field(default_factory=list)
    """In order; a device that itself says where it can be used may be meant for another node."""
    others: list[Device] = field(default_factory=list)
    """Devices for other nodes, which take from the same counters."""
    counters: dict[tuple[str, str], int] = field(default_factory=dict)
    """By set and counter."""
    fault: str = ""
    """Why no device of it can be had; empty for a sound pool."""


def pools_of(slices: Iterable[Slice], site: Site) -> list[Pool]:
    """Return the pools of a node, in order."""
    by_pool: dict[tuple[str, str], list[Slice]] = {}
    for one in slices:
        by_pool.setdefault((one.driver, one.pool), []).append(one)
    found = []
    for (driver, name), listed in sorted(by_pool.items()):
        newest = max(one.generation for one in listed)
        current = sorted((it for it in listed if it.generation == newest), key=lambda it: it.name)
        here = [it for it in current if is_for(it, site)]
        if here:
            found.append(_pool(driver, name, current, here))
    # Devices that are still to be prepared come last: others can be used at once.
    return sorted(found, key=lambda it: any(device.conditions for _, device in it.devices))


def is_for(one: Slice, site: Site) -> bool:
    """Tell whether a slice matters to a node; counters do so for all nodes of a pool."""
    if one.counter_sets:
        return True
    if one.place is not None:
        return matches(one.place, site)
    return any(it.place is not None and matches(it.place, site) for it in one.devices)


def matches(place: Place, site: Site) -> bool:
    """Tell whether devices at a place can be used from a node."""
    if place.node:
        return place.node == site.name
    return place.is_everywhere or (place.term is not None and _holds(place.term, site))


def _holds(term: NodeTerm, site: Site) -> bool:
    expressions, fields = term
    if not expressions and not fields:
        return False
    name = {"metadata.name": site.name}
    return all(_meets(it, site.labels.get(it.key)) for it in expressions) and all(
        _meets(it, name.get(it.key)) for it in fields
    )


def _meets(one: Requirement, value: str | None) -> bool:
    if one.operator in ("In", "NotIn"):
        return (value in one.values) is (one.operator == "In")
    if one.operator in ("Exists", "DoesNotExist"):
        return (value is not None) is (one.operator == "Exists")
    return one.operator in ("Gt", "Lt") and _compares(value, one)


def _compares(value: str | None, one: Requirement) -> bool:
    try:
        left, right = int(value or ""), int(one.values[0] if one.values else "")
    except ValueError:
        return False
    return left > right if one.operator == "Gt" else left < right


def _pool(driver: str, name: str, current: Sequence[Slice], here: Sequence[Slice]) -> Pool:
    pool = Pool(driver, name)
    lacking = here[0].slices - len(current)
    if lacking:
        pool.fault = f"pool {name} of {driver} is being updated: {len(current)} slices are there, "
        pool.fault += f"of {here[0].slices}"
        return pool
    pool.devices = [(it, device) for it in here for device in it.devices]
    at = {it.name for it in here}
    pool.others = [device for it in current if it.name not in at for device in it.devices]
    pool.fault = _contradiction(pool, here)
    if pool.fault:
        pool.devices = []
    return pool


def _contradiction(pool: Pool, here: Sequence[Slice]) -> str:
    """Fill in the counters of a pool; return what is wrong with it, or an empty text."""
    which = f"pool {pool.name} of {pool.driver}"
    names: set[str] = set()
    for _, device in pool.devices:
        if device.name in names:
            return f"{which} has two devices {device.name}"
        names.add(device.name)
    sets: set[str] = set()
    for one in here:
        for name in one.counter_sets:
            if name in sets:
                return f"{which} has two sets of counters {name}"
            sets.add(name)
        pool.counters.update({(of, name): nanos for of, name, nanos in one.counters})
    for device in (*(it for _, it in pool.devices), *pool.others):
        for of, name, _ in device.counters:
            if (of, name) not in pool.counters:
                return f"device {device.name} of {which} takes {of}/{name}, which is no counter"
    return ""
