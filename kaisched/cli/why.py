"""``kaisched why``: why a job or a pod waits, how far it is from its turn, and what would help."""

from __future__ import annotations

from functools import partial
from typing import Annotated

import typer

from kaisched.cli import options, source

_WHEN = typer.Option(
    "--when", help="Say when the job may start too: the cycle is run ahead in virtual time."
)
_NAMESPACE = typer.Option("-n", "--namespace", help="Namespace of the job or pod.")
_NAME = typer.Argument(
    help="Name of a pod group, a pod or its workload, or NAMESPACE/NAME.",
    metavar="JOB|POD",
    show_default=False,
)


@options.reads_state(has_view=True)
def command(
    name: Annotated[str, _NAME],
    *,
    place: source.Place,
    namespace: Annotated[str, _NAMESPACE] = "",
    when: Annotated[bool, _WHEN] = False,
    watch: source.Watch = False,
    output: options.Text = "text",
) -> None:
    """Say why a job or a pod waits, which job is ahead of it, and what would let it start.

    With --server the answer is that of a running scheduler. Otherwise the daemon's own cycle runs
    on a copy of the state, in this process; nothing is changed anywhere. Where no source is
    named, that is KAISCHED_SERVER, a scheduler on this machine that runs with --view, or the
    cluster of the kubeconfig.

    The next step was tried on the copy before it is printed; where none helps, that is said.

    With --when, the cycle goes on from there in virtual time, ten times with other run times and
    new jobs by chance: the job starts between the times printed, if what is assumed comes true. The
    assumptions are printed too. It takes seconds, and a minute at most. A running scheduler is not
    asked then, unless by --daemon.
    """
    from kaisched.cli import why_text  # noqa: PLC0415 - not for the help
    from kaisched.cli.output import Printer, show  # noqa: PLC0415 - not for the help

    if namespace and "/" not in name:
        name = f"{namespace}/{name}"
    live = None if when and not place.server else source.server_of(place)
    if live is not None:
        source.check_when(is_asked=when)
        printer = Printer(why_text.print_text, why_text.rows, why_text.names)
        show(live, lambda: live.why(name), printer, output, is_watched=watch)
        return
    source.check_watch(is_watched=watch)
    _run(_cycle(place, name, is_foreseen=when), name, output, is_foreseen=when)


def _cycle(place: source.Place, name: str, *, is_foreseen: bool) -> source.Cycle:
    """Return the cycle of the shard that has the job."""
    if is_foreseen or not source.are_files_alone(place):
        return source.cycle_of(place)
    from kaisched.cli.pool_cycles import cycle_with_job  # noqa: PLC0415 - not for the help

    return cycle_with_job(place, name)


def _run(cycle: source.Cycle, name: str, output: str, *, is_foreseen: bool) -> None:
    """Print what a cycle in this process says."""
    from kaisched.cli import why_document, why_text  # noqa: PLC0415 - not for the help
    from kaisched.cli.output import Printer  # noqa: PLC0415 - not for the help

    cycle.warn()
    found = why_document.find(cycle.result, name)
    foreseen, more = None, list[str]()
    if is_foreseen:
        from kaisched.cli.when_text import forecast_of, when_lines  # noqa: PLC0415 - when asked

        foreseen = forecast_of(cycle, found.job)
        more = [] if foreseen is None else list(when_lines(foreseen))
    print_text = partial(why_text.print_text, more=more)
    document = why_document.document(cycle.result, found, foreseen)
    Printer(print_text, why_text.rows, why_text.names).print(document, output)
    cycle.end()
