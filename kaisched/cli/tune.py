"""``kaisched tune``: which settings of a scenario to take, and what each costs."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Literal

import typer

from kaisched.errors import ConfigError

_SCENARIO = typer.Argument(help="Scenario file with a section `tune`.", metavar="SCENARIO")
_OUT = typer.Option(help="Folder for CSV, JSON and a page with the trade-off.")
_PROCESSES = typer.Option(min=1, max=1024, help="Runs at a time; one for each core unless given.")
_DASK = typer.Option(
    metavar="ADDRESS",
    help="Run on the workers of this dask.distributed scheduler, such as tcp://HOST:8786.",
)
_PROGRESS = typer.Option(
    "--progress/--no-progress",
    help="Show a progress bar; by default only on a terminal, after a second.",
)


def command(
    scenario: Annotated[Path, _SCENARIO],
    *,
    out: Annotated[Path | None, _OUT] = None,
    seed: Annotated[int | None, typer.Option(min=0, help="Overrides the scenario's seed.")] = None,
    processes: Annotated[int | None, _PROCESSES] = None,
    dask: Annotated[str | None, _DASK] = None,
    output: Annotated[
        Literal["table", "json"], typer.Option("-o", "--output", help="How to print.")
    ] = "table",
    progress: Annotated[bool | None, _PROGRESS] = None,
) -> None:
    """Try every combination of the settings that a scenario lists, and recommend one.

    It weighs the GPU-hours in the wrong hands against those computed twice, and names settings
    whose values made no difference. The same scenario gives the same answer, whatever the number
    of processes or machines.
    """
    from kaisched.cli.printing import warn  # noqa: PLC0415 - not for the help
    from kaisched.cli.scenario import Wish, load, machines_at  # noqa: PLC0415
    from kaisched.sim.bar import Bar  # noqa: PLC0415
    from kaisched.sim.output.files import check_folder  # noqa: PLC0415
    from kaisched.sim.output.trade import json_of, summary_of, write_sweep  # noqa: PLC0415
    from kaisched.sim.tuning import settings_of, sweep  # noqa: PLC0415

    if dask is not None and processes is not None:
        fix = "leave it out: the workers say how many runs there are at a time"
        raise ConfigError("does not apply with --dask", path="--processes", fix=fix)
    read = load(scenario, Wish(seed=seed))
    count = len(settings_of(read))
    if out is not None:
        check_folder(out)
    with (
        machines_at(dask) as machines,
        Bar(f"tuning {read.name}", 0.0, float(count), is_wanted=progress, is_slow=True) as bar,
    ):
        found = sweep(read, processes or os.cpu_count() or 1, bar.tell, machines)
    print(json_of(found) if output == "json" else summary_of(found), flush=True)  # noqa: T201
    if out is not None:
        write_sweep(found, out)
        warn(f"wrote {out / 'tune.html'}")
