"""``kaisched snapshot``: one file with all inputs of a cycle."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from kaisched.cli import flags, source

if TYPE_CHECKING:
    from collections.abc import Sequence

command = typer.Typer()
_FILE = typer.Argument(help="The snapshot; compressed or not.", show_default=False)
_OUTPUT = typer.Option("-o", "--output", help="How to print.")


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
    kubeconfig: flags.Kubeconfig = None,
    context: flags.Context = None,
    shard: flags.Shard = None,
    shard_name: Annotated[
        str, typer.Option(help="Which shard of the cluster or daemon, where there are several.")
    ] = "",
    redact: Annotated[
        bool, typer.Option("--redact", help="Without names, labels and annotations.")
    ] = False,
) -> None:
    """Write a snapshot: of a live cluster, of manifests, or of a running scheduler.

    Without -f and --daemon the cluster of the kubeconfig is read, as `kaisched run --cluster
    kubernetes` would; nothing is written to it. Only a running scheduler knows which of its writes
    are unconfirmed, what its plugins remember and its own usage history. Its settings must say
    `snapshots.enabled: true`.

    Addresses and passwords of usage stores are never in a snapshot. With --redact every name, UID,
    label and annotation is replaced by an alias, equal ones by the same alias, and fields that a
    cycle does not read are left out. The arguments of plugins remain.
    """
    from kaisched.cli.printing import warn  # noqa: PLC0415 - not for the help
    from kaisched.engine.recording_file import write_recording  # noqa: PLC0415 - not for the help

    place = source.Place(files or (), None, daemon, kubeconfig, context, shard, shard_name)
    taken = source.taken_by_own_shard(place)
    recording, warnings = taken.recording, list(taken.warnings)
    if redact:
        from kaisched.engine.redaction import redacted  # noqa: PLC0415 - only when asked

        recording, more = redacted(recording, str(file))
        warnings += more
    for text in [*warnings, *taken.problems]:
        warn(text)
    write_recording(recording, file)
    print(f"{file}: {len(recording.objects)} objects, result {recording.result[:12]}")  # noqa: T201
    if taken.problems:
        raise typer.Exit(1)


@command.command("show")
def show(
    file: Annotated[Path, _FILE],
    output: Annotated[Literal["table", "json"], _OUTPUT] = "table",
) -> None:
    """Print what is in a snapshot: its origin, nodes, queues with shares, pending jobs."""
    from kaisched.cli.snapshot_text import print_document, print_tables  # noqa: PLC0415 - as above
    from kaisched.engine.recording_file import read_recording  # noqa: PLC0415 - not for the help
    from kaisched.engine.replaying import replay  # noqa: PLC0415 - not for the help

    recording = read_recording(file)
    again = replay(recording, str(file))
    (print_document if output == "json" else print_tables)(recording, again)
    _end(again.problems, is_same=True)


@command.command("replay")
def replay_again(
    file: Annotated[Path, _FILE],
    *,
    shard: Annotated[
        Path | None, typer.Option(help="Run by this SchedulingShard instead of the recorded one.")
    ] = None,
    output: Annotated[Literal["table", "json"], _OUTPUT] = "table",
) -> None:
    """Run the cycle of a snapshot again and say whether it gives the same result.

    Prints what `kaisched plan` does. Without --shard, the result is the same byte for byte unless
    the scheduler or a plugin has changed. The exit code is 1 if it differs.
    """
    import json  # noqa: PLC0415 - only when asked

    from kaisched.cli.plan_tables import print_plan  # noqa: PLC0415 - not for the help
    from kaisched.cli.snapshot_text import verdict  # noqa: PLC0415 - not for the help
    from kaisched.engine.desks import step_of  # noqa: PLC0415 - not for the help
    from kaisched.engine.recording_file import read_recording  # noqa: PLC0415 - not for the help
    from kaisched.engine.replaying import digest, recorded_shard, replay  # noqa: PLC0415
    from kaisched.engine.shards import read_shard  # noqa: PLC0415 - not for the help
    from kaisched.view.documents import plan_document  # noqa: PLC0415 - not for the help

    recording = read_recording(file)
    other = read_shard(shard).shard if shard is not None else None
    again = replay(recording, str(file), other)
    step = step_of(other or recorded_shard(recording, str(file)), again.result)
    is_same = other is not None or not recording.result or recording.result == digest(again.result)
    if output == "json":
        document = plan_document([step], again.problems, again.warnings)
        print(json.dumps(document | {"result": digest(again.result)}, indent=2))  # noqa: T201
    else:
        print_plan([step])
        print(verdict(recording, again, is_other=other is not None))  # noqa: T201
    _end(again.problems, is_same=is_same)


def _end(problems: Sequence[object], *, is_same: bool) -> None:
    from kaisched.cli.printing import warn  # noqa: PLC0415 - not for the help

    for problem in problems:
        warn(str(problem))
    if problems or not is_same:
        raise typer.Exit(1)
