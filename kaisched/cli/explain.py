"""``kaisched explain``: what a setting means, in a sentence and a table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

import typer

if TYPE_CHECKING:
    from kaisched.engine.history_cost import Pool, Use

command = typer.Typer()


@command.callback()
def _group() -> None:
    """Say what a setting means."""


@command.command("fairness")
def fairness(
    *,
    weights: Annotated[str, typer.Option(help="Over-quota weights of all queues: A=3,B=1.")],
    usage: Annotated[
        str,
        typer.Option(
            help="What queues used until now: A=8x12h for 8 GPUs for 12 hours, B=0.25 for a "
            "quarter of the cluster all the time."
        ),
    ],
    k: Annotated[float, typer.Option(help="How strongly usage counts: kValue.")] = 1.0,
    gpus: Annotated[int, typer.Option(min=1, max=10**9, help="GPUs of the cluster.")] = 16,
    half_life: Annotated[str, typer.Option(help="halfLifePeriod; 0s for none.")] = "0s",
    window: Annotated[str, typer.Option(help="windowSize.")] = "1w",
    output: Annotated[
        Literal["table", "json"], typer.Option("-o", "--output", help="How to print.")
    ] = "table",
) -> None:
    """Say what past usage costs a queue, when it recovers, and when it loses its surplus.

    For queues of one level and priority without quotas that all want everything.
    """
    from kaisched.cli import explain_text  # noqa: PLC0415 - not for the help

    pool, used = explain_text.read(weights, usage, (k, gpus, half_life, window))
    show(pool, used, output)


def show(pool: Pool, used: dict[str, Use], output: str) -> None:
    """Print as lines and tables, or as JSON."""
    import json  # noqa: PLC0415 - not for the help

    from kaisched.cli import explain_text  # noqa: PLC0415 - not for the help

    if output == "json":
        print(json.dumps(explain_text.document(pool, used), indent=2))  # noqa: T201
        return
    for queue in used:
        print(explain_text.sentence(pool, used, queue))  # noqa: T201
    print(explain_text.order_sentence(pool, used))  # noqa: T201
    print()  # noqa: T201
    explain_text.print_tables(pool, used)
