"""Scenario files on the command line: load and run them, print and write the results."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from kaisched.sim.cluster import Decide
    from kaisched.sim.machines import Machines
    from kaisched.sim.output.files import Result
    from kaisched.sim.scenario.setup import Scenario
    from kaisched.sim.simulation import PolicyCycle


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
    from kaisched.cli.printing import warn  # noqa: PLC0415 - not for the help
    from kaisched.engine.shards import read_shard  # noqa: PLC0415
    from kaisched.sim.scenario.load import read_scenario  # noqa: PLC0415

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
    from kaisched.cli.printing import timing_line, warn  # noqa: PLC0415 - not for the help
    from kaisched.sim.bar import Bar  # noqa: PLC0415
    from kaisched.sim.comparing import Order, carry_out  # noqa: PLC0415
    from kaisched.sim.running import policy_of  # noqa: PLC0415

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
            bar.tell(len(results))
            warn(timing_line(result.outcome.until_s, took_s, result.outcome.cycles))
    return results


def machines_at(dask: str | None) -> AbstractContextManager[Machines | None]:
    """Return the machines at the address of a scheduler, for a block; none without an address."""
    if dask is None:
        return nullcontext()
    from kaisched.cli.printing import warn  # noqa: PLC0415 - not for the help
    from kaisched.sim.machines import Machines  # noqa: PLC0415

    return Machines(dask, warn)


def run(
    scenario: Scenario,
    wish: Wish,
    shown: Callable[[PolicyCycle], Decide] = lambda cycle: cycle,
) -> Result:
    """Run a scenario with a progress bar, and say on stderr how long it took."""
    from kaisched.cli.printing import timing_line, warn  # noqa: PLC0415 - not for the help
    from kaisched.sim.bar import Bar  # noqa: PLC0415
    from kaisched.sim.output.files import result_of  # noqa: PLC0415
    from kaisched.sim.running import policy_of, run_scenario  # noqa: PLC0415

    policy, warnings = policy_of(scenario, wish.actions)
    for warning in warnings:
        warn(warning)
    began = time.perf_counter()
    end_s = scenario.end_tick * scenario.pace.step_s
    with Bar(f"simulating {scenario.name}", 0.0, end_s, is_wanted=wish.is_progress_wanted) as bar:
        ran = run_scenario(
            scenario,
            policy,
            bar.tell,
            actions=wish.actions,
            is_checked=wish.is_checked,
            shown=shown,
        )
        result = result_of(ran)
    took_s = time.perf_counter() - began
    warn(timing_line(result.outcome.until_s, took_s, result.outcome.cycles))
    return result


def printed(results: Sequence[Result], output: str) -> str:
    """Format the summary of one run, or several runs side by side."""
    from kaisched.sim.output.files import json_of  # noqa: PLC0415 - not for the help
    from kaisched.sim.output.summary import comparison_of, summary_of  # noqa: PLC0415

    if output == "json":
        texts = [json_of(result).rstrip("\n") for result in results]
        return texts[0] if len(texts) == 1 else f"[{','.join(texts)}]"
    tables = [summary_of(result.outcome) for result in results]
    if len(results) > 1:
        tables.append(comparison_of(results))
    return "\n\n".join(tables)


def write(results: Sequence[Result], out: Path, *, has_plots: bool) -> None:
    """Write the files of all runs, each in a folder of its own where there are several."""
    from kaisched.cli.printing import warn  # noqa: PLC0415 - not for the help
    from kaisched.sim.output.files import write_files  # noqa: PLC0415
    from kaisched.sim.output.pictures import write_compared, write_pictures  # noqa: PLC0415
    from kaisched.sim.output.report import write_report  # noqa: PLC0415

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
