"""Devices of nodes in a scenario, and the claims of jobs on them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, TypeVar

from kaisched.cluster.claims.gpus import is_of_gpus
from kaisched.cluster.nodes import NodeRow
from kaisched.core.axis import GPU_UNIT
from kaisched.core.claims.model import (
    MOST_RESULTS,
    Ask,
    Capacity,
    Claim,
    ClaimError,
    Constraint,
    Device,
    Place,
    Quantity,
    Request,
    Site,
    Slice,
    Taken,
    Value,
    nanos_of,
)
from kaisched.core.claims.offer import Offer
from kaisched.core.claims.search import allocate
from kaisched.core.claims.selectors import CelSelector
from kaisched.sim.devices import Devices, class_of
from kaisched.sim.scenario.document import Attribute, DeviceLine, JobGroup, NodeGroup
from kaisched.sim.scenario.findings import Findings, Step
from kaisched.sim.workload import PodKind, pod_of
from kaisched.units import CLAIMED_GPU

T = TypeVar("T")

MOST_DEVICES: Final = 64
"""Of a node, as for GPUs."""
_NAME: Final = re.compile(r"[a-z0-9]([a-z0-9.-]{0,61}[a-z0-9])?", re.ASCII)


@dataclass(slots=True)
class Offered:
    """The devices of all nodes. The driver of each has the name of its class."""

    slices: list[Slice] = field(default_factory=list)
    """One for each node that has any."""
    samples: list[Slice] = field(default_factory=list)
    """The same for one node of each group, as its nodes are equal."""

    @property
    def classes(self) -> list[str]:
        """The names of the classes, in the order of the file."""
        return list(dict.fromkeys(it.driver for it in self.samples))

    def add(self, group: NodeGroup, rows: Sequence[NodeRow], found: Findings, at: int) -> None:
        """Add the devices of the nodes of a group."""
        line = group.devices
        if line is None:
            return
        path = ("nodes", at, "devices")
        if group.gpus or group.trace:
            other = "trace" if group.trace else "gpus"
            fix = f"keep {other} or devices, or give the devices nodes of their own"
            found.add(f"conflicts with {other}", *path, fix=fix)
        if not _NAME.fullmatch(line.class_):
            fix = "write lower-case letters, digits, - and ., such as gpu.example.com"
            found.add("is no name of a class", *path, "class", value=line.class_, fix=fix)
            return
        described = _described(line, found, path)
        made = [_slice(row.name, line.class_, described) for row in rows]
        self.slices += made
        self.samples += made[:1]

    def of(self, rows: Sequence[NodeRow]) -> Devices | None:
        """Return the devices of some nodes, none of them taken; None if the file has none."""
        if not self.samples:
            return None
        names = {row.name for row in rows}
        here = [it for it in self.slices if it.place is not None and it.place.node in names]
        return Devices(here, self.classes)

    def holds(self, claim: Claim) -> int:
        """Return how many claims like this find devices on all nodes together, at most."""
        ask = claim.requests[0].options[0]
        there = sum(len(it.devices) for it in self.slices if it.driver == ask.class_name)
        return there // ask.count


def device_count(line: DeviceLine | None, found: Findings, at: int) -> int:
    """Return the devices of each node of a group."""
    if line is None:
        return 0
    path = ("nodes", at, "devices", "count")
    return int(found.number(line.count, *path, least=1, most=MOST_DEVICES))


def with_devices(amounts: Mapping[str, int], line: DeviceLine | None, count: int) -> dict[str, int]:
    """Return the amounts of a node with those of its devices that count as GPUs."""
    if line is None or not is_of_gpus(line.class_):
        return dict(amounts)
    return {**amounts, CLAIMED_GPU: GPU_UNIT * count}


def claim_of(group: JobGroup, offered: Offered, found: Findings, at: int) -> Claim | None:
    """Return what each pod of a group of jobs claims, None for jobs that ask for GPUs."""
    line = group.claim
    if line is None:
        return None
    path = ("jobs", at, "claim")
    for key, is_there in (
        ("gpus", group.gpus is not None),
        ("gpuMemory", group.gpu_memory is not None),
        ("cards", group.cards != 1),
        ("sizes", bool(group.sizes)),
    ):
        if is_there:
            found.add(f"conflicts with {key}", *path, fix=f"keep {key} or claim")
    count = int(found.number(line.count, *path, "count", least=1, most=MOST_RESULTS))
    if not found.known(line.class_, offered.classes, "class of devices", *path, "class"):
        return None
    there = [device for it in offered.samples if it.driver == line.class_ for device in it.devices]
    same = _qualified(line.same_attribute, line.class_)
    if same and all(it.attribute(same) is None for it in there):
        known = sorted({name for it in there for name in it.attributes})
        found.known(line.same_attribute, known, "attribute", *path, "sameAttribute")
        return None
    ask = Ask("devices", line.class_, (line.selector,) if line.selector else (), count)
    constraints = (Constraint((), same),) if same else ()
    claim = Claim((Request(ask.name, (ask,)),), constraints)
    _try(claim, line.selector, there, offered, found, at)
    return claim


def pod_with(claim: Claim) -> PodKind:
    """Return a pod with a claim, and the default CPU and memory with each device of it."""
    ask = claim.requests[0].options[0]
    gpus = ask.count if is_of_gpus(ask.class_name) else 0
    pod = pod_of(ask.count)
    return replace(pod, gpu=0, claim=claim, claimed_gpus=gpus)


def _try(
    claim: Claim,
    selector: str,
    there: Sequence[Device],
    offered: Offered,
    found: Findings,
    at: int,
) -> None:
    """Record what is wrong with a selector, and warn of a claim that no node can ever serve."""
    texts = {selector: CelSelector(selector)} if selector else {}
    offer = Offer(offered.samples, {name: class_of(name) for name in offered.classes})
    try:
        for one in texts.values():
            for device in there:
                one.matches(device)
        sites = [Site(it.place.node, {}) for it in offered.samples if it.place is not None]
        if any(allocate(offer, site, [claim], texts, Taken()) for site in sites):
            return
    except ClaimError as error:
        known = sorted({name for it in there for name in it.attributes}) or ["model"]
        driver = claim.requests[0].options[0].class_name
        fix = f'write one such as device.attributes["{driver}"].{known[0]} == "value"'
        found.add(str(error), "jobs", at, "claim", "selector", fix=fix)
        return
    warning = "no node has such devices for it, so these jobs wait for ever"
    found.warnings.append(f"{found.file}: jobs[{at}].claim: {warning}")


def _qualified(name: str, driver: str) -> str:
    return name if not name or "/" in name else f"{driver}/{name}"


# -- the devices of a node -----------------------------------------------------------------------

_Described = tuple[dict[str, Value], dict[str, Capacity]]


def _described(line: DeviceLine, found: Findings, path: tuple[Step, ...]) -> list[_Described]:
    """Return attributes and capacities of each device of a node."""
    count = line.count if 1 <= line.count <= MOST_DEVICES else 1
    described: list[_Described] = [({}, {}) for _ in range(count)]
    for name, written in line.attributes.items():
        values: list[Attribute] = _each(written, count, found, (*path, "attributes", name))
        for (attributes, _), value in zip(described, values, strict=False):  # none of an empty list
            attributes[name] = _value(value)
    for name, amounts in line.capacity.items():
        where = (*path, "capacity", name)
        for (_, capacities), amount in zip(
            described, _each(amounts, count, found, where), strict=False
        ):
            try:
                text = str(amount)
                quantity = Quantity(nanos_of(text), text.endswith("i"))
            except ClaimError as error:
                found.add(str(error), *where, value=amount, fix="write an amount such as 80Gi")
                break
            capacities[name] = Capacity(quantity)
    return described


def _each(written: T | list[T], count: int, found: Findings, path: tuple[Step, ...]) -> list[T]:
    """Return the value of each device; none of an empty list."""
    if not isinstance(written, list):
        return [written] * count
    if len(written) != count:
        fix = f"write {count}, one for each device, or one value for all"
        plural = "" if len(written) == 1 else "s"
        found.add(f"has {len(written)} value{plural}", *path, fix=fix)
        return (written * count)[:count] if written else []
    return written


def _value(value: Attribute) -> Value:
    kind = "bool" if isinstance(value, bool) else "int" if isinstance(value, int) else "string"
    return Value(kind, value)


def _slice(node: str, name: str, described: Sequence[_Described]) -> Slice:
    short = name.partition(".")[0]
    return Slice(
        name=f"{node}-{short}",
        driver=name,
        pool=node,
        generation=1,
        slices=1,
        place=Place(node),
        devices=tuple(
            Device(name, node, f"{short}-{at}", attributes, capacities)
            for at, (attributes, capacities) in enumerate(described)
        ),
    )
