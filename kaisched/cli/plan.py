"""``kaisched plan``: what the scheduler would do with these objects, in virtual time."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Literal

import typer

_FILES = typer.Option(
    "-f",
    "--filename",
    help="File or folder of manifests, as `kubectl get -o yaml` gives them; - for standard input.",
)

_ORDER = typer.Option(
    "--order",
    help="Print the place of each pending pod group in its queue too, and what is ahead; JSON"
    " always has it.",
)


def command(
    *,
    files: Annotated[list[str], _FILES],
    shard: Annotated[
        Path | None,
        typer.Option(help="SchedulingShard to plan by; else those among the manifests, if any."),
    ] = None,
    actions: Annotated[
        str | None, typer.Option(help="Run only these actions, in this order: a,b.")
    ] = None,
    rounds: Annotated[
        int, typer.Option(min=1, max=1000, help="Cycles to run; fewer once nothing moves.")
    ] = 1,
    order: Annotated[bool, _ORDER] = False,
    output: Annotated[
        Literal["table", "json"], typer.Option("-o", "--output", help="How to print.")
    ] = "table",
) -> None:
    """Say what would be bound, evicted and nominated, what stays pending, and why.

    Nothing is changed anywhere: the objects are loaded into a cluster in memory, and the daemon's
    own cycle runs there in virtual time. Pods are ours when their schedulerName is kaisched or
    kai-scheduler.

    Objects with problems are reported on stderr and left out; the exit code is then 1, as it is
    when a plugin failed.
    """
    from kaisched.cli.plan_tables import print_plan  # noqa: PLC0415 - not for the help
    from kaisched.cli.printing import warn  # noqa: PLC0415 - not for the help
    from kaisched.engine.planning import plan, read_plan_input  # noqa: PLC0415 - not for the help
    from kaisched.view.documents import plan_document  # noqa: PLC0415 - not for the help

    chosen = [name.strip() for name in actions.split(",")] if actions is not None else None
    what = read_plan_input(files, shard, chosen, is_one=False)
    planned = plan(what, rounds)
    for text in [*planned.warnings, *map(str, planned.problems)]:
        warn(text)
    if output == "json":
        document = plan_document(planned.steps, planned.problems, planned.warnings)
        print(json.dumps(document, indent=2))  # noqa: T201
    else:
        print_plan(planned.steps, with_order=order)
    if planned.problems or any(cycle.failures for cycle in planned.cycles):
        raise typer.Exit(1)
