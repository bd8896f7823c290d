"""``kaisched queue``: what queues are entitled to, hold and ask for, and their waiting jobs."""

from __future__ import annotations

import json
from typing import Annotated, Literal

import typer

from kaisched.cli import source

command = typer.Typer()
_OUTPUT = typer.Option("-o", "--output", help="How to print.")
_NAME = typer.Argument(help="The queue.", metavar="QUEUE", show_default=False)


@command.callback()
def _group() -> None:
    """Show queues: what they are entitled to, hold and ask for, and which jobs wait.

    Nothing is changed anywhere.
    """


@command.command("ls")
def ls(
    *,
    files: source.Files = None,
    snapshot: source.Snapshot = None,
    daemon: source.Daemon = "",
    kubeconfig: source.Kubeconfig = None,
    context: source.Context = None,
    shard: source.ShardFile = None,
    shard_name: source.ShardName = "",
    output: Annotated[Literal["table", "json"], _OUTPUT] = "table",
) -> None:
    """List all queues as a tree: fair share, allocated, requested and quota, and waiting jobs.

    The daemon's own cycle runs on a copy of the state, in this process. Without -f, --snapshot and
    --daemon the cluster of the kubeconfig is read.
    """
    place = source.Place(files or (), snapshot, daemon, kubeconfig, context, shard, shard_name)
    _show(place, None, output)


@command.command("show")
def show(
    name: Annotated[str, _NAME],
    *,
    files: source.Files = None,
    snapshot: source.Snapshot = None,
    daemon: source.Daemon = "",
    kubeconfig: source.Kubeconfig = None,
    context: source.Context = None,
    shard: source.ShardFile = None,
    shard_name: source.ShardName = "",
    output: Annotated[Literal["table", "json"], _OUTPUT] = "table",
) -> None:
    """Show one queue with those above and below it, and its waiting jobs in order.

    The state is read as by `kaisched queue ls`.
    """
    place = source.Place(files or (), snapshot, daemon, kubeconfig, context, shard, shard_name)
    _show(place, name, output)


def _show(place: source.Place, name: str | None, output: str) -> None:
    from kaisched.cli.queue_text import document, print_tables  # noqa: PLC0415 - not for the help

    cycle = source.cycle_of(place)
    cycle.warn()
    if output == "json":
        print(json.dumps(document(cycle.result, name), indent=2))  # noqa: T201
    else:
        print_tables(cycle.result, name)
    cycle.end()
