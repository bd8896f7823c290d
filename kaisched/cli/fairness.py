"""``kaisched fairness``: what queues have of their fair shares, now and over time."""

from __future__ import annotations

from typing import Annotated

import typer

from kaisched.cli import history, options, source

_NAME = typer.Argument(help="Only this queue, with those above and below.", metavar="[QUEUE]")
_SINCE = typer.Option(
    "--since", help="Add what they had since then, such as 7d; needs --prometheus or --history."
)


@options.reads_state(has_view=True)
def command(
    name: Annotated[str | None, _NAME] = None,
    *,
    since: Annotated[str | None, _SINCE] = None,
    prometheus: history.Prometheus = "",
    history_file: history.File = None,
    resource: history.Resource = "gpu",
    place: source.Place,
    output: options.Listing = "table",
) -> None:
    """Say what queues hold of their fair shares, what they used lately, and how many jobs wait.

    USED LATELY is the decayed usage that fairness over time counts, as a part of the capacity.

    With --since, a second table has the time since then: how much queues used, and how much their
    fair shares came to. The state is read as by `kaisched queue ls`.
    """
    from kaisched.cli import fairness_text as text  # noqa: PLC0415 - not for the help
    from kaisched.cli.output import Printer, queue_names  # noqa: PLC0415 - not for the help
    from kaisched.cli.pages import pages_of  # noqa: PLC0415 - not for the help

    period = None
    if since is not None:
        period = history.read(history.Origin(prometheus, history_file), resource, since, "--since")
    pages = pages_of(place)
    document = text.document(pages.queues(name), pages.usage(), resource, period)
    Printer(text.print_tables, text.rows, queue_names).print(document, output)
    pages.end()
