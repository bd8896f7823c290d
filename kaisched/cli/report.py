"""``kaisched report``: what queues used, whom evictions cost what, and how long jobs waited."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from kaisched.cli import history, options, source

command = typer.Typer()
_BY = typer.Option("--by", help="What the rows are.")


@command.callback()
def _group() -> None:
    """Report what queues used, what evictions cost them, and how long their jobs waited.

    Past weeks are read from a Prometheus server that scrapes the scheduler, or from the file of
    the usage store `sqlite`. Nothing is changed anywhere.
    """


@command.command("usage")
def usage(
    *,
    last: history.Last = "1w",
    prometheus: history.Prometheus = "",
    history_file: history.File = None,
    resource: history.Resource = "gpu",
    output: options.Listing = "table",
) -> None:
    """Report what queues used, and how much their fair shares came to, in GPU-hours.

    A queue's use contains that of the queues below it. Only Prometheus knows fair shares; a usage
    file goes back for the window of its shard.
    """
    from kaisched.cli import report_text  # noqa: PLC0415 - not for the help

    origin = history.Origin(prometheus, history_file)
    period = history.read(origin, resource, last, "--last")
    report_text.print_usage(period.document(), output)


@command.command("evictions")
def evictions(
    *,
    by: Annotated[Literal["queue", "preemptor", "reason", "all"], _BY] = "queue",
    last: history.Last = "1w",
    prometheus: history.Prometheus = "",
    server: source.ServerUrl = "",
    shard_name: source.ShardName = "",
    output: options.Listing = "table",
) -> None:
    """Report how many pods were evicted: from which queue, for which one, by which rule.

    Prometheus knows all of the time; a running scheduler that serves its live view knows its last
    20,000 decisions.
    """
    from kaisched.cli import report_text  # noqa: PLC0415 - not for the help
    from kaisched.cli.report_reading import evictions_of, seen_evictions  # noqa: PLC0415

    seconds, origin = history.span_s(last, "--last"), history.Origin(prometheus)
    if server or not origin.url:
        found = seen_evictions(source.running_scheduler(server, shard_name), seconds)
    else:
        found = evictions_of(history.server_of(origin, "--last"), seconds)
    report_text.print_evictions(found, by, output)


@command.command("waits")
def waits(
    *,
    server: source.ServerUrl = "",
    shard_name: source.ShardName = "",
    last: Annotated[
        str, typer.Option("--last", help="Count jobs that started since then, such as 12h or 4w.")
    ] = "1w",
    output: options.Listing = "table",
) -> None:
    """Report by queue how long waiting jobs have waited, and how long running ones did.

    It reads the live view of a running scheduler: jobs that have ended are not known there, so
    short jobs count less than they did. For pods that started more than once the last start counts.
    """
    from kaisched.cli import report_text  # noqa: PLC0415 - not for the help
    from kaisched.cli.report_reading import waits_of  # noqa: PLC0415 - not for the help

    seconds = history.span_s(last, "--last")
    found = waits_of(source.running_scheduler(server, shard_name), seconds)
    report_text.print_waits(found, output)
