"""``kaisched why``: why a job or a pod waits, how far it is from its turn, and what would help."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from kaisched.cli import source

_NAME = typer.Argument(
    help="Name of a pod group or a pod, or NAMESPACE/NAME.", metavar="JOB|POD", show_default=False
)


def command(
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
    output: Annotated[
        Literal["text", "json", "yaml", "csv"], typer.Option("-o", "--output", help="How to print.")
    ] = "text",
) -> None:
    """Say why a job or a pod waits, which job is ahead of it, and what would let it start.

    With --server the answer is that of a running scheduler. Otherwise the daemon's own cycle runs
    on a copy of the state, in this process; nothing is changed anywhere. Where no source is
    named, that is KAISCHED_SERVER, a scheduler on this machine that runs with --view, or the
    cluster of the kubeconfig.

    The next step was tried on the copy before it is printed; where none helps, that is said.
    """
    from kaisched.cli import why_text  # noqa: PLC0415 - not for the help
    from kaisched.cli.output import Printer, show  # noqa: PLC0415 - not for the help

    place = source.Place(
        files or (), snapshot, daemon, kubeconfig, context, shard, shard_name, server
    )
    printer = Printer(why_text.print_text, why_text.rows)
    if (live := source.server_of(place)) is not None:
        show(live, lambda: live.why(name), printer, output, is_watched=watch)
        return
    source.check_watch(is_watched=watch)
    cycle = source.cycle_of(place)
    cycle.warn()
    found = why_text.find(cycle.result, name)
    printer.print(why_text.document(cycle.result, found), output)
    cycle.end()
