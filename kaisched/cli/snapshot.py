"""``kaisched snapshot``: one file with all inputs of a cycle; its summary, and its replay."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kaisched import __version__
from kaisched.cli import options
from kaisched.cli.plan import print_plan, print_waiting
from kaisched.cli.printing import columns, print_document, print_table, say, warn
from kaisched.objects.labels import format_time
from kaisched.units import format_amount

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kaisched.engine.recording import Recording, Replay

command = typer.Typer()
_FILE = typer.Argument(help="The snapshot; compressed or not.", show_default=False)


@command.callback()
def _group() -> None:
    """Record the inputs of a cycle, show them, and run the cycle again.

    A snapshot is JSON. It holds the objects, the shard, usage and the scheduler's memory.
    """


@command.command("take")
def take(
    *,
    file: Annotated[Path, typer.Argument(help="File to write; compressed if it ends in .gz.")],
    files: Annotated[
        list[str] | None,
        typer.Option(
            "-f", "--filename", help="Take it from manifests, as `kaisched plan` does; - for stdin."
        ),
    ] = None,
    daemon: Annotated[
        str, typer.Option(help="Take it from a running scheduler, such as http://127.0.0.1:8082.")
    ] = "",
    kubeconfig: options.Kubeconfig = None,
    context: options.Context = None,
    shard: options.Shard = None,
    shard_name: options.ShardName = "",
    redact: Annotated[
        bool, typer.Option("--redact", help="Without names, labels and annotations.")
    ] = False,
) -> None:
    """Write a snapshot: of a live cluster, of manifests, or of a running scheduler.

    Without -f and --daemon the cluster of the kubeconfig is read; nothing is written to it. Only a
    running scheduler, with `snapshots.enabled: true`, knows its unconfirmed writes, what its
    plugins remember and its own usage history.

    Addresses and passwords of usage stores are never in a snapshot. --redact replaces names, UIDs,
    labels and annotations by aliases and leaves out fields that a cycle does not read; the
    arguments of plugins remain.
    """
    from kaisched.cli.cycles import taken_by_own_shard  # noqa: PLC0415 - not for the help
    from kaisched.engine.recording import write_recording  # noqa: PLC0415 - not for the help

    place = options.Place(files or (), None, daemon, kubeconfig, context, shard, shard_name)
    taken = taken_by_own_shard(place)
    recording, warnings = taken.recording, list(taken.warnings)
    if redact:
        from kaisched.engine.redaction import redacted  # noqa: PLC0415 - only when asked

        recording, more = redacted(recording, str(file))
        warnings += more
    for text in [*warnings, *taken.problems]:
        warn(text)
    write_recording(recording, file)
    say(f"{file}: {len(recording.objects)} objects, result {recording.result[:12]}")
    if taken.problems:
        raise typer.Exit(1)


@command.command("show")
def show(
    file: Annotated[Path, _FILE],
    output: options.Output = "table",
) -> None:
    """Print what is in a snapshot: its origin, nodes, queues with shares, pending jobs."""
    from kaisched.engine.recording import read_recording, replay  # noqa: PLC0415 - as above

    recording = read_recording(file)
    again = replay(recording, str(file))
    if output == "table":
        _print_tables(recording, again)
    else:
        print_document(_summary_of(recording, again), output)
    _end(again.problems, is_same=True)


@command.command("replay")
def replay_again(
    file: Annotated[Path, _FILE],
    *,
    shard: Annotated[
        Path | None, typer.Option(help="Run by this SchedulingShard instead of the recorded one.")
    ] = None,
    output: options.Output = "table",
) -> None:
    """Run the cycle of a snapshot again and say whether it gives the same result.

    Prints what `kaisched plan` does. Without --shard, the result is the same bytes unless the
    scheduler or a plugin has changed; if it differs, the exit code is 1.
    """
    from kaisched.engine.planning import step_of  # noqa: PLC0415 - not for the help
    from kaisched.engine.recording import (  # noqa: PLC0415
        digest,
        read_recording,
        recorded_shard,
        replay,
    )
    from kaisched.engine.shards import read_shard  # noqa: PLC0415 - not for the help
    from kaisched.view.documents import plan_document  # noqa: PLC0415 - not for the help

    recording = read_recording(file)
    other = read_shard(shard).shard if shard is not None else None
    again = replay(recording, str(file), other)
    step = step_of(other or recorded_shard(recording, str(file)), again.result)
    is_same = other is not None or not recording.result or recording.result == digest(again.result)
    if output != "table":
        document = plan_document([step], again.problems, again.warnings)
        print_document(document | {"result": digest(again.result)}, output)
    else:
        print_plan([step])
        say(_verdict(recording, again, is_other=other is not None))
    _end(again.problems, is_same=is_same)


def _end(problems: Sequence[object], *, is_same: bool) -> None:
    for problem in problems:
        warn(str(problem))
    if problems or not is_same:
        raise typer.Exit(1)


def _print_tables(recording: Recording, again: Replay) -> None:
    """Print a snapshot's origin, nodes and queues, and the jobs pending after its cycle."""
    print_table(
        "Snapshot",
        columns("WHAT", "VALUE"),
        [(key, _text(it)) for key, it in _facts(recording).items()],
    )
    heads = columns("NODE", "#GPUS", "#IDLE", "#RELEASING", "#?CPU IDLE", "#?MEMORY IDLE")
    print_table("Nodes", heads, [_node_cells(node) for node in _nodes(again)])
    print_waiting(again.result)


def _summary_of(recording: Recording, again: Replay) -> dict[str, Any]:
    """Return what is in a snapshot, as a document."""
    from kaisched.view.documents import amounts, cycle_document  # noqa: PLC0415 - as needed

    cycle = cycle_document(again.result)
    return {
        "schemaVersion": "kaisched.io/snapshot-summary/v1",
        **_facts(recording),
        "nodes": [
            {key: amounts(it) if isinstance(it, dict) else it for key, it in node.items()}
            for node in _nodes(again)
        ],
        "queues": cycle["queues"],
        "pending": cycle["pending"],
    }


def _verdict(recording: Recording, again: Replay, *, is_other: bool) -> str:
    """Say in one line how a replay compares with the recorded result."""
    from kaisched.engine.recording import digest  # noqa: PLC0415 - not for the help

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
        kind = str(json.loads(bytes(data)).get("kind", ""))
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
