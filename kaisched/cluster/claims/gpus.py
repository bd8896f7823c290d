"""Counts how many GPUs claims ask for, and how many each node has for them, in thousandths."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any, Final, NamedTuple, TypeAlias

from kaisched.cluster.claims.conversion import class_of, consumed_in, slice_of, tainted
from kaisched.cluster.columns import set_or_drop
from kaisched.cluster.nodes import NodeRow
from kaisched.core.axis import GPU_UNIT
from kaisched.core.claims.counting import Counted
from kaisched.core.claims.model import (
    ALL,
    MOST_RESULTS,
    NANOS,
    Ask,
    Claim,
    ClaimError,
    Device,
    Identity,
    Named,
    Site,
    Slice,
    Taken,
    profile_of,
)
from kaisched.core.claims.offer import Offer
from kaisched.core.claims.search import consumed_by, fits
from kaisched.core.claims.selectors import CelSelector, DeviceClass, is_in, names_of
from kaisched.core.claims.table import NO_GPUS, WHOLE_GPU, Bridge, Gpus, Measure, measure_of
from kaisched.core.devices import LEAST_SHARE
from kaisched.objects import devices as objects
from kaisched.objects.devices import (
    ALL_DEVICES,
    ClaimAllocation,
    DeviceTaintRule,
    ResourceClaim,
    ResourceSlice,
)
from kaisched.objects.requests import IMPLICIT, ResourceAsk
from kaisched.units import CLAIMED_GPU

# -- shared devices --------------------------------------------------------------------------------

Selectors: TypeAlias = Callable[[str], CelSelector]
"""Gives the expression with a text."""


class SharedDevices:
    """The devices that several claims may have parts of, and what parts of them count as."""

    def __init__(self, least: int = LEAST_SHARE) -> None:
        """Know none; a part counts at least so many thousandths of a GPU in queues."""
        self._least = least
        self._classes: Mapping[str, DeviceClass] = {}
        self._devices: list[Device] = []
        """All devices of nodes, while any of them is shared."""
        self._measures: dict[Identity, Measure] = {}
        """Also of devices that are gone: their parts count as before until claims lose them."""
        self._unseen: set[Identity] = set()
        """Devices that claims have parts of, and nobody has offered yet."""
        self._alike: dict[Named, list[Device]] = {}
        self._asked: dict[Ask, tuple[Gpus, Selectors]] = {}
        self._sizes: dict[tuple[str, str], frozenset[int]] = {}

    def count(
        self,
        classes: Mapping[str, DeviceClass],
        at_nodes: Iterable[Iterable[Device]],
        used: Callable[[], set[Identity]],
    ) -> bool:
        """Take in the devices of all nodes; return whether claims count for other parts now.

        ``used`` returns the devices that claims have, or have parts of.
        """
        devices = [it for of_node in at_nodes for it in of_node]
        shared = [it for it in devices if it.is_shared]
        if not shared and not self._measures:
            return False
        is_other = bool(shared) and not self._devices  # until now each counted as whole
        self._classes, self._devices = classes, devices if shared else []
        self._alike = {}
        is_other |= self._measure(shared, used)
        asked = self._asked
        self._asked = {ask: (self._of_one(ask, it), it) for ask, (_, it) in asked.items()}
        sizes, self._sizes = self._sizes, {key: self._sizes_of(*key) for key in self._sizes}
        return (
            is_other
            or self._sizes != sizes
            or any(self._asked[ask][0] != gpus for ask, (gpus, _) in asked.items())
        )

    def _measure(self, shared: list[Device], used: Callable[[], set[Identity]]) -> bool:
        """Measure devices anew; return whether what claims have of any counts for more or less."""
        before, now = self._measures, {it.identity: measure_of(it) for it in shared}
        is_other = any(before.get(it, one) != one for it, one in now.items())
        is_other |= not self._unseen.isdisjoint(now)
        if self._unseen or not before.keys() <= now.keys():
            in_use = used()
            self._unseen = (self._unseen & in_use) - now.keys()
            gone = (before.keys() - now.keys()) & in_use
            now |= {it: before[it] for it in before if it in gone}
        self._measures = now
        return is_other

    def part(self, identity: Identity, consumed: Mapping[str, int]) -> Gpus:
        """Return what counts for a claim that has a part of a device; one never seen is whole."""
        measure = self._measures.get(identity)
        if measure is None:
            self._unseen.add(identity)
            return WHOLE_GPU
        return self._part(measure, consumed)

    def _part(self, measure: Measure, consumed: Mapping[str, int]) -> Gpus:
        part = measure.part(consumed)
        return part._replace(in_queue=max(part.in_queue, self._least))

    def of_one(self, ask: Ask, selectors: Selectors) -> Gpus:
        """Return what each device of a request counts before it is chosen."""
        if not self._devices:
            return WHOLE_GPU
        key = replace(ask, name="", count=1, tolerations=())
        if key not in self._asked:
            self._asked[key] = self._of_one(key, selectors), selectors
        return self._asked[key][0]

    def sizes(self, class_name: str, capacity: str) -> frozenset[int]:
        """Return how much of a capacity the shared devices of a class have, rounded down."""
        key = class_name, capacity
        if key not in self._sizes:
            self._sizes[key] = self._sizes_of(*key)
        return self._sizes[key]

    def _sizes_of(self, class_name: str, capacity: str) -> frozenset[int]:
        found = (
            it.capacities[capacity].value.nanos // NANOS
            for it in self._matching(class_name, ())
            if it.is_shared and capacity in it.capacities
        )
        return frozenset(it for it in found if it > 0)

    def _of_one(self, ask: Ask, selectors: Selectors) -> Gpus:
        """Return the least that one device counts on a node, and the most in a queue."""
        parts = []
        expressions = [selectors(it) for it in ask.selectors]
        if len(self._distinct(expressions)) * sum(it.weight for it in expressions) > _MOST_ASKED:
            expressions = []  # among more devices is one that comes to as little, and as much
        for device in self._matching(ask.class_name, expressions):
            taken = consumed_by(ask, device)
            if taken is None or not fits(taken, device, {}):
                continue
            consumed = {name: it.nanos for name, it in taken.items()}
            parts.append(
                self._part(measure_of(device), consumed) if device.is_shared else WHOLE_GPU
            )
        if not parts:
            return WHOLE_GPU
        return Gpus(min(it.of_node for it in parts), max(it.in_queue for it in parts))

    def _matching(self, class_name: str, expressions: Iterable[CelSelector]) -> Iterable[Device]:
        """Yield devices that do for expressions of a class and these; of equal ones the first."""
        of_class = self._classes.get(class_name)
        if of_class is None:
            return
        every = [*of_class.selectors, *expressions]
        for device in self._distinct(every):
            try:
                if all(it.matches(device) for it in every):
                    yield device
            except ClaimError:
                continue

    def _distinct(self, expressions: Iterable[CelSelector]) -> list[Device]:
        """Return the devices, and of those that look the same to the expressions the first."""
        named = names_of(expressions)
        if named not in self._alike:
            first: dict[Any, Device] = {}
            for device in self._devices:
                capacities = tuple(sorted(device.capacities.items()))
                first.setdefault((profile_of(device, named), capacities), device)
            self._alike[named] = list(first.values())
        return self._alike[named]


_MOST_ASKED: Final = 1_000
"""Selectors that need more evaluations are asked only when devices are chosen."""


# -- classes ---------------------------------------------------------------------------------------
# A class is one of GPUs if its name contains ``gpu``, as KAI-Scheduler has it. It counts only
# while all its devices belong to one node each and share no counters: of others nobody can say
# how many GPUs they are. Of a device that several claims share, a claim counts the part that it
# has.

_GPU = "gpu"


OfferedObject: TypeAlias = ResourceSlice | objects.DeviceClass | DeviceTaintRule


class OfferedDevices:
    """Slices, classes and taint rules, and which classes count as GPUs."""

    def __init__(self, least: int = LEAST_SHARE) -> None:
        """Know no class; a part of a GPU counts at least so many thousandths in queues."""
        self.classes: dict[str, DeviceClass] = {}
        self.of_node: Counter[str] = Counter()
        """Thousandths of GPUs for claims, by node."""
        self._slices: dict[str, Slice] = {}
        self._rules: dict[str, DeviceTaintRule] = {}
        self._offer: Offer | None = None
        self._is_counted = True
        """Whether GPUs are counted that were offered since."""
        self._uncounted: set[str] = set()
        self._untainted = Offer((), self.classes)
        self._nodes: list[str] = []
        """Nodes with devices of their own."""
        self.shared = SharedDevices(least)
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

    def update(self, obj: OfferedObject, *, is_gone: bool = False) -> None:
        """Take in an object that came or changed, or drop it."""
        match obj:
            case objects.DeviceClass():
                set_or_drop(self.classes, obj.name, None if is_gone else class_of(obj))
            case ResourceSlice():
                try:
                    found = None if is_gone else slice_of(obj)
                except ClaimError:
                    found = None  # an API server accepts no such slice
                set_or_drop(self._slices, obj.name, found)
            case DeviceTaintRule():
                set_or_drop(self._rules, obj.name, None if is_gone else obj)
        self._offer, self._is_counted = None, False

    @property
    def offer(self) -> Offer:
        """Slices and classes as claims find them."""
        if self._offer is None:
            slices = tainted(self._slices.values(), self._rules.values())
            self._offer = Offer(slices, dict(self.classes))
        return self._offer

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

    def count(self, used: Callable[[], set[Identity]]) -> tuple[Counter[str], bool] | None:
        """Count the GPUs that nodes offer now; None if they are counted already.

        Return how many there were by node, and whether claims count for other numbers than before.
        ``used`` returns the devices that claims have, or have parts of.
        """
        if self._is_counted:
            return None
        self._is_counted, of_node = True, self.of_node
        listed = list(self._slices.values())
        offer = self._untainted = Offer(listed, self.classes)
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
        is_other |= self._uncounted != before
        return of_node, self._is_fewest_other() or is_other

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
        """Count requests for all devices again; return whether any count has changed."""
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
        own = [selectors(it) for it in one.selectors]
        if self._untainted.evaluations(own) > _MOST_ASKED:
            return 1
        expressions = [*of_class.selectors, *own]
        counted = Counted(self._untainted, one, expressions)
        numbers = (_number_at(counted, self._untainted, it) for it in self._nodes)
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


# -- a resource that is offered in both ways -------------------------------------------------------
# A cluster is like that while it changes from a device plugin to a driver, node by node. Pods
# that ask for such a resource may go to nodes of both kinds: by what a node has they need a claim
# or not. There is one such resource at most; any other is asked of device plugins alone.


class Bridging(NamedTuple):
    """A resource that is offered in both ways, and the classes that back it."""

    resource: str = ""
    """As nodes and queues count it; empty for none."""
    classes: frozenset[str] = frozenset()
    """Those of which nodes without the device plugin have devices."""


NONE: Final = Bridging()


def bridging_of(gpus: OfferedDevices, backing: Mapping[str, str], names: Iterable[str]) -> Bridging:
    """Return the resource that is offered in both ways: GPUs before others.

    Args:
        gpus: what nodes offer by device plugins, and the devices of classes of GPUs.
        backing: by resource, the class that backs it.
        names: the resources that count as GPUs.

    """
    classes: dict[str, set[str]] = {}
    for resource, name in backing.items():
        if gpus.counts(name):
            classes.setdefault(_GPU if resource in names else resource, set()).add(name)
    for resource in sorted(classes, key=lambda it: (it != _GPU, it)):
        without = gpus.nodes_without(resource)
        if len(without) == len(gpus.nodes):
            continue
        found = frozenset(it for it in classes[resource] if gpus.has_any(it, without))
        if found:
            return Bridging(resource, found)
    return NONE


def bridge_over(gpus: OfferedDevices, bridging: Bridging) -> Bridge | None:
    """Return the nodes that offer a resource by claims only; None without such a resource."""
    if not bridging.resource:
        return None
    without = gpus.nodes_without(bridging.resource)
    return Bridge(bridging.resource, frozenset(it for it in without if gpus.of_node[it]))


def classes_of(
    asks: Iterable[ResourceAsk], bridging: Bridging, backing: Mapping[str, str]
) -> dict[str, str]:
    """Return the classes that back what a pod asks for, if nodes of both kinds can serve it.

    They cannot if it asks for GPUs that no such class backs, for more of them than a claim may
    have, or for other devices: then its claim would be another on each kind of node.
    """
    found, number = {}, 0
    for ask in asks:
        if ask.counted_as == bridging.resource:
            name = backing.get(ask.resource, "")
            if name not in bridging.classes:
                return {}
            found[ask.resource] = name
            number += ask.number
        elif ask.resource in backing or ask.resource.startswith(IMPLICIT):
            return {}
    return found if number <= MOST_RESULTS else {}
