"""Counts how many GPUs claims ask for, and how many each node has for them.

A class is one of GPUs if its name contains ``gpu``, as KAI-Scheduler has it. It counts only while
all its devices belong to one node and to one claim each, and share no counters: of others nobody
can say how many GPUs they are.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import replace

from kaisched.cluster.nodes import NodeRow
from kaisched.core.claims.counting import Counted
from kaisched.core.claims.model import (
    ALL,
    MOST_RESULTS,
    Ask,
    Claim,
    ClaimError,
    Device,
    DeviceClass,
    Selector,
    Site,
    Slice,
    Taken,
)
from kaisched.core.claims.offer import Offer
from kaisched.objects.resource_claims import ALL_DEVICES, ClaimAllocation, ResourceClaim
from kaisched.units import CLAIMED_GPU

_GPU = "gpu"

Selectors = Callable[[str], Selector]
"""Gives the expression with a text."""


class GpuClasses:
    """The classes of devices, and which of them count as GPUs."""

    def __init__(self) -> None:
        """Know no class."""
        self.classes: dict[str, DeviceClass] = {}
        self.of_node: Counter[str] = Counter()
        """GPUs for claims, by node."""
        self._uncounted: set[str] = set()
        self._offer = Offer((), self.classes)
        self._nodes: list[str] = []
        """Nodes with devices of their own."""
        self._fewest: dict[Ask, tuple[int, Selectors]] = {}
        """By request for all devices, as one for a single one, how many these are at least."""
        self.nodes: dict[str, NodeRow] = {}
        """Nodes without these GPUs."""
        self.version = 0
        """Another whenever nodes offer other amounts."""

    def with_gpus(self, node: NodeRow) -> NodeRow:
        """Return a node with its GPUs for claims, and keep it to count them again."""
        known = self.nodes.get(node.name)
        if known is None or known.allocatable != node.allocatable:
            self.version += 1
        self.nodes[node.name] = node
        number = self.of_node[node.name]
        if not number:
            return node
        return replace(node, allocatable={**node.allocatable, CLAIMED_GPU: number})

    def forget_node(self, name: str) -> None:
        """Drop a node."""
        if self.nodes.pop(name, None) is not None:
            self.version += 1

    def resized(self, before: Counter[str]) -> list[NodeRow]:
        """Return the nodes that have more GPUs for claims than before, or less."""
        changed = [it for it in self.nodes if self.of_node[it] != before[it]]
        return [self.with_gpus(self.nodes[it]) for it in changed]

    def count(self, slices: Iterable[Slice]) -> bool:
        """Count the GPUs of all nodes anew; return whether claims count for other numbers now."""
        listed = list(slices)
        offer = self._offer = Offer(listed, self.classes)
        before, self._uncounted = self._uncounted, set()
        at: dict[str, list[Device]] = {}
        for node in {it.place.node for it in listed if it.place is not None and it.place.node}:
            pools = offer.pools(Site(node, {}))
            at[node] = [device for pool in pools for _, device in pool.devices]
        elsewhere = [
            device
            for it in listed
            if it.place is None or not it.place.node
            for device in it.devices
        ]
        for name, of_class in self.classes.items():
            if not is_of_gpus(name):
                continue
            parts = (it for each in at.values() for it in each if it.counters or it.is_shared)
            if any(is_in(of_class, it) for it in (*elsewhere, *parts)):
                self._uncounted.add(name)
        self.of_node = Counter()
        counted = [it for name, it in self.classes.items() if self._counts(name)]
        for node, devices in at.items():
            number = sum(any(is_in(it, device) for it in counted) for device in devices)
            if number:
                self.of_node[node] = number
        self._nodes = sorted(at)
        return self._is_fewest_other() or self._uncounted != before

    @property
    def counted(self) -> frozenset[str]:
        """The classes that count as GPUs."""
        return frozenset(filter(self._counts, self.classes))

    def of(self, claim: Claim, selectors: Selectors) -> int:
        """Return how many GPUs a claim asks for at least, on whatever node it gets them."""
        return sum(min(self._of_ask(ask, selectors) for ask in it.options) for it in claim.requests)

    def of_results(self, claim: ResourceClaim, allocation: ClaimAllocation) -> int:
        """Return how many GPUs a claim has with an allocation."""
        classes = {}
        for request in claim.spec.devices.requests:
            if request.exactly is not None:
                classes[request.name] = request.exactly.device_class_name
            for one in request.first_available:
                classes[f"{request.name}/{one.name}"] = one.device_class_name
        return sum(
            not it.admin_access and self._counts(classes.get(it.request, ""))
            for it in allocation.devices.results
        )

    def _of_ask(self, ask: Ask, selectors: Selectors) -> int:
        if ask.is_admin or not self._counts(ask.class_name):
            return 0
        if ask.count != ALL:
            return ask.count
        key = Ask("", ask.class_name, ask.selectors, tolerations=ask.tolerations)
        if key not in self._fewest:
            self._fewest[key] = self._fewest_of(key, selectors), selectors
        return self._fewest[key][0]

    def _is_fewest_other(self) -> bool:
        """Count anew what requests for all devices come to; return whether any has changed."""
        before = self._fewest
        self._fewest = {
            key: (self._fewest_of(key, selectors), selectors)
            for key, (_, selectors) in before.items()
        }
        return any(self._fewest[key][0] != number for key, (number, _) in before.items())

    def _fewest_of(self, one: Ask, selectors: Selectors) -> int:
        """Return how many devices do on the node with the fewest, of nodes with any; at least 1.

        Nodes with more of them than a claim may have are left out, as they can serve no such claim.
        """
        of_class = self.classes.get(one.class_name)
        if of_class is None:
            return 1
        expressions = [*of_class.selectors, *map(selectors, one.selectors)]
        counted = Counted(self._offer, one, expressions)
        numbers = (_number_at(counted, self._offer, it) for it in self._nodes)
        return min((it for it in numbers if 0 < it <= MOST_RESULTS), default=1)

    def _counts(self, name: str) -> bool:
        return is_of_gpus(name) and name not in self._uncounted


def is_of_gpus(name: str) -> bool:
    """Tell whether a class is one of GPUs, by its name."""
    return _GPU in name.lower()


def is_in(of_class: DeviceClass, device: Device) -> bool:
    """Tell whether a device is in a class."""
    try:
        return all(it.matches(device) for it in of_class.selectors)
    except ClaimError:
        return False


def depends_on_node(claim: ResourceClaim) -> bool:
    """Tell whether a claim may get more devices, or others, on one node than on another."""
    return any(
        it.exactly is None or it.exactly.allocation_mode == ALL_DEVICES
        for it in claim.spec.devices.requests
    )


def _number_at(counted: Counted, offer: Offer, node: str) -> int:
    """Return how many devices of a node do; 1 if that depends on what is taken, 0 for no answer."""
    site = Site(node, {})
    if any(it.fault for it in offer.pools(site)):
        return 0
    try:
        number = counted(site, Taken())
    except ClaimError:
        return 0
    return 1 if number is None else number
