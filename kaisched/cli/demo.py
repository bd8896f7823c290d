"""``kaisched demo``: four busy days of a real GPU cluster through the scheduler, in seconds."""

from __future__ import annotations

import sys
import time
from typing import Annotated, Final

import typer

from kaisched.cli.simulate import timing_line
from kaisched.engine.policy import default_policy
from kaisched.sim.bar import Bar
from kaisched.sim.reading import find_trace, read_trace
from kaisched.sim.simulation import PolicyCycle, Stretch, simulate
from kaisched.sim.table import table_of
from kaisched.sim.workload import ClusterSize

_TRACE: Final = "philly-2017"
_DAY_S: Final = 86_400.0
_FROM_DAY: Final = 49
_UNTIL_DAY: Final = 53
_SIZE: Final = ClusterSize(nodes=48, gpus_per_node=8)
_BEFORE: Final = (
    "Four busy days of Microsoft's Philly cluster of 2017: real jobs, its virtual\n"
    "clusters as queues, {nodes} nodes, and the very cycle that the daemon runs.\n"
)
_AFTER: Final = """
"Fair share" is what its demand and weight entitled a queue to, "got" the part
of it that it held; above 100% it used what others left.

Try next: kaisched simulate --from 28d --until 35d --quota published"""


def command(
    progress: Annotated[
        bool | None,
        typer.Option(
            "--progress/--no-progress",
            help="Show a progress bar; by itself on a terminal after a second.",
        ),
    ] = None,
) -> None:
    """Show fair share at work on four days of a real trace. Needs no cluster."""
    print(_BEFORE.format(nodes=_SIZE.nodes), flush=True)  # noqa: T201
    stretch = Stretch(_FROM_DAY * _DAY_S, _UNTIL_DAY * _DAY_S)
    began = time.perf_counter()
    trace = read_trace(find_trace(_TRACE))
    with Bar("four days", *stretch.bounds(trace), is_wanted=progress) as bar:
        report = simulate(trace, stretch, _SIZE, PolicyCycle(default_policy()), progress=bar.tell)
    print(table_of(report))  # noqa: T201
    print(_AFTER, flush=True)  # noqa: T201
    took_s = time.perf_counter() - began
    print(timing_line(report.until_s - report.from_s, took_s, report.cycles), file=sys.stderr)  # noqa: T201
