"""Nodes of a scenario: groups of equal nodes with their devices, topology and outages."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
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
from kaisched.core.tables import TopologyConstraint, TopologyLevel
from kaisched.errors import ConfigError
from kaisched.objects import labels
from kaisched.objects.wire import Amount
from kaisched.sim.arrivals import Chance
from kaisched.sim.cluster import TOPOLOGY, Devices, class_of, node_amounts
from kaisched.sim.replay import Outage
from kaisched.sim.scenario.document import Attribute, DeviceLine, JobGroup, LevelLine, NodeGroup
from kaisched.sim.scenario.findings import Findings, Step
from kaisched.sim.ticks import tick_at
from kaisched.sim.traces import place_of, read_nodes
from kaisched.sim.workload import PodKind, pod_of
from kaisched.units import CLAIMED_GPU, MEBIBYTE, UnitError, memory_units, milli_cpu

MOST_MIB = 1 << 30


def mib_of(amount: Amount | None, found: Findings, *path: Step) -> int:
    """Return whole MiB; 0 where nothing is written."""
    if amount is None:
        return 0
    try:
        mib = memory_units(amount, False) // MEBIBYTE
    except UnitError as error:
        found.add(str(error), *path, fix=error.fix)
        return 0
    if not 0 < mib <= MOST_MIB:
        fix = "write 1Mi or more, with a suffix, such as 20Gi"
        found.add("is no amount of memory of a GPU", *path, value=amount, fix=fix)
    return mib


def card_sizes(nodes: Sequence[NodeRow]) -> tuple[int, int]:
    """Return the MiB of the smallest and of the largest GPU of which nodes say it; else 0."""
    sizes = {row.card_mib for row in nodes if row.card_mib and row.allocatable.get("gpu")}
    return (min(sizes), max(sizes)) if sizes else (0, 0)


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


_MOST_LEVELS = 16


def levels_of(lines: Sequence[LevelLine], found: Findings) -> tuple[TopologyLevel, ...]:
    """Return the levels, outermost first; each domain is a part of one of the level above."""
    if len(lines) > _MOST_LEVELS:
        fix = f"a Topology has at most {_MOST_LEVELS} levels"
        found.add("there are too many levels", "topology", value=len(lines), fix=fix)
    names = [line.level for line in lines]
    for at, line in enumerate(lines):
        found.number(line.nodes, "topology", at, "nodes", least=1)
        if not line.level or line.level in names[:at]:
            fix = "give each level a name of its own"
            found.add("is no new name", "topology", at, "level", value=line.level, fix=fix)
    for at, (outer, inner) in enumerate(pairwise(lines), 1):
        if inner.nodes > 0 and outer.nodes % inner.nodes:
            fix = f"write a divisor of {outer.nodes}, the nodes of a domain of {outer.level}"
            found.add("does not divide", "topology", at, "nodes", value=inner.nodes, fix=fix)
    return tuple(TopologyLevel(name) for name in names)


def labelled(
    nodes: Sequence[tuple[NodeRow, list[Span]]], lines: Sequence[LevelLine]
) -> list[tuple[NodeRow, list[Span]]]:
    """Return the nodes with a label for each level: neighbours in the file are neighbours."""
    if not lines:
        return list(nodes)
    width = len(str(max(len(nodes) - 1, 0)))
    return [
        (
            replace(
                row,
                labels={
                    **row.labels,
                    **{it.level: f"{it.level}-{at // it.nodes:0{width}d}" for it in lines},
                },
            ),
            spans,
        )
        for at, (row, spans) in enumerate(nodes)
    ]


def wish_of(
    group: JobGroup, levels: Sequence[str], found: Findings, at: int
) -> TopologyConstraint | None:
    """Return what a group of jobs asks for, if anything."""
    asked = {"requiredLevel": group.required_level, "preferredLevel": group.preferred_level}
    for key, level in asked.items():
        if level:
            found.known(level, list(levels), "level of the topology", "jobs", at, key)
    patience_s = 0.0
    if group.patience is not None:
        patience_s = found.seconds(group.patience, "jobs", at, "patience")
        if not group.preferred_level:
            fix = "give the preferredLevel for which the jobs wait"
            found.add("needs a level", "jobs", at, "patience", value=group.patience, fix=fix)
    if not any(asked.values()):
        return None
    wish = TopologyConstraint(TOPOLOGY, group.required_level, group.preferred_level)
    return wish._replace(patience_s=patience_s)


MOST_NODES = 50_000
MOST_GPUS_OF_NODE = 64
_MOST_FAILURES = 1_000_000

Span = tuple[float, float]
"""Begin and end of an outage in seconds; the end may be infinite."""


def nodes_of(
    groups: Sequence[NodeGroup],
    found: Findings,
    folder: Path,
    chance: Chance,
    horizon_s: float,
    offered: Offered,
) -> list[tuple[NodeRow, list[Span]]]:
    """Return every node with its outages; add its devices to ``offered``."""
    made: list[tuple[NodeRow, list[Span]]] = []
    names: set[str] = set()
    if not groups:
        found.add("there are no nodes", "nodes", fix="write at least one group of nodes")
    for at, group in enumerate(groups):
        rows = _traced(group, found, folder, at) if group.trace else _equal(group, found, at)
        pooled = [_in_pool(row, group, found, at) for row in rows]
        for number, row in enumerate(pooled):
            if row.name in names:
                fix = "give each group a name of its own"
                found.add("two nodes have this name", "nodes", at, "name", value=row.name, fix=fix)
                break
            names.add(row.name)
            spans = _planned(group, number, found, at) if number < _most_out(group) else []
            if group.failures is not None:
                spans += _by_chance(group, row.name, found, at, chance, horizon_s)
            made.append((row, _merged(spans)))
        _check_outages(group, len(rows), found, at)
        offered.add(group, pooled, found, at)
    return made


def outages_of(nodes: Sequence[tuple[NodeRow, list[Span]]], step_s: float) -> list[Outage]:
    """Return failures and returns in the order of time; every outage lasts at least a tick."""
    outages = []
    for row, spans in nodes:
        for begin_s, end_s in spans:
            begin = tick_at(begin_s, step_s)
            outages.append(Outage(begin, row.name, is_ready=False))
            if end_s != float("inf"):
                end = max(tick_at(end_s, step_s), begin + 1)
                outages.append(Outage(end, row.name, is_ready=True))
    # A node that both returns and fails at one tick counts as failed.
    return sorted(outages, key=lambda it: (it.tick, not it.is_ready, it.node))


def _equal(group: NodeGroup, found: Findings, at: int) -> list[NodeRow]:
    count = int(found.number(group.count, "nodes", at, "count", least=1, most=MOST_NODES))
    gpus = int(found.number(group.gpus, "nodes", at, "gpus", most=MOST_GPUS_OF_NODE))
    devices = device_count(group.devices, found, at)
    cpu = memory = None
    for key, read in (("cpu", milli_cpu), ("memory", memory_units)):
        amount = getattr(group, key)
        if amount is not None:
            try:
                units = read(amount, False)
            except UnitError as error:
                found.add(str(error), "nodes", at, key, fix=error.fix)
                continue
            cpu, memory = (units, memory) if key == "cpu" else (cpu, units)
    if not group.gpus and group.devices is None and group.cpu is None:
        found.add("has neither GPUs nor cpu", "nodes", at, fix="write gpus: 8, or cpu: 64")
    card_mib = mib_of(group.gpu_memory, found, "nodes", at, "gpuMemory")
    if group.gpu_memory is not None and not group.gpus:
        found.add("is for nodes with GPUs", "nodes", at, "gpuMemory", fix="write gpus, or drop it")
    amounts = node_amounts(gpus, cpu, memory, devices)
    amounts = with_devices(amounts, group.devices, devices)
    width = max(len(str(count - 1)), 1)
    return [
        NodeRow(f"{group.name}-{number:0{width}d}", amounts, labels=group.labels, card_mib=card_mib)
        for number in range(count)
    ]


def _traced(group: NodeGroup, found: Findings, folder: Path, at: int) -> list[NodeRow]:
    if group.gpu_memory is not None:
        found.add("conflicts with trace", "nodes", at, "gpuMemory", fix="leave it out")
    if group.gpus or group.count != 1 or group.cpu is not None or group.memory is not None:
        fix = "leave out count, gpus, cpu and memory: the trace has them"
        found.add("conflicts with trace", "nodes", at, fix=fix)
    try:
        return read_nodes(place_of(group.trace, folder, "nodes.csv"), group.name)
    except ConfigError as error:
        found.add_error(error, "", "nodes", at, "trace")
        return []


def _in_pool(row: NodeRow, group: NodeGroup, found: Findings, at: int) -> NodeRow:
    """Return a node of a group with the label of its pool."""
    pool = labels.pool_named(group.pool)
    if not pool:
        return row
    if row.labels.get(labels.NODE_POOL, pool) != pool:
        fix = f"keep pool, or the label {labels.NODE_POOL}"
        found.add("conflicts with labels", "nodes", at, "pool", value=group.pool, fix=fix)
    return replace(row, labels={**row.labels, labels.NODE_POOL: pool})


def _most_out(group: NodeGroup) -> int:
    return max((outage.nodes for outage in group.outages), default=0)


def _check_outages(group: NodeGroup, count: int, found: Findings, at: int) -> None:
    for number, outage in enumerate(group.outages):
        path = ("nodes", at, "outages", number, "nodes")
        found.number(outage.nodes, *path, least=1, most=max(count, 1))


def _planned(group: NodeGroup, number: int, found: Findings, at: int) -> list[Span]:
    spans = []
    for row, outage in enumerate(group.outages):
        if number >= outage.nodes:
            continue
        path = ("nodes", at, "outages", row)
        begin_s = found.seconds(outage.at, *path, "at")
        end_s = float("inf")
        if outage.until is not None:
            end_s = found.seconds(outage.until, *path, "until")
            if end_s <= begin_s:
                fix = "write an instant after at"
                found.add("is not after at", *path, "until", value=outage.until, fix=fix)
        spans.append((begin_s, end_s))
    return spans


def _by_chance(
    group: NodeGroup, name: str, found: Findings, at: int, chance: Chance, horizon_s: float
) -> list[Span]:
    assert group.failures is not None
    path = ("nodes", at, "failures")
    between_s = found.seconds(group.failures.mean_time_between, *path, "meanTimeBetween", least=1.0)
    repair_s = found.seconds(
        group.failures.mean_time_to_repair, *path, "meanTimeToRepair", least=1.0
    )
    stream = chance.stream("failures", name)
    spans: list[Span] = []
    now_s = float(stream.exponential(between_s))
    while now_s < horizon_s and len(spans) < _MOST_FAILURES:
        end_s = now_s + float(stream.exponential(repair_s))
        spans.append((now_s, end_s))
        now_s = end_s + float(stream.exponential(between_s))
    return spans


def _merged(spans: list[Span]) -> list[Span]:
    merged: list[Span] = []
    for begin_s, end_s in sorted(spans):
        if merged and begin_s <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(merged[-1][1], end_s))
        else:
            merged.append((begin_s, end_s))
    return merged
