"""``kaisched alloc``: which queues, nodes and jobs hold the GPUs, grouped as is asked for."""

from __future__ import annotations

from typing import Annotated

import typer

from kaisched.cli import options, source

_GROUPS = typer.Option(
    "-g", "--group", help="How to group, the outermost first: any of queue, node and job."
)


@options.reads_state(has_view=True)
def command(
    *,
    group: Annotated[str, _GROUPS] = "queue,node",
    place: source.Place,
    watch: source.Watch = False,
    output: options.Listing = "table",
) -> None:
    """Say which queues, nodes and jobs hold the GPUs, as a tree.

    Pods that are ending count until they are gone, and all nodes count, cordoned ones too. Where
    nodes are the outermost group, what is free is a column. The state is read as by `kaisched
    queue ls`.
    """
    from kaisched.cli import alloc_text  # noqa: PLC0415 - not for the help
    from kaisched.cli.output import Printer, show  # noqa: PLC0415 - not for the help
    from kaisched.cli.pages import pages_of  # noqa: PLC0415 - not for the help

    groups = alloc_text.groups_of(group)
    pages = pages_of(place)
    printer = Printer(alloc_text.print_table_of, alloc_text.rows, alloc_text.names)

    def document() -> dict[str, object]:
        return alloc_text.document(pages.nodes(), groups)

    if pages.server is not None:
        show(pages.server, document, printer, output, is_watched=watch)
        return
    source.check_watch(is_watched=watch)
    printer.print(document(), output)
    pages.end()
