"""``kaisched queue``: what queues are entitled to, hold and ask for, and their waiting jobs."""

from __future__ import annotations

from functools import partial
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
    server: source.ServerUrl = "",
    files: source.Files = None,
    snapshot: source.Snapshot = None,
    daemon: source.Daemon = "",
    kubeconfig: source.Kubeconfig = None,
    context: source.Context = None,
    shard: source.ShardFile = None,
    shard_name: source.ShardName = "",
    watch: source.Watch = False,
    output: Annotated[Literal["table", "json", "yaml", "csv"], _OUTPUT] = "table",
) -> None:
    """List all queues as a tree: fair share, allocated, requested and quota, and waiting jobs.

    With --server the answer is that of a running scheduler. Otherwise the daemon's own cycle runs
    on a copy of the state, in this process. Where no source is named, that is KAISCHED_SERVER, a
    scheduler on this machine that runs with --view, or the cluster of the kubeconfig.
    """
    place = source.Place(
        files or (), snapshot, daemon, kubeconfig, context, shard, shard_name, server
    )
    _show(place, None, output, is_watched=watch)


@command.command("show")
def show(
    name: Annotated[str, _NAME],
    *,
    server: source.ServerUrl = "",
    files: source.Files = None,
    snapshot: source.Snapshot = None,
    daemon: source.Daemon = "",
    kubeconfig: source.Kubeconfig = None,
    context: source.Context = None,
    shard: source.ShardFile = None,
    shard_name: source.ShardName = "",
    watch: source.Watch = False,
    output: Annotated[Literal["table", "json", "yaml", "csv"], _OUTPUT] = "table",
) -> None:
    """Show one queue with those above and below it, and its waiting jobs in order.

    The state is read as by `kaisched queue ls`.
    """
    place = source.Place(
        files or (), snapshot, daemon, kubeconfig, context, shard, shard_name, server
    )
    _show(place, name, output, is_watched=watch)


def _show(place: source.Place, name: str | None, output: str, *, is_watched: bool) -> None:
    from kaisched.cli import output as out  # noqa: PLC0415 - not for the help
    from kaisched.cli import queue_text  # noqa: PLC0415 - not for the help

    printer = out.Printer(
        partial(queue_text.print_tables, with_jobs=name is not None),
        queue_text.rows if name is None else queue_text.job_rows,
    )
    if (live := source.server_of(place)) is not None:
        out.show(live, lambda: live.queues(name), printer, output, is_watched=is_watched)
        return
    source.check_watch(is_watched=is_watched)
    cycle = source.cycle_of(place)
    cycle.warn()
    printer.print(queue_text.document(cycle.result, name), output)
    cycle.end()
