"""Counts how many GPUs claims ask for, and how many each node has for them, in thousandths.

A class is one of GPUs if its name contains ``gpu``, as KAI-Scheduler has it. It counts only while
all its devices belong to one node each and share no counters: of others nobody can say how many
GPUs they are. Of a device that several claims share, a claim counts the part that it has.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import replace

from kaisched.cluster.claims.shared_devices import Selectors, SharedDevices
from kaisched.cluster.claims.writing import consumed_in
from kaisched.cluster.nodes import NodeRow
from kaisched.core.axis import GPU_UNIT
from kaisched.core.claims.counting import Counted
from kaisched.core.claims.model import (
    ALL,
    MOST_RESULTS,
    Ask,
    Claim,
    ClaimError,
    Device,
    DeviceClass,
    Identity,
    Site,
    Slice,
    Taken,
    is_in,
)
from kaisched.core.claims.offer import Offer
from kaisched.core.claims.parts import NO_GPUS, WHOLE_GPU, Gpus
from kaisched.objects.devices import ALL_DEVICES, ClaimAllocation, ResourceClaim
from kaisched.units import CLAIMED_GPU

_GPU = "gpu"


class GpuClasses:
    """The classes of devices, and which of them count as GPUs."""

    def __init__(self) -> None:
        """Know no class."""
        self.classes: dict[str, DeviceClass] = {}
        self.of_node: Counter[str] = Counter()
        """Thousandths of GPUs for claims, by node."""
        self._uncounted: set[str] = set()
        self._offer = Offer((), self.classes)
        self._nodes: list[str] = []
        """Nodes with devices of their own."""
        self.shared = SharedDevices()
        self._fewest: dict[Ask, tuple[int, Selectors]] = {}
        """By request for all devices, as one for a single one, how many these are at least."""
        self.nodes: dict[str, NodeRow] = {}
        """Nodes without these GPUs."""
        self.version = 0
        """Another whenever nodes offer other amounts."""
        self.counted = 0
        """How often GPUs were counted: another whenever there may be other devices."""
        self.bridged = ""
        """The resource that other nodes offer by a device plugin: GPUs are pieces of it too."""
        self._devices: dict[str, list[Device]] = {}
        """By node, devices of its own."""

    def with_gpus(self, node: NodeRow) -> NodeRow:
        """Return a node with its GPUs for claims, and keep it to count them again."""
        known = self.nodes.get(node.name)
        if known is None or known.allocatable != node.allocatable:
            self.version += 1
        self.nodes[node.name] = node
        number = self.of_node[node.name]
        if not number:
            return node
        amounts = {**node.allocatable, CLAIMED_GPU: number}
        if not self.bridged or node.allocatable.get(self.bridged, 0) > 0:
            return replace(node, allocatable=amounts)
        amounts[self.bridged] = pieces(self.bridged, number)
        return replace(node, allocatable=amounts, can_share=self.bridged != _GPU and node.can_share)

    def nodes_without(self, resource: str) -> list[str]:
        """Return the nodes that do not offer a resource by a device plugin."""
        return [name for name, it in self.nodes.items() if it.allocatable.get(resource, 0) <= 0]

    def has_any(self, of_class: str, nodes: Iterable[str]) -> bool:
        """Tell whether any of some nodes has a device of a class."""
        found = self.classes[of_class]
        return any(is_in(found, it) for node in nodes for it in self._devices.get(node, ()))

    def forget_node(self, name: str) -> None:
        """Drop a node."""
        if self.nodes.pop(name, None) is not None:
            self.version += 1

    def resized(self, before: Counter[str]) -> list[NodeRow]:
        """Return the nodes that have more GPUs for claims than before, or less."""
        changed = [it for it in self.nodes if self.of_node[it] != before[it]]
        return [self.with_gpus(self.nodes[it]) for it in changed]

    def bridge(self, resource: str) -> list[NodeRow]:
        """Count GPUs as pieces of a resource too, or of none; return the nodes that have some."""
        self.bridged = resource
        return [self.with_gpus(it) for it in self.nodes.values() if self.of_node[it.name]]

    def count(self, slices: Iterable[Slice], used: Callable[[], set[Identity]]) -> bool:
        """Count the GPUs of all nodes anew; return whether claims count for other numbers now.

        ``used`` returns the devices that claims have, or have parts of.
        """
        listed = list(slices)
        offer = self._offer = Offer(listed, self.classes)
        before, self._uncounted = self._uncounted, set()
        at: dict[str, list[Device]] = {}
        for node in {it.place.node for it in listed if it.place is not None and it.place.node}:
            pools = offer.pools(Site(node, {}))
            at[node] = [device for pool in pools for _, device in pool.devices]
        self._devices = at
        self.counted += 1
        elsewhere = [
            device
            for it in listed
            if it.place is None or not it.place.node
            for device in it.devices
        ]
        for name, of_class in self.classes.items():
            if not is_of_gpus(name):
                continue
            parts = (it for each in at.values() for it in each if it.counters)
            if any(is_in(of_class, it) for it in (*elsewhere, *parts)):
                self._uncounted.add(name)
        self.of_node = Counter()
        counted = [it for name, it in self.classes.items() if self.counts(name)]
        for node, devices in at.items():
            number = sum(any(is_in(it, device) for it in counted) for device in devices)
            if number:
                self.of_node[node] = WHOLE_GPU.of_node * number
        self._nodes = sorted(at)
        is_other = self.shared.count(self.classes, at.values(), used)
        return self._is_fewest_other() or self._uncounted != before or is_other

    @property
    def counting(self) -> frozenset[str]:
        """The classes that count as GPUs."""
        return frozenset(filter(self.counts, self.classes))

    def of(self, claim: Claim, selectors: Selectors) -> Gpus:
        """Return what a claim asks for before its node is chosen.

        Of its node it takes the least that it may get anywhere. In queues a part counts as that of
        the smallest device that may give it.
        """
        total = NO_GPUS
        for request in claim.requests:
            options = [self._of_ask(ask, selectors) for ask in request.options]
            of_node, in_queue = (min(of_all) for of_all in zip(*options, strict=True))
            total = total.plus(Gpus(of_node, in_queue))
        return total

    def of_results(self, claim: ResourceClaim, allocation: ClaimAllocation) -> Gpus:
        """Return what a claim has with an allocation."""
        classes = {}
        for request in claim.spec.devices.requests:
            if request.exactly is not None:
                classes[request.name] = request.exactly.device_class_name
            for one in request.first_available:
                classes[f"{request.name}/{one.name}"] = one.device_class_name
        total = NO_GPUS
        for it in allocation.devices.results:
            if not it.admin_access and self.counts(classes.get(it.request, "")):
                consumed = consumed_in(it)
                device = it.driver, it.pool, it.device
                total = total.plus(
                    WHOLE_GPU if consumed is None else self.shared.part(device, consumed)
                )
        return total

    def _of_ask(self, ask: Ask, selectors: Selectors) -> Gpus:
        if ask.is_admin or not self.counts(ask.class_name):
            return NO_GPUS
        each = self.shared.of_one(ask, selectors)
        return each.times(self._fewest_for(ask, selectors) if ask.count == ALL else ask.count)

    def _fewest_for(self, ask: Ask, selectors: Selectors) -> int:
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

    def counts(self, name: str) -> bool:
        """Tell whether devices of a class count as GPUs."""
        return is_of_gpus(name) and name not in self._uncounted


def is_of_gpus(name: str) -> bool:
    """Tell whether a class is one of GPUs, by its name."""
    return _GPU in name.lower()


def pieces(resource: str, gpus: int) -> int:
    """Return thousandths of GPUs in base units of a resource of which GPUs are pieces."""
    return gpus if resource == _GPU else gpus // GPU_UNIT


def depends_on_node(claim: ResourceClaim, allocation: ClaimAllocation) -> bool:
    """Tell whether a claim might have got more devices, others, or other parts on another node."""
    return any(it.share_id for it in allocation.devices.results) or any(
        it.exactly is None or it.exactly.allocation_mode == ALL_DEVICES
        for it in claim.spec.devices.requests
    )


def _number_at(counted: Counted, offer: Offer, node: str) -> int:
    """Return how many devices of a node do; 1 if that depends on what is taken, 0 for no answer."""
    site = Site(node, {})
    if any(it.fault for it in offer.pools(site)):
        return 0
    try:
        number = counted.whole(site, Taken())
    except ClaimError:
        return 0
    return 1 if number is None else number
