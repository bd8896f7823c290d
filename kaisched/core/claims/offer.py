"""What there is for claims, cluster-wide, found by node."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import prod
from typing import Any, Final

from kaisched.core.claims.model import Ask, Device, Identity, Named, Place, Site, Slice, profile_of
from kaisched.core.claims.selectors import CelSelector, DeviceClass
from kaisched.core.constraints import NodeTerm, Requirement

# -- pools of a node -------------------------------------------------------------------------------
# Of each pool only the newest generation counts. A pool whose slices are not all there yet gives
# no devices, nor does one that contradicts itself.


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


def _node_of(one: Slice, device: Device) -> str:
    place = one.place or device.place
    return "" if place is None else place.node


# -- the offer -------------------------------------------------------------------------------------

_Key = tuple[str, str]
"""Driver and name of a pool."""
_SORTS: Final = ("", "")
"""Stands for the driver of a device, and whether claims share it: expressions may ask for both."""


class Offer:
    """Slices and classes of a cluster; a change of either makes a new one."""

    def __init__(self, slices: Iterable[Slice], classes: Mapping[str, DeviceClass]) -> None:
        """List the slices by pool, and the pools by node."""
        self.classes = classes
        self._slices: dict[_Key, list[Slice]] = {}
        self._at: dict[str, set[_Key]] = {}
        self._anywhere: set[_Key] = set()
        self._pools: dict[str, tuple[Mapping[str, str], list[Pool]]] = {}
        self._remembered: dict[tuple[str, int], tuple[Ask, dict[Any, Any]]] = {}
        self._identities: dict[str, tuple[Identity, ...]] = {}
        self._looks: dict[Named, dict[str, int]] = {}
        self._number_of_look: dict[tuple[Any, ...], int] = {}
        self._nodes_of_pool: dict[_Key, set[str]] = {}
        self._with_counters: set[_Key] = set()
        self._unsound: frozenset[_Key] | None = None
        for one in slices:
            key = one.driver, one.pool
            self._slices.setdefault(key, []).append(one)
            if one.counters:
                self._with_counters.add(key)
            if one.devices and (one.place is None or not one.place.node):
                self._anywhere.add(key)
            elif one.devices and one.place is not None:
                self._at.setdefault(one.place.node, set()).add(key)
                self._nodes_of_pool.setdefault(key, set()).add(one.place.node)
        self.is_local = not self._anywhere and all(
            len(self._nodes_of_pool.get(key, ())) <= 1 for key in self._with_counters
        )
        """Whether what is taken on one node changes nothing on any other."""

    def remembered(self, what: str, ask: Ask) -> dict[Any, Any]:
        """Return what is known of the devices that do for a request, to be added to.

        Args:
            what: is known: devices by ``node``, their places by the ``look`` of a node, or devices
                that give ``parts`` by node.
            ask: the request; it is kept, so that no other has its identity.

        """
        return self._remembered.setdefault((what, id(ask)), (ask, {}))[1]

    def identities(self, site: Site) -> tuple[Identity, ...]:
        """Return the devices of a node, in the order in which they are tried."""
        known = self._identities.get(site.name)
        if known is None:
            pools = self.pools(site)
            known = tuple(device.identity for pool in pools for _, device in pool.devices)
            self._identities[site.name] = known
        return known

    def look(self, site: Site, named: Named) -> int:
        """Return a number that nodes share whose devices differ in nothing that is named.

        What else decides whether a device is one to be counted is part of it.
        """
        known = self._looks.setdefault(named, {})
        number = known.get(site.name)
        if number is None:
            look = tuple(
                (
                    profile_of(device, named),
                    bool(device.counters),
                    one.place is None,
                    device.taints,
                )
                for pool in self.pools(site)
                for one, device in pool.devices
            )
            number = self._number_of_look.setdefault((named, look), len(self._number_of_look))
            known[site.name] = number
        return number

    @cached_property
    def _values(self) -> tuple[int, dict[tuple[str, str], int]]:
        """How many devices there are, and how many values each of their fields has."""
        values: dict[tuple[str, str], set[Any]] = {}
        devices = [it for each in self._slices.values() for one in each for it in one.devices]
        for device in devices:
            for name, value in device.attributes.items():
                full = name if "/" in name else f"{device.driver}/{name}"
                values.setdefault(("attributes", full), set()).add(value)
            for name, capacity in device.capacities.items():
                full = name if "/" in name else f"{device.driver}/{name}"
                values.setdefault(("capacity", full), set()).add(capacity.value.nanos)
        sorts = len({(it.driver, it.is_shared) for it in devices})
        return len(devices), {**{key: len(it) + 1 for key, it in values.items()}, _SORTS: sorts}

    def evaluations(self, selectors: Iterable[CelSelector]) -> int:
        """Return as how many plain evaluations it counts, at most, to ask about all devices.

        Devices that differ in nothing that is named are asked about once. What is known from
        earlier cycles counts too, so that the same cycle is always the same.
        """
        devices, values = self._values
        total = 0
        for each in selectors:
            kinds = devices
            if each.named is not None:
                kinds = min(
                    devices, prod([values[_SORTS], *(values.get(it, 1) for it in each.named)])
                )
            total += kinds * each.weight
        return total

    def nodes_of(self, devices: Iterable[Identity]) -> set[str]:
        """Return the nodes whose pools have some of these devices, of pools that are local."""
        pools = {(driver, pool) for driver, pool, _ in devices}
        return {node for key in pools for node in self._nodes_of_pool.get(key, ())}

    @property
    def slices(self) -> Mapping[_Key, Sequence[Slice]]:
        """All slices, by driver and name of their pool."""
        return self._slices

    def with_nodes_like(self, like: str, names: Sequence[str]) -> Offer:
        """Return the offer with more nodes that have such devices as one, in pools of their own."""
        more: list[Slice] = []
        for known in self._slices.values():
            newest = max(it.generation for it in known)
            slices = [it for it in known if it.generation == newest]
            own = [
                (it, [each for each in it.devices if _node_of(it, each) == like]) for it in slices
            ]
            if not any(devices for _, devices in own):
                continue
            own = [(it, devices) for it, devices in own if devices or not it.devices]
            for name in names:
                pool, place = f"{own[0][0].pool}+{name}", Place(name)
                for it, devices in own:
                    named = tuple(replace(each, pool=pool, place=None) for each in devices)
                    whole = it.slices - len(slices) + len(own)
                    more.append(replace(it, pool=pool, place=place, devices=named, slices=whole))
        if not more:
            return self
        return Offer([*(it for each in self._slices.values() for it in each), *more], self.classes)

    def has_counters(self, driver: str, pool: str) -> bool:
        """Tell whether devices of a pool take from counters."""
        return (driver, pool) in self._with_counters

    def pools(self, site: Site) -> list[Pool]:
        """Return the pools of a node, in the order in which their devices are tried."""
        known = self._pools.get(site.name)
        if known is not None and known[0] is site.labels:
            return known[1]
        keys = self._at.get(site.name, set()) | self._anywhere | self._unsound_pools()
        pools = pools_of((it for key in sorted(keys) for it in self._slices[key]), site)
        self._pools[site.name] = site.labels, pools
        return pools

    def _unsound_pools(self) -> frozenset[_Key]:
        """Return the pools with counters that are not all there yet, or contradict themselves.

        They matter to all nodes: what is still to come of them can be for any.
        """
        if self._unsound is None:
            nowhere = Site("", {})
            self._unsound = frozenset(
                (pool.driver, pool.name)
                for key in self._with_counters
                for pool in pools_of(self._slices[key], nowhere)
                if pool.fault
            )
        return self._unsound
