"""Tunes a scenario: tries every combination of some settings, and recommends one with reasons.

The cost of a setting is the sum of two parts of the GPU-hours: those in the wrong hands (the
fairness error) and those computed twice (lost work). The setting with the least cost is
recommended.
"""

from __future__ import annotations

import copy
import math
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from itertools import product
from multiprocessing import active_children, get_context
from pathlib import Path
from signal import SIG_BLOCK, SIG_SETMASK, SIGINT, pthread_sigmask
from typing import Any, Final

from kaisched.errors import ConfigError
from kaisched.parent import end_with
from kaisched.sim.machines import Machines, end_if_unwanted
from kaisched.sim.outcome import Outcome, outcome_of
from kaisched.sim.output.tables import worst_waits
from kaisched.sim.running import Progress, policy_of, run_scenario
from kaisched.sim.scenario.findings import Findings, ScenarioError
from kaisched.sim.scenario.load import Scenario, scenario_of

MOST_SETTINGS: Final = 1_000
_MOST_EQUAL: Final = 4
"""Most settings that are named because they gave the same result as the recommended one."""
Values = tuple[tuple[str, Any], ...]
"""(path of a key, value), in the order of the file."""
_Task = tuple[dict[str, Any], str, Values]
"""Plain values of a scenario, its file, and the setting that they have."""


@dataclass(frozen=True, slots=True)
class Trial:
    """Outcome of one setting. Parts are of all GPU-hours entitled or computed."""

    values: Values
    error: float
    """The part of the GPU-hours that was in the wrong hands."""
    lost: float
    """The part of the GPU-hours that was computed twice, or held while jobs stopped."""
    evictions: int
    utilisation: float
    jain: float
    longest_p95_wait_s: float | None

    @property
    def cost(self) -> float:
        """Sum of both parts."""
        return self.error + self.lost


@dataclass(frozen=True, slots=True)
class Sweep:
    """All trials, in the order of the grid."""

    scenario: str
    trials: tuple[Trial, ...]
    best: int
    reason: str

    @property
    def idle(self) -> list[str]:
        """The paths whose values made no difference."""
        return idle_of(self.trials)

    @property
    def recommended(self) -> Values:
        """The recommended values, of the paths that made a difference."""
        return _without(self.trials[self.best].values, self.idle)

    @property
    def frontier(self) -> list[int]:
        """The trials that no other beats in one part without being worse in the other."""
        return [
            at
            for at, trial in enumerate(self.trials)
            if not any(_beats(other, trial) for other in self.trials)
        ]


def settings_of(scenario: Scenario) -> list[Values]:
    """Return every combination that a scenario lists.

    Raises:
        ConfigError: it lists none, too many, or a key that cannot be set.

    """
    if scenario.tune is None or not scenario.tune.parameters:
        raise ConfigError(
            "names nothing to try",
            file=scenario.file,
            path="tune.parameters",
            fix="write values by path, such as shard.kValue: [0.5, 1, 2]",
        )
    parameters = scenario.tune.parameters
    for path, values in parameters.items():
        if not values:
            raise ConfigError(
                "has no values",
                file=scenario.file,
                path=f"tune.parameters.{path}",
                fix="write some",
            )
    count = math.prod(len(values) for values in parameters.values())
    if count > MOST_SETTINGS:
        raise ConfigError(
            f"names {count} combinations",
            file=scenario.file,
            path="tune.parameters",
            fix=f"at most {MOST_SETTINGS}: try fewer values",
        )
    return [tuple(zip(parameters, values, strict=True)) for values in product(*parameters.values())]


def changed(raw: Mapping[str, Any], values: Values, file: str) -> dict[str, Any]:
    """Return a copy of a scenario's plain values with some values replaced."""
    copied = copy.deepcopy(dict(raw))
    for path, value in values:
        *folders, name = path.split(".")
        at: Any = copied
        for folder in folders:
            at = at.setdefault(folder, {}) if isinstance(at, dict) else None
        if not isinstance(at, dict):
            raise ConfigError(
                "leads through something that is no mapping",
                file=file,
                path=f"tune.parameters.{path}",
                fix="name a key of mappings only; items of lists cannot be tuned",
            )
        at[name] = value
    return copied


def sweep(
    scenario: Scenario,
    processes: int,
    on_done: Callable[[int], None] | None = None,
    machines: Machines | None = None,
) -> Sweep:
    """Run every setting, ``processes`` at a time or on other machines, with the same result.

    Raises:
        ConfigError: a setting is wrong; nothing was run.

    """
    settings = settings_of(scenario)
    raws = [changed(scenario.raw, values, scenario.file) for values in settings]
    for values, raw in zip(settings, raws, strict=True):
        _check(raw, values, scenario.file)
    tasks = [(raw, scenario.file, values) for raw, values in zip(raws, settings, strict=True)]
    if machines is None:
        found = _tried(tasks, processes)
    else:
        found = machines.each(_run_there, map(_read, tasks))
    trials = []
    for done, trial in enumerate(found, 1):
        trials.append(trial)
        if on_done is not None:
            on_done(done)
    best, reason = recommend(trials)
    return Sweep(scenario.name, tuple(trials), best, reason)


def idle_of(trials: Sequence[Trial]) -> list[str]:
    """Return the paths whose values made no difference, whatever the other values are."""
    idle: list[str] = []
    for path, _ in trials[0].values if len(trials) > 1 else ():
        results: dict[str, Trial] = {}
        for trial in trials:
            rest = repr(_without(trial.values, [path]))
            if not _is_same(results.setdefault(rest, trial), trial):
                break
        else:
            idle.append(path)
    return idle


def _is_same(one: Trial, other: Trial) -> bool:
    """Tell whether two settings gave the same result."""
    return replace(one, values=()) == replace(other, values=())


def _without(values: Values, paths: Sequence[str]) -> Values:
    return tuple((path, value) for path, value in values if path not in paths)


def recommend(trials: Sequence[Trial]) -> tuple[int, str]:
    """Return the recommended setting, and why."""
    if len(trials) > 1 and len(idle_of(trials)) == len(trials[0].values):
        return 0, (
            f"All {len(trials)} settings gave the same result: {trials[0].error:.1%} of the "
            f"GPU-hours are in the wrong hands and {trials[0].lost:.1%} are lost."
        )
    best = min(range(len(trials)), key=lambda at: (trials[at].cost, trials[at].lost, at))
    fairest = min(range(len(trials)), key=lambda at: (trials[at].error, trials[at].lost, at))
    calmest = min(range(len(trials)), key=lambda at: (trials[at].lost, trials[at].error, at))
    it = trials[best]
    words = [
        (
            f"{it.error:.1%} of the GPU-hours are in the wrong hands and {it.lost:.1%} are lost: "
            f"{it.cost:.1%} together, the least of {len(trials)} settings."
        )
    ]
    if fairest == best:
        words.append("No setting is fairer.")
    else:
        other = trials[fairest]
        words.append(
            f"The fairest ({told(other.values)}) has an error of {other.error:.1%}, "
            f"but loses {other.lost:.1%}."
        )
    if calmest == best:
        words.append("No setting loses less.")
    else:
        other = trials[calmest]
        words.append(
            f"The calmest ({told(other.values)}) loses {other.lost:.1%}, "
            f"but has an error of {other.error:.1%}."
        )
    idle = idle_of(trials)
    kept = _without(it.values, idle)
    equal = {_without(other.values, idle): None for other in trials if _is_same(it, other)}
    others = [told(values) for values in equal if values != kept]
    if others:
        words.append(f"The same result: {'; '.join(others[:_MOST_EQUAL])}")
        words[-1] += f"; {len(others) - _MOST_EQUAL} more." if len(others) > _MOST_EQUAL else "."
    return best, " ".join(words)


def told(values: Values) -> str:
    """Describe a setting in few words: the last parts of its paths."""
    return ", ".join(f"{path.rpartition('.')[2]} {value}" for path, value in values)


def trial_of(values: Values, outcome: Outcome) -> Trial:
    """Make the trial of a setting from the outcome of its run."""
    hours = outcome.gpu_hours
    return Trial(
        values=values,
        error=outcome.fairness_error,
        lost=outcome.lost_gpu_hours / hours if hours else 0.0,
        evictions=outcome.evictions,
        utilisation=outcome.utilisation,
        jain=outcome.jain,
        longest_p95_wait_s=worst_waits(outcome)[1],
    )


def _beats(one: Trial, other: Trial) -> bool:
    is_no_worse = one.error <= other.error and one.lost <= other.lost
    return is_no_worse and (one.error < other.error or one.lost < other.lost)


def _check(raw: dict[str, Any], values: Values, file: str) -> None:
    """Read a setting, so that a wrong value is reported before anything is run."""
    try:
        policy_of(scenario_of(raw, Path(file)))
    except ConfigError as error:
        found = Findings(file)
        path = ".".join(filter(None, ("tune.parameters", error.path)))
        found.add(f"{error.message} (with {told(values)})", value=error.value, fix=error.fix)
        wrong: ScenarioError = found.errors[0]
        wrong.path = path
        raise wrong from None


def _tried(tasks: Sequence[_Task], processes: int) -> Iterator[Trial]:
    if processes <= 1 or len(tasks) <= 1:
        yield from map(_try, tasks)
        return
    # A fresh process each: state inherited by a fork may differ from run to run.
    pool = ProcessPoolExecutor(
        min(processes, len(tasks)), get_context("spawn"), end_with, (os.getpid(),)
    )
    try:
        # Processes begin here, and inherit that Ctrl-C is blocked: it is for this process alone.
        before = pthread_sigmask(SIG_BLOCK, {SIGINT})
        try:
            trials = pool.map(_try, tasks)
        finally:
            pthread_sigmask(SIG_SETMASK, before)
        yield from trials
    except BaseException:
        for process in active_children():
            process.terminate()
        raise
    finally:
        pool.shutdown(cancel_futures=True)


def _try(task: _Task) -> Trial:
    return _run(*_read(task))


def _read(task: _Task) -> tuple[Scenario, Values]:
    raw, file, values = task
    return scenario_of(raw, Path(file)), values


def _run(scenario: Scenario, values: Values, progress: Progress | None = None) -> Trial:
    policy, _ = policy_of(scenario)
    return trial_of(values, outcome_of(run_scenario(scenario, policy, progress)))


def _run_there(read: tuple[Scenario, Values]) -> Trial:
    """Run a setting on another machine, which has none of the files that the scenario names."""
    return _run(*read, end_if_unwanted)
