"""``kaisched demo``: four busy days of a real GPU cluster through the scheduler, in seconds."""

from __future__ import annotations

from typing import Annotated, Final

import typer

_TRACE: Final = "philly-2017"
_DAY_S: Final = 86_400.0
_FROM_DAY: Final = 49
_UNTIL_DAY: Final = 53
_NODES: Final = 48
_GPUS_PER_NODE: Final = 8
_BEFORE: Final = (
    "Four busy days of Microsoft's Philly cluster of 2017: real jobs, its virtual\n"
    "clusters as queues, {nodes} nodes, and the very cycle that the daemon runs.\n"
)
_AFTER: Final = """
"Fair share" is what a queue's demand and weight entitled it to; "got" is the
part of it that the queue held. Above 100% the queue used what others left.

Try next: kaisched simulate --from 28d --until 35d --quota published"""


def command(
    progress: Annotated[
        bool | None,
        typer.Option(
            "--progress/--no-progress",
            help="Show a progress bar; by default only on a terminal, after a second.",
        ),
    ] = None,
) -> None:
    """Show fair share at work on four days of a real trace. Needs no cluster."""
    from kaisched.cli.printing import warn  # noqa: PLC0415 - not for the help
    from kaisched.cli.simulate import timed  # noqa: PLC0415 - not for the help
    from kaisched.engine.policy import default_policy  # noqa: PLC0415 - not for the help
    from kaisched.sim.simulation import Stretch  # noqa: PLC0415 - not for the help
    from kaisched.sim.table import table_of  # noqa: PLC0415 - not for the help
    from kaisched.sim.workload import ClusterSize, QuotaMode  # noqa: PLC0415 - not for the help

    print(_BEFORE.format(nodes=_NODES), flush=True)  # noqa: T201
    size = ClusterSize(_NODES, _GPUS_PER_NODE)
    stretch = Stretch(_FROM_DAY * _DAY_S, _UNTIL_DAY * _DAY_S)
    report, timing = timed(
        _TRACE, stretch, size, QuotaMode.NONE, default_policy(), is_progress_wanted=progress
    )
    print(table_of(report))  # noqa: T201
    print(_AFTER, flush=True)  # noqa: T201
    warn(timing)
