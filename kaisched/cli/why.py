"""``kaisched why``: why a job or a pod waits, how far it is from its turn, and what would help."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from kaisched.cli import source

_WHEN = typer.Option(
    "--when", help="Say when the job may start too: the cycle is run ahead in virtual time."
)
_NAME = typer.Argument(
    help="Name of a pod group, a pod or its workload, or NAMESPACE/NAME.",
    metavar="JOB|POD",
    show_default=False,
)


def command(
    name: Annotated[str, _NAME],
    *,
    files: source.Files = None,
    snapshot: source.Snapshot = None,
    daemon: source.Daemon = "",
    kubeconfig: source.Kubeconfig = None,
    context: source.Context = None,
    shard: source.ShardFile = None,
    shard_name: source.ShardName = "",
    when: Annotated[bool, _WHEN] = False,
    output: Annotated[
        Literal["text", "json"], typer.Option("-o", "--output", help="How to print.")
    ] = "text",
) -> None:
    """Say why a job or a pod waits, which job is ahead of it, and what would let it start.

    The daemon's own cycle runs on a copy of the state, in this process; nothing is changed
    anywhere. Without -f, --snapshot and --daemon the cluster of the kubeconfig is read.

    The next step was tried on the copy before it is printed; where none helps, that is said.

    With --when, the cycle goes on from there in virtual time, ten times with other run times and
    new jobs by chance: the job starts between the times printed, if what is assumed comes true. The
    assumptions are printed too. It takes seconds, and a minute at most.
    """
    from kaisched.cli.why_text import document, find, print_text  # noqa: PLC0415 - not for the help

    place = source.Place(files or (), snapshot, daemon, kubeconfig, context, shard, shard_name)
    cycle = source.cycle_of(place)
    cycle.warn()
    found = find(cycle.result, name)
    foreseen = None
    if when:
        from kaisched.cli.when_text import forecast_of  # noqa: PLC0415 - only when asked

        foreseen = forecast_of(cycle, found.job)
    if output == "json":
        import json  # noqa: PLC0415 - only when asked

        print(json.dumps(document(cycle.result, found, foreseen), indent=2))  # noqa: T201
    else:
        print_text(cycle.result, found, foreseen)
    cycle.end()
