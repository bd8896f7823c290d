"""Nodes of a scenario: groups of equal nodes with their devices, topology and outages."""

from __future__ import annotations

import re
from collections.abc import Sequence
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
from kaisched.sim.scenario.findings import Findings
from kaisched.sim.ticks import tick_at
from kaisched.sim.traces import place_of, read_nodes
from kaisched.sim.workload import PodKind, pod_of
from kaisched.units import CLAIMED_GPU, MEBIBYTE, memory_units, milli_cpu

MOST_MIB = 1 << 30


def mib_of(amount: Amount | None, found: Findings) -> int:
    """Return the whole MiB of the key ``gpuMemory``; 0 where nothing is written."""
    if amount is None:
        return 0
    units = found.units(memory_units, amount, "gpuMemory", is_request=False)
    if units is None:
        return 0
    mib = units // MEBIBYTE
    if not 0 < mib <= MOST_MIB:
        fix = "write 1Mi or more, with a suffix, such as 20Gi"
        found.add("is no amount of memory of a GPU", "gpuMemory", value=amount, fix=fix)
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

    def add(self, group: NodeGroup, rows: Sequence[NodeRow], found: Findings) -> None:
        """Add the devices of the nodes of a group."""
        line = group.devices
        if line is None:
            return
        found = found.inside("devices")
        if group.gpus or group.trace:
            other = "trace" if group.trace else "gpus"
            fix = f"keep {other} or devices, or give the devices nodes of their own"
            found.add(f"conflicts with {other}", fix=fix)
        if not _NAME.fullmatch(line.class_):
            fix = "write lower-case letters, digits, - and ., such as gpu.example.com"
            found.add("is no name of a class", "class", value=line.class_, fix=fix)
            return
        described = _described(line, found)
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


def claim_of(group: JobGroup, offered: Offered, found: Findings) -> Claim | None:
    """Return what each pod of a group of jobs claims, None for jobs that ask for GPUs."""
    line = group.claim
    if line is None:
        return None
    found = found.inside("claim")
    for key, is_there in (
        ("gpus", group.gpus is not None),
        ("gpuMemory", group.gpu_memory is not None),
        ("cards", group.cards != 1),
        ("sizes", bool(group.sizes)),
    ):
        if is_there:
            found.add(f"conflicts with {key}", fix=f"keep {key} or claim")
    count = int(found.number(line.count, "count", least=1, most=MOST_RESULTS))
    if not found.known(line.class_, offered.classes, "class of devices", "class"):
        return None
    there = [device for it in offered.samples if it.driver == line.class_ for device in it.devices]
    same = _qualified(line.same_attribute, line.class_)
    if same and all(it.attribute(same) is None for it in there):
        known = sorted({name for it in there for name in it.attributes})
        found.known(line.same_attribute, known, "attribute", "sameAttribute")
        return None
    ask = Ask("devices", line.class_, (line.selector,) if line.selector else (), count)
    constraints = (Constraint((), same),) if same else ()
    claim = Claim((Request(ask.name, (ask,)),), constraints)
    _try(claim, line.selector, there, offered, found)
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
        found.add(str(error), "selector", fix=fix)
        return
    found.warn("no node has such devices for it, so these jobs wait for ever")


def _qualified(name: str, driver: str) -> str:
    return name if not name or "/" in name else f"{driver}/{name}"


# -- the devices of a node -----------------------------------------------------------------------

_Described = tuple[dict[str, Value], dict[str, Capacity]]


def _described(line: DeviceLine, found: Findings) -> list[_Described]:
    """Return attributes and capacities of each device of a node."""
    count = line.count if 1 <= line.count <= MOST_DEVICES else 1
    described: list[_Described] = [({}, {}) for _ in range(count)]
    for name, written in line.attributes.items():
        values: list[Attribute] = _each(written, count, found.inside("attributes", name))
        for (attributes, _), value in zip(described, values, strict=False):  # none of an empty list
            attributes[name] = _value(value)
    for name, amounts in line.capacity.items():
        where = found.inside("capacity", name)
        for (_, capacities), amount in zip(described, _each(amounts, count, where), strict=False):
            try:
                text = str(amount)
                quantity = Quantity(nanos_of(text), text.endswith("i"))
            except ClaimError as error:
                where.add(str(error), value=amount, fix="write an amount such as 80Gi")
                break
            capacities[name] = Capacity(quantity)
    return described


def _each(written: T | list[T], count: int, found: Findings) -> list[T]:
    """Return the value of each device; none of an empty list."""
    if not isinstance(written, list):
        return [written] * count
    if len(written) != count:
        fix = f"write {count}, one for each device, or one value for all"
        plural = "" if len(written) == 1 else "s"
        found.add(f"has {len(written)} value{plural}", fix=fix)
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
    found = found.inside("topology")
    if len(lines) > _MOST_LEVELS:
        fix = f"a Topology has at most {_MOST_LEVELS} levels"
        found.add("there are too many levels", value=len(lines), fix=fix)
    names = [line.level for line in lines]
    for at, line in enumerate(lines):
        found.number(line.nodes, at, "nodes", least=1)
        if not line.level or line.level in names[:at]:
            fix = "give each level a name of its own"
            found.add("is no new name", at, "level", value=line.level, fix=fix)
    for at, (outer, inner) in enumerate(pairwise(lines), 1):
        if inner.nodes > 0 and outer.nodes % inner.nodes:
            fix = f"write a divisor of {outer.nodes}, the nodes of a domain of {outer.level}"
            found.add("does not divide", at, "nodes", value=inner.nodes, fix=fix)
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


def wish_of(group: JobGroup, levels: Sequence[str], found: Findings) -> TopologyConstraint | None:
    """Return what a group of jobs asks for, if anything."""
    asked = {"requiredLevel": group.required_level, "preferredLevel": group.preferred_level}
    for key, level in asked.items():
        if level:
            found.known(level, list(levels), "level of the topology", key)
    patience_s = 0.0
    if group.patience is not None:
        patience_s = found.seconds(group.patience, "patience")
        if not group.preferred_level:
            fix = "give the preferredLevel for which the jobs wait"
            found.add("needs a level", "patience", value=group.patience, fix=fix)
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
        part = found.inside("nodes", at)
        rows = _traced(group, part, folder) if group.trace else _equal(group, part)
        pooled = [_in_pool(row, group, part) for row in rows]
        for number, row in enumerate(pooled):
            if row.name in names:
                fix = "give each group a name of its own"
                part.add("two nodes have this name", "name", value=row.name, fix=fix)
                break
            names.add(row.name)
            spans = _planned(group, number, part)
            if group.failures is not None:
                spans += _by_chance(group, row.name, part, chance, horizon_s)
            made.append((row, _merged(spans)))
        for number, outage in enumerate(group.outages):
            part.number(outage.nodes, "outages", number, "nodes", least=1, most=max(len(rows), 1))
        offered.add(group, pooled, part)
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


def _equal(group: NodeGroup, found: Findings) -> list[NodeRow]:
    count = int(found.number(group.count, "count", least=1, most=MOST_NODES))
    gpus = int(found.number(group.gpus, "gpus", most=MOST_GPUS_OF_NODE))
    line, devices = group.devices, 0
    if line is not None:
        devices = int(found.number(line.count, "devices", "count", least=1, most=MOST_DEVICES))
    cpu = memory = None
    if group.cpu is not None:
        cpu = found.units(milli_cpu, group.cpu, "cpu", is_request=False)
    if group.memory is not None:
        memory = found.units(memory_units, group.memory, "memory", is_request=False)
    if not group.gpus and group.devices is None and group.cpu is None:
        found.add("has neither GPUs nor cpu", fix="write gpus: 8, or cpu: 64")
    card_mib = mib_of(group.gpu_memory, found)
    if group.gpu_memory is not None and not group.gpus:
        found.add("is for nodes with GPUs", "gpuMemory", fix="write gpus, or drop it")
    amounts = node_amounts(gpus, cpu, memory, devices)
    if line is not None and is_of_gpus(line.class_):
        amounts[CLAIMED_GPU] = GPU_UNIT * devices
    width = max(len(str(count - 1)), 1)
    return [
        NodeRow(f"{group.name}-{number:0{width}d}", amounts, labels=group.labels, card_mib=card_mib)
        for number in range(count)
    ]


def _traced(group: NodeGroup, found: Findings, folder: Path) -> list[NodeRow]:
    if group.gpu_memory is not None:
        found.add("conflicts with trace", "gpuMemory", fix="leave it out")
    if group.gpus or group.count != 1 or group.cpu is not None or group.memory is not None:
        fix = "leave out count, gpus, cpu and memory: the trace has them"
        found.add("conflicts with trace", fix=fix)
    try:
        return read_nodes(place_of(group.trace, folder, "nodes.csv"), group.name)
    except ConfigError as error:
        found.add_error(error, "", "trace")
        return []


def _in_pool(row: NodeRow, group: NodeGroup, found: Findings) -> NodeRow:
    """Return a node of a group with the label of its pool."""
    pool = labels.pool_named(group.pool)
    if not pool:
        return row
    if row.labels.get(labels.NODE_POOL, pool) != pool:
        fix = f"keep pool, or the label {labels.NODE_POOL}"
        found.add("conflicts with labels", "pool", value=group.pool, fix=fix)
    return replace(row, labels={**row.labels, labels.NODE_POOL: pool})


def _planned(group: NodeGroup, number: int, found: Findings) -> list[Span]:
    spans = []
    for row, outage in enumerate(group.outages):
        if number >= outage.nodes:
            continue
        part = found.inside("outages", row)
        begin_s = part.seconds(outage.at, "at")
        end_s = float("inf")
        if outage.until is not None:
            end_s = part.seconds(outage.until, "until")
            if end_s <= begin_s:
                fix = "write an instant after at"
                part.add("is not after at", "until", value=outage.until, fix=fix)
        spans.append((begin_s, end_s))
    return spans


def _by_chance(
    group: NodeGroup, name: str, found: Findings, chance: Chance, horizon_s: float
) -> list[Span]:
    assert group.failures is not None
    said, found = group.failures, found.inside("failures")
    between_s = found.seconds(said.mean_time_between, "meanTimeBetween", least=1.0)
    repair_s = found.seconds(said.mean_time_to_repair, "meanTimeToRepair", least=1.0)
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
