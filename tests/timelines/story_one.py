"""Story 1 of time-aware fairness on a grid: endless jobs that each need all GPUs, for weeks.

``python -m tests.timelines.story_one`` prints how far each case of the grid is off the weights
after six weeks; ``--every 40`` takes one case of forty.
"""

from __future__ import annotations

import argparse
import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from kaisched.sim.outcome import outcome_of
from kaisched.sim.running import policy_of, run_scenario
from kaisched.sim.scenario.load import scenario_of

WEEK_HOURS = 168
SIZES = (1, 2, 3, 4, 8, 16, 100)
K_VALUES = (0.25, 0.5, 1, 2, 4)
WEIGHTS = (
    *((1, 1), (1, 2), (1, 5)),
    *((1, 1, 1), (1, 2, 3), (1, 3, 5)),
    *((1, 1, 1, 1, 1), (1, 1, 2, 2, 3), (1, 2, 3, 4, 5)),
)
SHAPES = ("flat", "department", "limit")
HOURS = (1.0, 5.0, 24.0, 1 / 6)
TOLERANCE = 0.05
_MOST_OF_NODE = 64


class Told(NamedTuple):
    """What became of a case."""

    got: np.ndarray
    """``(Q, H)`` what each queue had until each hour, in hours of all GPUs."""
    evictions: int

    def behind(self, weights: tuple[int, ...], since: int = 0) -> np.ndarray:
        """Return ``(Q, H)`` how far queues are behind their weights since an hour."""
        got = self.got[:, since:] - self.got[:, [since]]
        part = np.array(weights)[:, None] / sum(weights)
        return part * got.sum(axis=0) - got


@dataclass(frozen=True)
class Case:
    """Queues of some weights, with endless jobs of all GPUs that they may have."""

    gpus: int
    k: float
    weights: tuple[int, ...]
    shape: str = "flat"
    """The queues have the cluster to themselves; or they are a department with a quota of half of
    it; or that and a limit."""
    hours: float | tuple[float, ...] = 1.0
    """Of the jobs of all queues, or of each."""
    weeks: int = 6
    history: tuple[tuple[str, str], ...] = ()
    """Parameters of the usage history beside its defaults, such as ("windowSize", "1h")."""

    @property
    def durations(self) -> tuple[float, ...]:
        """Return how long the jobs of each queue run, in hours."""
        return self.hours if isinstance(self.hours, tuple) else (self.hours,) * len(self.weights)

    def scenario(self) -> dict[str, Any]:
        """Return the scenario, as in a file."""
        parent = {} if self.shape == "flat" else {"parent": "d"}
        pods = 2 if self.gpus > _MOST_OF_NODE else 1
        job = {"gpus": self.gpus // pods, "pods": pods, "arrivals": {"backlog": 3}}
        nodes = {"count": pods, "gpus": self.gpus // pods}
        queues: list[dict[str, Any]] = []
        jobs: list[dict[str, Any]] = []
        for at, (weight, hours) in enumerate(zip(self.weights, self.durations, strict=True)):
            queues.append({"name": f"q{at}", "overQuotaWeight": weight, **parent})
            jobs.append({"queue": f"q{at}", "duration": f"{round(hours * 60)}m", **job})
        if self.shape != "flat":
            limit = {"limit": self.gpus} if self.shape == "limit" else {}
            queues = [{"name": "d", "quota": self.gpus, **limit}, *queues]
            queues.append({"name": "e", "quota": self.gpus})
            jobs.append({"queue": "e", "duration": "4h", **job})
            nodes["count"] *= 2
        usage = {"clientType": "memory", "usageParams": dict(self.history)}
        return {
            "name": "story one",
            "time": {"duration": f"{self.weeks}w"},
            "nodes": [nodes],
            "queues": queues,
            "jobs": jobs,
            "shard": {"kValue": self.k, "usageDBConfig": usage},
        }

    def run(self) -> Told:
        """Run it in virtual time."""
        scenario = scenario_of(self.scenario(), Path("story-one.yaml"))
        run = run_scenario(scenario, policy_of(scenario)[0])
        hours = np.arange(self.weeks * WEEK_HOURS + 1) * 60
        first = len(run.record.allocated) - len(self.weights) - (self.shape != "flat")
        held = run.record.allocated[first : first + len(self.weights)]
        got = np.array([steps.integral(hours) for steps in held]) / (60 * self.gpus)
        return Told(got, outcome_of(run).evictions)

    def is_fair(self, behind: np.ndarray, hours: float) -> bool:
        """Tell whether queues are within 5 % of their part of some hours, or within a job."""
        due = np.array(self.weights) / sum(self.weights) * hours
        most = np.maximum(TOLERANCE * due, np.array(self.durations))
        return bool((np.abs(behind) <= most + 1e-6).all())


def grid() -> Iterator[Case]:
    """Yield all cases."""
    for hours, shape, weights, gpus, k in itertools.product(
        HOURS, SHAPES, WEIGHTS, SIZES, K_VALUES
    ):
        yield Case(gpus, k, weights, shape, hours)


def main() -> int:
    """Print each case; return 1 if any is not fair."""
    parser = argparse.ArgumentParser(prog="python -m tests.timelines.story_one")
    parser.add_argument("--every", type=int, default=1, help="only one case of so many")
    parser.add_argument("--begin", type=int, default=0, help="the first of them")
    given = parser.parse_args()
    unfair = count = 0
    for case in itertools.islice(grid(), given.begin, None, given.every):
        told = case.run()
        behind = told.behind(case.weights)[:, -1]
        is_fair = case.is_fair(behind, told.got[:, -1].sum())
        count, unfair = count + 1, unfair + (not is_fair)
        jobs = ", ".join(f"{-each:+.1f}" for each in behind / np.array(case.durations))
        said = "" if is_fair else "UNFAIR "
        print(f"{said}{case}: jobs more than due {jobs}; {told.evictions} evictions", flush=True)
    print(f"{unfair} of {count} unfair")
    return min(unfair, 1)


if __name__ == "__main__":
    raise SystemExit(main())
