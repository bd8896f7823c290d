"""``kaisched simulate``: a scenario, or a stretch of a trace, through the daemon's own cycle."""

from __future__ import annotations

import re
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from kaisched.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from kaisched.cli.scenario import Wish
    from kaisched.framework.policy import Policy
    from kaisched.sim.cluster import Decide
    from kaisched.sim.report import Failure, Report
    from kaisched.sim.simulation import PolicyCycle, Stretch
    from kaisched.sim.workload import ClusterSize, QuotaMode

_QUOTA = typer.Option(help="GPU quotas: none, or the published nodes, scaled to the cluster.")
_SHARD = typer.Option(help="SchedulingShard to run by; the default one unless given.")
_ACTIONS = typer.Option(help="Run only these actions, in this order: a,b.")
_CHECKPOINT = typer.Option(help="Time between checkpoints; eviction loses work since the last.")
_CHECK = typer.Option(
    "--check-invariants",
    help="Check invariants after each cycle; the first violation ends the run.",
)
_PROGRESS = typer.Option(
    "--progress/--no-progress",
    help="Show a progress bar; by default only on a terminal, after a second.",
)


_TRACE = typer.Option(help="Folder with jobs.csv.gz and vcs.csv, or a bundled trace.")
_NODES = typer.Option(min=1, max=50_000, help="Nodes of the cluster.")
_GPUS = typer.Option(min=1, max=64, help="GPUs of each node.")
_FROM = typer.Option("--from", help="Begin here in the trace, such as 28d or 2419200.")
_UNTIL = typer.Option(help="Stop here; at the last submission unless given.")
_DRAIN = typer.Option("--drain", help="Then go on until every job has ended.")
_OUTPUT = typer.Option("-o", "--output", help="How to print.")
_OUT = typer.Option(help="Folder for CSV, JSON and the report of a scenario.")
_PLOTS = typer.Option("--plots", help="Write charts of the report as SVG files too.")
_SEED = typer.Option(min=0, help="Seed of a scenario, instead of its own.")
_DASK = typer.Option(
    metavar="ADDRESS",
    help="Compare on the workers of this dask.distributed scheduler, such as tcp://HOST:8786.",
)
_COMPARE = typer.Option("--compare", help="Put several scenarios side by side.")
_SERVE = typer.Option("--serve", help="Show it on the page of the live view, and stay at the end.")
_SPEED = typer.Option(
    min=0.0, max=1e9, help="With --serve: so many times as fast as real time; 0 as fast as it goes."
)
_PORT = typer.Option(min=0, max=65_535, help="With --serve: port on localhost; 0 for any free one.")
_SCENARIOS = typer.Argument(
    help="Scenario files; without any, a trace is replayed.", metavar="[SCENARIO]..."
)
_OF_TRACES = (
    "trace",
    "nodes",
    "gpus_per_node",
    "from_",
    "until",
    "drain",
    "quota",
    "checkpoint_every",
    "check_invariants",
)
_OF_PAGES = ("speed", "port")
_OF_SCENARIOS = ("out", "plots", "seed", "compare", "dask")


def command(
    ctx: typer.Context,
    scenarios: Annotated[list[Path] | None, _SCENARIOS] = None,
    *,
    compare: Annotated[bool, _COMPARE] = False,
    dask: Annotated[str | None, _DASK] = None,
    out: Annotated[Path | None, _OUT] = None,
    plots: Annotated[bool, _PLOTS] = False,
    seed: Annotated[int | None, _SEED] = None,
    trace: Annotated[str, _TRACE] = "philly-2017",
    nodes: Annotated[int, _NODES] = 64,
    gpus_per_node: Annotated[int, _GPUS] = 8,
    from_: Annotated[str, _FROM] = "0s",
    until: Annotated[str | None, _UNTIL] = None,
    drain: Annotated[bool, _DRAIN] = False,
    quota: Annotated[Literal["none", "published"], _QUOTA] = "none",
    shard: Annotated[Path | None, _SHARD] = None,
    actions: Annotated[str | None, _ACTIONS] = None,
    checkpoint_every: Annotated[str, _CHECKPOINT] = "1h",
    output: Annotated[Literal["table", "json"], _OUTPUT] = "table",
    check_invariants: Annotated[bool, _CHECK] = False,
    progress: Annotated[bool | None, _PROGRESS] = None,
    serve: Annotated[bool, _SERVE] = False,
    speed: Annotated[float, _SPEED] = 0.0,
    port: Annotated[int, _PORT] = 8083,
) -> None:
    """Run scenarios, or a trace, in virtual time under a policy, and report what each queue got.

    A scenario file holds everything: nodes, queues, jobs and the policy. A trace starts at --from
    with an empty cluster. The same arguments print the same bytes, apart from stderr.
    """
    from kaisched.cli.scenario import Serving, Wish  # noqa: PLC0415 - not for the help

    if not serve:
        _refuse(ctx, _OF_PAGES, "applies to the page", "add --serve, or leave it out")
    serving = Serving(port, speed) if serve else None
    wish = Wish(seed, shard, _names(actions), progress, check_invariants, serving)
    if scenarios:
        _refuse(ctx, _OF_TRACES, "does not apply to a scenario", "write it into the file")
        _run_scenarios(scenarios, wish, out, output, dask, is_compared=compare, has_plots=plots)
        return
    _refuse(ctx, _OF_SCENARIOS, "needs a scenario", "name a scenario file before it")
    from kaisched.sim.simulation import Stretch  # noqa: PLC0415 - not for the help
    from kaisched.sim.workload import ClusterSize, QuotaMode  # noqa: PLC0415 - not for the help

    stretch = Stretch(_instant("--from", from_), _until(until), is_drained=drain)
    size = ClusterSize(nodes, gpus_per_node)
    checkpoint_s = _instant("--checkpoint-every", checkpoint_every)
    _run_trace(trace, stretch, size, QuotaMode(quota), checkpoint_s, wish, output)


def _run_trace(
    trace: str,
    stretch: Stretch,
    size: ClusterSize,
    quota: QuotaMode,
    checkpoint_every_s: float,
    wish: Wish,
    output: str,
) -> None:
    from kaisched.cli.printing import warn  # noqa: PLC0415 - not for the help
    from kaisched.cli.simulate_served import served  # noqa: PLC0415
    from kaisched.sim.table import json_of, table_of  # noqa: PLC0415 - not for the help

    with served(wish.serving) as shown:
        report, timing = timed(
            trace,
            stretch,
            size,
            quota,
            _policy_of(wish),
            checkpoint_every_s=checkpoint_every_s,
            is_checked=wish.is_checked,
            is_progress_wanted=wish.is_progress_wanted,
            shown=shown,
        )
        print(json_of(report) if output == "json" else table_of(report), flush=True)  # noqa: T201
        warn(timing)
    _end_of(report.failures)


def _end_of(failures: Iterable[Failure]) -> None:
    """Name plugins and actions that failed; the exit code is then 1."""
    from kaisched.cli.printing import warn  # noqa: PLC0415 - not for the help

    texts = [failure.warning() for failure in failures]
    for text in texts:
        warn(text)
    if texts:
        raise typer.Exit(1)


def _refuse(ctx: typer.Context, names: tuple[str, ...], message: str, fix: str) -> None:
    for name in names:
        source = ctx.get_parameter_source(name)
        if source is not None and source.name == "COMMANDLINE":
            option = "--" + name.rstrip("_").replace("_", "-")
            raise ConfigError(message, path=option, fix=fix)


def _run_scenarios(
    paths: list[Path],
    wish: Wish,
    out: Path | None,
    output: str,
    dask: str | None,
    *,
    is_compared: bool,
    has_plots: bool,
) -> None:
    from kaisched.cli import scenario  # noqa: PLC0415 - not for the help
    from kaisched.cli.simulate_served import served  # noqa: PLC0415

    if is_compared != (len(paths) > 1):
        message = "needs two files or more" if is_compared else "several files are compared"
        fix = "name both policies" if is_compared else "add --compare, or name one file"
        raise ConfigError(message, path="--compare", fix=fix)
    if has_plots and out is None:
        raise ConfigError("there is no folder for the charts", path="--plots", fix="add --out DIR")
    if dask is not None and not is_compared:
        fix = "leave it out, or compare several files"
        raise ConfigError("there is one run only", path="--dask", value=dask, fix=fix)
    if wish.serving is not None and is_compared:
        raise ConfigError("one run is shown", path="--serve", fix="leave it out, or name one file")
    loaded = [scenario.load(path, wish) for path in paths]
    if out is not None:
        from kaisched.sim.output.files import check_folder  # noqa: PLC0415 - not for the help

        for folder in (out, *scenario.folders([each.file for each in loaded], out)):
            check_folder(folder)
    with served(wish.serving) as shown:
        results = scenario.run_all(loaded, wish, dask, shown)
        print(scenario.printed(results, output), flush=True)  # noqa: T201
        if out is not None:
            scenario.write(results, out, has_plots=has_plots)
    _end_of(failure for result in results for failure in result.outcome.plugin_failures)


def _names(actions: str | None) -> list[str] | None:
    return None if actions is None else [name.strip() for name in actions.split(",")]


def timed(
    name: str,
    stretch: Stretch,
    size: ClusterSize,
    quota: QuotaMode,
    policy: Policy,
    *,
    checkpoint_every_s: float = 3600.0,
    is_checked: bool = False,
    is_progress_wanted: bool | None,
    shown: Callable[[PolicyCycle], Decide] = lambda cycle: cycle,
) -> tuple[Report, str]:
    """Simulate with a progress bar; return the report, and a line on the time it took."""
    from kaisched.cli.printing import timing_line  # noqa: PLC0415 - not for the help
    from kaisched.sim.bar import Bar  # noqa: PLC0415 - not for the help
    from kaisched.sim.reading import find_trace, read_trace  # noqa: PLC0415 - not for the help
    from kaisched.sim.simulation import (  # noqa: PLC0415 - not for the help
        CheckedCycle,
        PolicyCycle,
        simulate,
    )

    trace = read_trace(find_trace(name))
    began = time.perf_counter()
    with Bar("simulating", *stretch.bounds(trace), is_wanted=is_progress_wanted) as bar:
        cycle = shown(PolicyCycle(policy))
        report = simulate(
            trace,
            stretch,
            size,
            CheckedCycle(cycle) if is_checked else cycle,
            quota=quota,
            checkpoint_every_s=checkpoint_every_s,
            progress=bar.tell,
        )
    took_s = time.perf_counter() - began
    return report, timing_line(report.until_s - report.from_s, took_s, report.cycles)


def _policy_of(wish: Wish) -> Policy:
    """Build the policy of a shard file, or the default policy; --actions replaces its actions."""
    from kaisched.cli.printing import warn  # noqa: PLC0415 - not for the help
    from kaisched.engine.policy import build_policy, default_shard  # noqa: PLC0415
    from kaisched.engine.shards import FoundShard, read_shard  # noqa: PLC0415 - not for the help

    nothing = FoundShard(default_shard(), "", [])
    found = nothing if wish.shard is None else read_shard(wish.shard)
    policy, warnings = build_policy(found.shard, found.file, actions=wish.actions)
    for warning in (*found.warnings, *warnings):
        warn(warning)
    return policy


def _until(text: str | None) -> float | None:
    return None if text is None else _instant("--until", text)


def _instant(option: str, text: str) -> float:
    """Read a duration, or plain seconds as in a trace."""
    from kaisched.units import UnitError, parse_duration  # noqa: PLC0415 - not for the help

    try:
        return parse_duration(f"{text}s" if re.fullmatch(r"[0-9]+(\.[0-9]+)?", text) else text)
    except UnitError as error:
        raise ConfigError(str(error), path=option, fix=error.fix) from error
