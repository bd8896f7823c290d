"""Figures of claims on devices, by device class: what nodes have, what claims have, who waits."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from prometheus_client.core import GaugeMetricFamily, Metric

from kaisched.core.claims.model import Place, Site, is_in
from kaisched.core.claims.pools import matches

if TYPE_CHECKING:
    from kaisched.core.claims.model import DeviceClass, Slice
    from kaisched.core.claims.offer import Offer
    from kaisched.core.claims.table import Held
    from kaisched.core.tables import NodeTable
    from kaisched.objects.devices import ResourceClaim

CLASS_CAP: Final = 200
"""So many device classes have series of their own."""
OTHER: Final = "other"
"""The class in which claims are counted that ask for a class without series."""
ROWS: Final = (
    (
        "kaisched_device_class_devices",
        (
            "Devices of a class that nodes have for claims; those of pools that are being updated"
            " do not count. The first 200 classes."
        ),
    ),
    ("kaisched_device_class_allocated_devices", "Of these devices, those that claims have."),
    (
        "kaisched_device_class_waiting_claims",
        (
            "Claims without devices that pending pods use, by each class that they ask for; other"
            " for classes that do not exist, and for those beyond the first 200."
        ),
    ),
)
"""Name and help of each metric."""


@dataclass(frozen=True, slots=True)
class ClaimFigures:
    """What the figures rest on, as of the last cycle."""

    offer: Offer
    held: Mapping[str, Held]
    """What claims have, by claim."""
    waiting: tuple[ResourceClaim, ...] = ()
    """Claims without devices that pending pods use."""


@dataclass(frozen=True, slots=True)
class _Pool:
    """The devices of a pool that are in some class."""

    slices: tuple[Slice, ...]
    """What it was counted from: the same objects for as long as nothing changes."""
    offered: Mapping[Place, Counter[str]]
    """How many of each class there are, by where they can be used."""
    devices: Mapping[str, tuple[Place, tuple[str, ...]]]
    """By name of a device: where it can be used, and its classes."""


class DeviceCounts:
    """Counts devices by class; a pool is only counted again when it changes.

    Scrapes may come at the same time: what is remembered is replaced as a whole.
    """

    def __init__(self) -> None:
        """Remember nothing."""
        self._known: tuple[tuple[DeviceClass, ...], dict[tuple[str, str], _Pool]] = (), {}

    def of(
        self, figures: ClaimFigures, nodes: NodeTable
    ) -> tuple[dict[str, int], dict[str, int], dict[str, int]]:
        """Return devices, devices that claims have, and claims that wait, each by class."""
        offer = figures.offer
        classes = tuple(of for _, of in sorted(offer.classes.items())[:CLASS_CAP])
        pools = self._counted(offer, classes)
        reach = _Reach(nodes)
        offered, allocated = (dict.fromkeys((it.name for it in classes), 0) for _ in range(2))
        for pool in pools.values():
            for place, numbers in pool.offered.items():
                if reach.has(place):
                    for name, number in numbers.items():
                        offered[name] += number
        for driver, of_pool, device in {
            identity for it in figures.held.values() for identity, _ in it.portions
        }:
            found = pools.get((driver, of_pool))
            place, names = found.devices.get(device, _NOWHERE) if found else _NOWHERE
            if names and reach.has(place):
                for name in names:
                    allocated[name] += 1
        return offered, allocated, _waiting(figures.waiting, offered)

    def _counted(
        self, offer: Offer, classes: tuple[DeviceClass, ...]
    ) -> dict[tuple[str, str], _Pool]:
        before, known = self._known
        if before != classes:
            known = {}
        pools = {}
        for key, listed in offer.slices.items():
            slices = tuple(listed)
            pool = known.get(key)
            is_same = pool is not None and pool.slices == slices
            pools[key] = pool if pool is not None and is_same else _pool(slices, classes)
        self._known = classes, pools
        return pools


_NOWHERE: Final[tuple[Place, tuple[str, ...]]] = (Place(), ())


class _Reach:
    """Tells whether devices at a place can be used from some node; each place is judged once."""

    def __init__(self, nodes: NodeTable) -> None:
        self._nodes, self._names = nodes, frozenset(nodes.name)
        self._known: dict[Place, bool] = {}

    def has(self, place: Place) -> bool:
        if place.node:
            return place.node in self._names
        known = self._known.get(place)
        if known is None:
            sites = map(Site, self._nodes.name, self._nodes.labels)
            known = self._known[place] = any(matches(place, it) for it in sites)
        return known


def _pool(slices: Sequence[Slice], classes: Sequence[DeviceClass]) -> _Pool:
    """Count a pool: its newest generation, once all slices of it are there."""
    newest = max(it.generation for it in slices)
    current = [it for it in slices if it.generation == newest]
    offered: dict[Place, Counter[str]] = {}
    devices: dict[str, tuple[Place, tuple[str, ...]]] = {}
    for one in current if len(current) == current[0].slices else ():
        for device in one.devices:
            place = one.place or device.place or Place()
            names = tuple(it.name for it in classes if is_in(it, device))
            if names:
                offered.setdefault(place, Counter()).update(names)
                devices[device.name] = place, names
    return _Pool(tuple(slices), offered, devices)


def _waiting(claims: Sequence[ResourceClaim], known: Mapping[str, int]) -> dict[str, int]:
    counts = dict.fromkeys((*known, OTHER), 0)
    for claim in claims:
        asks = (
            ask
            for it in claim.spec.devices.requests
            for ask in ((it.exactly,) if it.exactly is not None else it.first_available)
        )
        names = {it.device_class_name for it in asks}
        for name in {it if it in known else OTHER for it in names}:
            counts[name] += 1
    return counts


def claim_families(
    figures: ClaimFigures | None, nodes: NodeTable | None, counts: DeviceCounts
) -> Iterator[Metric]:
    """Yield the metrics; without claims on devices they have no series."""
    numbers: tuple[Mapping[str, int], ...] = ({}, {}, {})
    if figures is not None and nodes is not None:
        numbers = counts.of(figures, nodes)
    for (name, text), by_class in zip(ROWS, numbers, strict=True):
        family = GaugeMetricFamily(name, text, labels=("class",))
        for label, number in by_class.items():
            family.add_metric([label], number)
        yield family
