"""Nodes of a scenario: groups of equal nodes, and their outages."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from kaisched.cluster.nodes import NodeRow
from kaisched.errors import ConfigError
from kaisched.objects import labels
from kaisched.sim.chance import Chance
from kaisched.sim.cluster import node_amounts
from kaisched.sim.grid import tick_at
from kaisched.sim.reading import place_of
from kaisched.sim.replay import Outage
from kaisched.sim.scenario.claims import Offered, device_count, with_devices
from kaisched.sim.scenario.document import NodeGroup
from kaisched.sim.scenario.findings import Findings
from kaisched.sim.scenario.gpu_memory import mib_of
from kaisched.sim.traces.openb import read_nodes
from kaisched.units import UnitError, memory_units, milli_cpu

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
