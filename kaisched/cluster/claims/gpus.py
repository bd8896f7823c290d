"""Counts how many GPUs claims ask for, and how many each node has for them.

A class is one of GPUs if its name contains ``gpu``, as KAI-Scheduler has it. It counts only while
all its devices belong to one node each and share no counters: of others nobody can say how many
GPUs they are.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace

from kaisched.cluster.nodes import NodeRow
from kaisched.core.claims.model import (
    ALL,
    Ask,
    Claim,
    ClaimError,
    Device,
    DeviceClass,
    Site,
    Slice,
)
from kaisched.core.claims.offer import Offer
from kaisched.objects.resource_claims import ClaimAllocation, ResourceClaim
from kaisched.units import CLAIMED_GPU

_GPU = "gpu"


class GpuClasses:
    """The classes of devices, and which of them count as GPUs."""

    def __init__(self) -> None:
        """Know no class."""
        self.classes: dict[str, DeviceClass] = {}
        self.of_node: Counter[str] = Counter()
        """GPUs for claims, by node."""
        self._uncounted: set[str] = set()
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
        """Count the GPUs of all nodes anew; return whether other classes count than before."""
        listed = list(slices)
        offer = Offer(listed, self.classes)
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
            if _GPU not in name.lower():
                continue
            every = (device for devices in at.values() for device in devices if device.counters)
            if any(is_in(of_class, it) for it in (*elsewhere, *every)):
                self._uncounted.add(name)
        self.of_node = Counter()
        counted = [it for name, it in self.classes.items() if self._counts(name)]
        for node, devices in at.items():
            number = sum(any(is_in(it, device) for it in counted) for device in devices)
            if number:
                self.of_node[node] = number
        return self._uncounted != before

    def of(self, claim: Claim) -> int:
        """Return how many GPUs a claim asks for at least."""
        return sum(min(map(self._of_ask, it.options)) for it in claim.requests)

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

    def _of_ask(self, ask: Ask) -> int:
        if ask.is_admin or not self._counts(ask.class_name):
            return 0
        return 1 if ask.count == ALL else ask.count

    def _counts(self, name: str) -> bool:
        return _GPU in name.lower() and name not in self._uncounted


def is_in(of_class: DeviceClass, device: Device) -> bool:
    """Tell whether a device is in a class."""
    try:
        return all(it.matches(device) for it in of_class.selectors)
    except ClaimError:
        return False
