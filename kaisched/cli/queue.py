"""``kaisched queue``: what queues are entitled to, hold and ask for, and their waiting jobs."""

from __future__ import annotations

from functools import partial
from typing import Annotated

import typer

from kaisched.cli import flags, options, queue_stop, source

command = typer.Typer()
_NAME = typer.Argument(help="The queue.", metavar="QUEUE", show_default=False)

_DRY = typer.Option("--dry-run", help="Let the API server check the change, and keep nothing.")


@command.callback()
def _group() -> None:
    """Show queues: what they are entitled to, hold and ask for, and which jobs wait.

    `hold`, `drain` and `resume` change a queue; the others change nothing.
    """


@command.command("ls")
@options.reads_state(has_view=True)
def ls(
    *,
    place: source.Place,
    watch: source.Watch = False,
    output: options.Listing = "table",
) -> None:
    """List all queues as a tree: fair share, allocated, requested and quota, and waiting jobs.

    With --server the answer is that of a running scheduler. Otherwise the daemon's own cycle runs
    on a copy of the state, in this process. Where no source is named, that is KAISCHED_SERVER, a
    scheduler on this machine that runs with --view, or the cluster of the kubeconfig.
    """
    _show(place, None, output, is_watched=watch)


command.command("tree", help="The same as `kaisched queue ls`.")(ls)


@command.command("show")
@options.reads_state(has_view=True)
def show(
    name: Annotated[str, _NAME],
    *,
    place: source.Place,
    watch: source.Watch = False,
    output: options.Listing = "table",
) -> None:
    """Show one queue with those above and below it, and its waiting jobs in order.

    The state is read as by `kaisched queue ls`.
    """
    _show(place, name, output, is_watched=watch)


@command.command("hold")
def hold(
    name: Annotated[str, _NAME],
    *,
    kubeconfig: flags.Kubeconfig = None,
    context: flags.Context = None,
    dry_run: Annotated[bool, _DRY] = False,
) -> None:
    """Start nothing new in a queue and those below it; what runs goes on.

    Sets spec.stopPolicy of the queue in the cluster of the kubeconfig.
    """
    _stop(name, queue_stop.HOLD, kubeconfig, context, is_dry=dry_run)


@command.command("drain")
def drain(
    name: Annotated[str, _NAME],
    *,
    kubeconfig: flags.Kubeconfig = None,
    context: flags.Context = None,
    dry_run: Annotated[bool, _DRY] = False,
) -> None:
    """Start nothing new in a queue and those below it, and evict what runs there.

    PodDisruptionBudgets and grace periods count. Sets spec.stopPolicy of the queue in the cluster
    of the kubeconfig.
    """
    _stop(name, queue_stop.DRAIN, kubeconfig, context, is_dry=dry_run)


@command.command("resume")
def resume(
    name: Annotated[str, _NAME],
    *,
    kubeconfig: flags.Kubeconfig = None,
    context: flags.Context = None,
    dry_run: Annotated[bool, _DRY] = False,
) -> None:
    """End the hold or the drain of a queue; one above it may still be on hold.

    Sets spec.stopPolicy of the queue in the cluster of the kubeconfig.
    """
    _stop(name, queue_stop.RESUME, kubeconfig, context, is_dry=dry_run)


def _stop(
    name: str, policy: str, kubeconfig: str | None, context: str | None, *, is_dry: bool
) -> None:
    client = queue_stop.client_of(kubeconfig, context)
    print(queue_stop.stop(client, name, policy, is_dry=is_dry))  # noqa: T201


def _show(place: source.Place, name: str | None, output: str, *, is_watched: bool) -> None:
    from kaisched.cli import output as out  # noqa: PLC0415 - not for the help
    from kaisched.cli import queue_text  # noqa: PLC0415 - not for the help

    printer = out.Printer(
        partial(queue_text.print_tables, with_jobs=name is not None),
        queue_text.rows if name is None else queue_text.job_rows,
        out.queue_names,
    )
    if (live := source.server_of(place)) is not None:
        out.show(live, lambda: live.queues(name), printer, output, is_watched=is_watched)
        return
    source.check_watch(is_watched=is_watched)
    if name is not None and source.are_files_alone(place):
        from kaisched.cli.pool_cycles import cycles_with  # noqa: PLC0415 - not for the help

        found = cycles_with(place, name)
        cycle, document = found.cycle, found.document(name)
    else:
        cycle = source.cycle_of(place)
        document = queue_text.document(cycle.result, name)
    cycle.warn()
    printer.print(document, output)
    cycle.end()
