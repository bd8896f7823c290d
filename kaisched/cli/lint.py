"""``kaisched lint``: everything that is wrong with manifests, without a cluster."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

_FILES = typer.Argument(
    help="Files and folders of manifests, settings and scenarios; - for standard input.",
    metavar="FILES...",
    show_default=False,
)


def command(
    files: Annotated[list[str], _FILES],
    *,
    shard: Annotated[
        Path | None,
        typer.Option(help="SchedulingShard they are for; else the only one among them, if any."),
    ] = None,
    output: Annotated[
        Literal["text", "json", "sarif"], typer.Option("-o", "--output", help="How to print.")
    ] = "text",
) -> None:
    """Check queues, shards, jobs, nodes, settings and scenario files; report all errors at once.

    Beyond faults of single objects: cycles and missing parents of queues, quotas above those of
    the parent or of the nodes, jobs in queues that do not exist, topologies and device classes
    that no file has, selectors of devices that do not parse, and errors in policies. What is not
    among the files is not missed, unless objects of its kind are.

    The exit code is 1 if there are errors, and 0 if there are only warnings. SARIF is what code
    hosts show beside a change.
    """
    from kaisched.cli import lint_text  # noqa: PLC0415 - not for the help
    from kaisched.cli.lint_scenarios import with_scenarios  # noqa: PLC0415 - not for the help
    from kaisched.engine.linting import lint  # noqa: PLC0415 - not for the help

    found = with_scenarios(lint(files, shard))
    print(lint_text.FORMS[output](found), flush=True)  # noqa: T201
    if any(finding.is_error for finding in found):
        raise typer.Exit(1)
