"""Runs of scenarios and traces: with a progress bar, shown on a page, written into files."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from kaisched.cli.printing import print_document, say_text, timing_line, warn
from kaisched.clock import SystemClock, monotonic_s
from kaisched.config.settings import ViewListener
from kaisched.daemon.http_server import Server
from kaisched.daemon.view_pages import view_listener
from kaisched.engine.policy import build_policy, default_shard
from kaisched.engine.shards import FoundShard, read_shard
from kaisched.errors import ConfigError
from kaisched.sim.machines import Machines
from kaisched.sim.output.files import Order, carry_out, json_of, result_of, write_files
from kaisched.sim.output.report import write_compared, write_pictures, write_report
from kaisched.sim.output.tables import comparison_of, summary_of
from kaisched.sim.progress import Bar, Stage
from kaisched.sim.running import CheckedCycle, PolicyCycle, policy_of, run_scenario, simulate
from kaisched.sim.scenario.load import read_scenario
from kaisched.sim.traces import find_trace, read_trace
from kaisched.telemetry.logs import configure_logs
from kaisched.telemetry.stopwatch import Stopwatch

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kaisched.framework.policy import Policy
    from kaisched.sim.cluster import Decide
    from kaisched.sim.output.files import Result
    from kaisched.sim.report import Report
    from kaisched.sim.running import Stretch
    from kaisched.sim.scenario.load import Scenario
    from kaisched.sim.workload import ClusterSize, QuotaMode


class Serving(NamedTuple):
    """How a run is shown on the page of the live view."""

    port: int
    speed: float
    """How many times as fast as real time virtual time passes; 0 is as fast as it goes."""


class Wish(NamedTuple):
    """Options of the command line that apply to every run of a scenario or a trace."""

    seed: int | None = None
    shard: Path | None = None
    actions: Sequence[str] | None = None
    is_progress_wanted: bool | None = None
    is_checked: bool = False
    """Whether each cycle is checked for broken invariants."""
    serving: Serving | None = None
    """How it is shown; None for not at all."""


def load(path: Path, wish: Wish) -> Scenario:
    """Read a scenario, and warn of oddities."""
    if wish.shard is not None:
        read_shard(wish.shard)  # first, so that its errors name this file and not the scenario
    scenario = read_scenario(path, seed=wish.seed, shard_file=wish.shard)
    for warning in scenario.warnings:
        warn(warning)
    return scenario


def run_all(
    scenarios: Sequence[Scenario],
    wish: Wish,
    dask: str | None,
    shown: Callable[[PolicyCycle], Decide] = lambda cycle: cycle,
) -> list[Result]:
    """Run scenarios one after the other here, or at once on other machines.

    ``shown`` may wrap the cycle of each that runs here.
    """
    if dask is None:
        return [run(each, wish, shown) for each in scenarios]

    for each in scenarios:
        for warning in policy_of(each, wish.actions)[1]:
            warn(warning)
    orders = [Order(each, wish.actions, wish.is_checked) for each in scenarios]
    results = []
    title = f"simulating {len(orders)} scenarios"
    with (
        machines_at(dask) as machines,
        Bar(title, 0.0, len(orders), is_wanted=wish.is_progress_wanted, is_slow=True) as bar,
    ):
        assert machines is not None
        for result, took_s in machines.each(carry_out, orders):
            results.append(result)
            bar.update(len(results))
            warn(timing_line(result.outcome.until_s, took_s, result.outcome.cycles))
    return results


def machines_at(dask: str | None) -> AbstractContextManager[Machines | None]:
    """Return the machines at the address of a scheduler, for a block; none without an address."""
    if dask is None:
        return nullcontext()

    return Machines(dask, warn)


def run(
    scenario: Scenario,
    wish: Wish,
    shown: Callable[[PolicyCycle], Decide] = lambda cycle: cycle,
) -> Result:
    """Run a scenario with a progress bar, and say on stderr how long it took."""
    policy, warnings = policy_of(scenario, wish.actions)
    for warning in warnings:
        warn(warning)
    began = time.perf_counter()
    end_s = scenario.end_tick * scenario.pace.step_s
    with Bar(f"simulating {scenario.name}", 0.0, end_s, is_wanted=wish.is_progress_wanted) as bar:
        ran = run_scenario(
            scenario,
            policy,
            bar.update,
            actions=wish.actions,
            is_checked=wish.is_checked,
            shown=shown,
        )
        result = result_of(ran)
    took_s = time.perf_counter() - began
    warn(timing_line(result.outcome.until_s, took_s, result.outcome.cycles))
    return result


def print_results(results: Sequence[Result], output: str) -> None:
    """Print the summary of one run, or several runs side by side."""
    if output == "table":
        tables = [summary_of(result.outcome) for result in results]
        if len(results) > 1:
            tables.append(comparison_of(results))
        say_text("\n\n".join(tables))
        return
    texts = [json_of(result).rstrip("\n") for result in results]
    if output == "json":  # as the files of the runs are written
        say_text(texts[0] if len(texts) == 1 else f"[{','.join(texts)}]")
        return
    found = [json.loads(text) for text in texts]
    print_document(found[0] if len(found) == 1 else {"runs": found}, output)


def write(results: Sequence[Result], out: Path, *, has_plots: bool) -> None:
    """Write the files of all runs, each in a folder of its own where there are several."""
    places = folders([result.file for result in results], out)
    for result, folder in zip(results, places, strict=True):
        write_files(result, folder)
        if has_plots:
            write_pictures(result, folder)
    if has_plots and len(results) > 1:
        write_compared(results, out)
    warn(f"wrote {write_report(results, out / 'report.html')}")


def folders(files: Sequence[str], out: Path) -> list[Path]:
    """Return a folder for what is written about each scenario file."""
    if len(files) == 1:
        return [out]
    stems = [Path(file).stem for file in files]
    return [
        out / (f"{stem}-{at + 1}" if stems.count(stem) > 1 else stem)
        for at, stem in enumerate(stems)
    ]


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
            progress=bar.update,
        )
    took_s = time.perf_counter() - began
    return report, timing_line(report.until_s - report.from_s, took_s, report.cycles)


def trace_policy(wish: Wish) -> Policy:
    """Build the policy of a shard file, or the default policy; --actions replaces its actions."""
    nothing = FoundShard(default_shard(), "", [])
    found = nothing if wish.shard is None else read_shard(wish.shard)
    policy, warnings = build_policy(found.shard, found.file, actions=wish.actions)
    for warning in (*found.warnings, *warnings):
        warn(warning)
    return policy


@contextmanager
def served(serving: Serving | None) -> Iterator[Callable[[PolicyCycle], Decide]]:
    """Serve the cycles of a simulation, and stay after its end until Ctrl-C.

    Yields what makes a cycle one that is shown; without ``serving`` nothing is.

    Raises:
        ConfigError: the port is taken.

    """
    if serving is None:
        yield lambda cycle: cycle
        return
    configure_logs(level="warning", now_s=SystemClock().now_s)  # the results alone are printed
    stages: list[Stage] = []

    def shown(cycle: PolicyCycle) -> Decide:
        if stages:
            fix = "leave it out: the scenario has several shards"
            raise ConfigError("one shard is shown", path="--serve", fix=fix)
        watch = Stopwatch(monotonic_s)
        cycle.probe = watch
        stages.append(Stage(cycle, watch, serving.speed))
        return stages[-1]

    listener = ViewListener(port=serving.port)
    server = Server([view_listener(listener, lambda: [it.publisher for it in stages], None)])
    page = f"http://localhost:{server.port}/"
    try:
        warn(f"the page is at {page}")
        yield shown
        warn(f"the simulation has ended, and can be played back at {page}; Ctrl-C ends that too")
        with suppress(KeyboardInterrupt):
            stages[-1].stay()
    finally:
        server.close()
