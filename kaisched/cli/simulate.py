"""``kaisched simulate``, ``tune`` and ``demo``: the daemon's own cycle in virtual time."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, Literal

import typer

from kaisched.cli import options
from kaisched.cli.printing import Printer, say_text, warn
from kaisched.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kaisched.cli.runs import Wish
    from kaisched.sim.report import Failure
    from kaisched.sim.running import Stretch
    from kaisched.sim.workload import ClusterSize, QuotaMode

_QUOTA = typer.Option(help="GPU quotas: none, or the published nodes, scaled to the cluster.")
_SHARD = typer.Option(help="SchedulingShard to run by; the default one unless given.")
_ACTIONS = typer.Option(help="Run only these actions, in this order: a,b.")
_CHECKPOINT = typer.Option(help="Time between checkpoints; eviction loses work since the last.")
_CHECK = typer.Option(
    "--check-invariants",
    help="Check invariants after each cycle; the first violation ends the run.",
)
_TRACE = typer.Option(help="Folder with jobs.csv.gz and vcs.csv, or a bundled trace.")
_NODES = typer.Option(min=1, max=50_000, help="Nodes of the cluster.")
_GPUS = typer.Option(min=1, max=64, help="GPUs of each node.")
_FROM = typer.Option("--from", help="Begin here in the trace, such as 28d or 2419200.")
_UNTIL = typer.Option(help="Stop here; at the last submission unless given.")
_DRAIN = typer.Option("--drain", help="Then go on until every job has ended.")
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


def simulate(
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
    output: options.Output = "table",
    check_invariants: Annotated[bool, _CHECK] = False,
    progress: options.Progress = None,
    serve: Annotated[bool, _SERVE] = False,
    speed: Annotated[float, _SPEED] = 0.0,
    port: Annotated[int, _PORT] = 8083,
) -> None:
    """Run scenarios, or a trace, in virtual time under a policy, and report what each queue got.

    A scenario file holds nodes, queues, jobs and the policy. A trace starts at --from with an
    empty cluster. The same arguments print the same bytes, apart from stderr.
    """
    from kaisched.cli.runs import Serving, Wish  # noqa: PLC0415 - not for the help

    if not serve:
        _refuse(ctx, _OF_PAGES, "applies to the page", "add --serve, or leave it out")
    serving = Serving(port, speed) if serve else None
    wish = Wish(seed, shard, _names(actions), progress, check_invariants, serving)
    if scenarios:
        _refuse(ctx, _OF_TRACES, "does not apply to a scenario", "write it into the file")
        _run_scenarios(scenarios, wish, out, output, dask, is_compared=compare, has_plots=plots)
        return
    _refuse(ctx, _OF_SCENARIOS, "needs a scenario", "name a scenario file before it")
    from kaisched.sim.running import Stretch  # noqa: PLC0415 - not for the help
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
    from kaisched.cli import runs  # noqa: PLC0415 - not for the help
    from kaisched.sim.output.tables import json_of, table_of  # noqa: PLC0415 - not for the help

    with runs.served(wish.serving) as shown:
        report, timing = runs.timed(
            trace,
            stretch,
            size,
            quota,
            runs.trace_policy(wish),
            checkpoint_every_s=checkpoint_every_s,
            is_checked=wish.is_checked,
            is_progress_wanted=wish.is_progress_wanted,
            shown=shown,
        )
        Printer(lambda _: say_text(table_of(report))).print(json.loads(json_of(report)), output)
        warn(timing)
    _end_of(report.failures)


def _end_of(failures: Iterable[Failure]) -> None:
    """Name plugins and actions that failed; the exit code is then 1."""
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
    from kaisched.cli import runs  # noqa: PLC0415 - not for the help

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
    loaded = [runs.load(path, wish) for path in paths]
    if out is not None:
        from kaisched.sim.output.files import check_folder  # noqa: PLC0415 - not for the help

        for folder in (out, *runs.folders([each.file for each in loaded], out)):
            check_folder(folder)
    with runs.served(wish.serving) as shown:
        results = runs.run_all(loaded, wish, dask, shown)
        runs.print_results(results, output)
        if out is not None:
            runs.write(results, out, has_plots=has_plots)
    _end_of(failure for result in results for failure in result.outcome.plugin_failures)


def _names(actions: str | None) -> list[str] | None:
    return None if actions is None else [name.strip() for name in actions.split(",")]


def _until(text: str | None) -> float | None:
    return None if text is None else _instant("--until", text)


def _instant(option: str, text: str) -> float:
    """Read a duration, or plain seconds as in a trace."""
    from kaisched.units import UnitError, parse_duration  # noqa: PLC0415 - not for the help

    try:
        return parse_duration(f"{text}s" if re.fullmatch(r"[0-9]+(\.[0-9]+)?", text) else text)
    except UnitError as error:
        raise ConfigError(str(error), path=option, fix=error.fix) from error


# -- kaisched tune -------------------------------------------------------------------------------

_SCENARIO = typer.Argument(help="Scenario file with a section `tune`.", metavar="SCENARIO")
_SWEEP_OUT = typer.Option(help="Folder for CSV, JSON and a page with the trade-off.")
_PROCESSES = typer.Option(min=1, max=1024, help="Runs at a time; one for each core unless given.")
_SWEEP_DASK = typer.Option(
    metavar="ADDRESS",
    help="Run on the workers of this dask.distributed scheduler, such as tcp://HOST:8786.",
)


def tune(
    scenario: Annotated[Path, _SCENARIO],
    *,
    out: Annotated[Path | None, _SWEEP_OUT] = None,
    seed: Annotated[int | None, typer.Option(min=0, help="Overrides the scenario's seed.")] = None,
    processes: Annotated[int | None, _PROCESSES] = None,
    dask: Annotated[str | None, _SWEEP_DASK] = None,
    output: options.Output = "table",
    progress: options.Progress = None,
) -> None:
    """Try every combination of the settings that a scenario lists, and recommend one.

    It weighs the GPU-hours in the wrong hands against those computed twice, and names settings
    whose values made no difference. The number of processes or machines changes nothing.
    """
    from kaisched.cli.runs import Wish, load, machines_at  # noqa: PLC0415 - not for the help
    from kaisched.sim.output.files import check_folder  # noqa: PLC0415
    from kaisched.sim.output.tuning import json_of, summary_of, write_sweep  # noqa: PLC0415
    from kaisched.sim.progress import Bar  # noqa: PLC0415
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
        found = sweep(read, processes or os.cpu_count() or 1, bar.update, machines)
    Printer(lambda _: say_text(summary_of(found))).print(json.loads(json_of(found)), output)
    if out is not None:
        write_sweep(found, out)
        warn(f"wrote {out / 'tune.html'}")


# -- kaisched demo -------------------------------------------------------------------------------

_DEMO_TRACE: Final = "philly-2017"
_DAY_S: Final = 86_400.0
_DEMO_FROM_DAY: Final = 49
_DEMO_UNTIL_DAY: Final = 51
_DEMO_NODES: Final = 48
_DEMO_GPUS_PER_NODE: Final = 8
_BEFORE: Final = (
    "Two busy days of Microsoft's Philly cluster of 2017: real jobs, its virtual\n"
    "clusters as queues, {nodes} nodes, and the very cycle that the daemon runs.\n"
)
_AFTER: Final = """
"Fair share" is what a queue's demand and weight entitled it to; "got" is the
part of it that the queue held. Above 100% the queue used what others left.

Try next: kaisched simulate --from 28d --until 35d --quota published"""


def demo(
    progress: options.Progress = None,
) -> None:
    """Show fair share at work on two days of a real trace. Needs no cluster."""
    from kaisched.cli.runs import timed  # noqa: PLC0415 - not for the help
    from kaisched.engine.policy import default_policy  # noqa: PLC0415 - not for the help
    from kaisched.sim.output.tables import table_of  # noqa: PLC0415 - not for the help
    from kaisched.sim.running import Stretch  # noqa: PLC0415 - not for the help
    from kaisched.sim.workload import ClusterSize, QuotaMode  # noqa: PLC0415 - not for the help

    say_text(_BEFORE.format(nodes=_DEMO_NODES))
    size = ClusterSize(_DEMO_NODES, _DEMO_GPUS_PER_NODE)
    stretch = Stretch(_DEMO_FROM_DAY * _DAY_S, _DEMO_UNTIL_DAY * _DAY_S)
    report, timing = timed(
        _DEMO_TRACE, stretch, size, QuotaMode.NONE, default_policy(), is_progress_wanted=progress
    )
    say_text(table_of(report))
    say_text(_AFTER)
    warn(timing)
