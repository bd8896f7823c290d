"""Summary of a snapshot, for people and as ``kaisched.io/snapshot-summary/v1``."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

import msgspec

from kaisched import __version__
from kaisched.cli.plan_tables import print_waiting
from kaisched.cli.printing import Column, print_table
from kaisched.engine.replaying import digest
from kaisched.objects.labels import format_time
from kaisched.units import format_amount
from kaisched.view.documents import amounts, cycle_document

if TYPE_CHECKING:
    from kaisched.engine.recording import Recording
    from kaisched.engine.replaying import Replay

SCHEMA: Final = "kaisched.io/snapshot-summary/v1"
_FACTS: Final = (Column("WHAT"), Column("VALUE"))
_NODES: Final = (
    Column("NODE"),
    Column("GPUS", is_number=True),
    Column("IDLE", is_number=True),
    Column("RELEASING", is_number=True),
    Column("CPU IDLE", is_number=True, may_go=True),
    Column("MEMORY IDLE", is_number=True, may_go=True),
)


def print_tables(recording: Recording, again: Replay) -> None:
    """Print a snapshot's origin, nodes and queues, and the jobs pending after its cycle."""
    print_table("Snapshot", _FACTS, [(key, _text(it)) for key, it in _facts(recording).items()])
    print_table("Nodes", _NODES, [_node_cells(node) for node in _nodes(again)])
    print_waiting(again.result)


def print_document(recording: Recording, again: Replay) -> None:
    """Print the summary of a snapshot as JSON."""
    cycle = cycle_document(again.result)
    document = {
        "schemaVersion": SCHEMA,
        **_facts(recording),
        "nodes": [
            {key: amounts(it) if isinstance(it, dict) else it for key, it in node.items()}
            for node in _nodes(again)
        ],
        "queues": cycle["queues"],
        "pending": cycle["pending"],
    }
    print(json.dumps(document, indent=2))  # noqa: T201


def verdict(recording: Recording, again: Replay, *, is_other: bool) -> str:
    """Say in one line how a replay compares with the recorded result."""
    now = digest(again.result)
    if is_other:
        return f"by another shard: result {now[:12]}, recorded {recording.result[:12] or 'none'}"
    if not recording.result:
        return f"no result was recorded; this one is {now[:12]}"
    if now == recording.result:
        return f"the same result as recorded, byte for byte: {now[:12]}"
    made = recording.versions
    return (
        f"DIFFERENT result from the recorded one: {now[:12]}, recorded {recording.result[:12]}"
        f" by kaisched {made.kaisched} with numpy {made.numpy}; this is {__version__}"
    )


def _facts(recording: Recording) -> dict[str, Any]:
    kinds: dict[str, int] = {}
    for data in recording.objects:
        kind = str(msgspec.json.decode(data).get("kind", ""))
        kinds[kind] = kinds.get(kind, 0) + 1
    usage = recording.usage
    spec = recording.shard.get("spec", {})
    return {
        "from": recording.origin,
        "time": format_time(recording.now_s),
        "redacted": recording.is_redacted,
        "kaisched": recording.versions.kaisched,
        "plugins": recording.versions.plugins,
        "shard": str(recording.shard.get("metadata", {}).get("name", "")),
        "nodePool": str(spec.get("partitionLabelValue", "")),
        "schedulerNames": recording.scheduler_names,
        "objects": dict(sorted(kinds.items())),
        "owners": len(recording.owners),
        "sent": len(recording.assumed),
        "remembers": sorted(recording.facts),
        "usage": "none" if usage is None else usage.state,
        "usageCoverage": None if usage is None else usage.coverage,
        "result": recording.result,
    }


def _text(value: object) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name} {it}" for name, it in value.items()) or "none"
    if isinstance(value, list):
        return ", ".join(map(str, value)) or "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "none" if value in {None, ""} else str(value)


def _nodes(again: Replay) -> list[dict[str, Any]]:
    """Return each node as the cycle found it; amounts in base units."""
    nodes, names = again.snapshot.nodes, again.snapshot.axis.names
    return [
        {
            "name": name,
            "allocatable": dict(zip(names, nodes.allocatable[:, row].tolist(), strict=True)),
            "idle": dict(zip(names, nodes.idle[:, row].tolist(), strict=True)),
            "releasing": dict(zip(names, nodes.releasing[:, row].tolist(), strict=True)),
        }
        for row, name in enumerate(nodes.name)
    ]


def _node_cells(node: dict[str, Any]) -> tuple[str, ...]:
    pairs = (
        ("gpu", "allocatable"),
        ("gpu", "idle"),
        ("gpu", "releasing"),
        ("cpu", "idle"),
        ("memory", "idle"),
    )
    return (node["name"], *(format_amount(name, node[place][name]) for name, place in pairs))
