"""Story 1 of time-aware fairness on a grid: endless jobs that each need all GPUs, six weeks of them.

Prints the largest deviation from the weights of every case: ``python -m tests.timelines.story_one``,
with ``--all`` for jobs of ten minutes too, which takes an hour or two.
"""

from __future__ import annotations

import argparse
import itertools
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kaisched.sim.outcome import outcome_of
from kaisched.sim.running import policy_of, run_scenario
from kaisched.sim.scenario.load import scenario_of

WEEKS = 6
SIZES = (1, 2, 3, 4, 8, 16, 100)
"""GPUs of the cluster; a job of more than 64 is two pods."""
K_VALUES = (0.25, 0.5, 1, 2, 4)
WEIGHTS = (
    (1, 1),
    (1, 2),
    (1, 5),
    (1, 1, 1),
    (1, 2, 3),
    (1, 3, 5),
    (1,) * 5,
    (1, 1, 2, 2, 3),
    (1, 2, 3, 4, 5),
)
SHAPES = ("flat", "department", "limit")
HOURS = (1.0, 5.0, 24.0, 1 / 6)
TOLERANCE = 0.05
MOST_OF_NODE = 64


@dataclass(frozen=True)
class Case:
    """Queues of some weights, with endless jobs of all GPUs that they may have."""

    gpus: int
    k: float
    weights: tuple[int, ...]
    shape: str = "flat"
    """The queues have the cluster to themselves, as one of two departments that have half of it
    by quota, or up to the limit of a department beside small work."""
    hours: float = 1.0
    weeks: int = WEEKS
    evictions: list[int] = field(default_factory=list, repr=False, compare=False)

    def scenario(self) -> dict[str, Any]:
        """Return the scenario, as in a file."""
        names = [f"q{at}" for at in range(len(self.weights))]
        parent = {} if self.shape == "flat" else {"parent": "d"}
        queues: list[dict[str, Any]] = [
            {"name": name, "overQuotaWeight": weight, **parent}
            for name, weight in zip(names, self.weights, strict=True)
        ]
        duration = f"{round(self.hours * 60)}m"
        pods = 2 if self.gpus > MOST_OF_NODE else 1
        each = {"gpus": self.gpus // pods, "pods": pods}
        jobs: list[dict[str, Any]] = [
            {"queue": name, **each, "arrivals": {"backlog": 3}, "duration": duration}
            for name in names
        ]
        nodes = [{"count": pods, "gpus": self.gpus // pods}]
        if self.shape != "flat":
            bounds = {"limit": self.gpus} if self.shape == "limit" else {}
            queues.insert(0, {"name": "d", "quota": self.gpus, **bounds})
            queues.append({"name": "e", "quota": self.gpus})
            jobs.append({"queue": "e", **each, "arrivals": {"backlog": 3}, "duration": "4h"})
            nodes[0]["count"] *= 2
        return {
            "name": "story one",
            "time": {"duration": f"{self.weeks}w"},
            "nodes": nodes,
            "queues": queues,
            "jobs": jobs,
            "shard": {"kValue": self.k, "usageDBConfig": {"clientType": "memory"}},
        }

    def deviations(self) -> list[tuple[float, float]]:
        """Run it; return for each queue by what part it is off its weight, and by how many jobs."""
        scenario = scenario_of(self.scenario(), Path("story-one.yaml"))
        outcome = outcome_of(run_scenario(scenario, policy_of(scenario)[0]))
        self.evictions.append(outcome.evictions)
        got = {queue.name: queue.gpu_hours for queue in outcome.queues}
        due = self.gpus * 24 * 7 * self.weeks / sum(self.weights)
        one = self.gpus * self.hours
        return [
            (got[f"q{at}"] / (weight * due) - 1, (got[f"q{at}"] - weight * due) / one)
            for at, weight in enumerate(self.weights)
        ]

    def is_fair(self) -> bool:
        """Tell whether every queue is within 5 % of its weight, or within one job."""
        return all(
            abs(part) <= TOLERANCE or abs(jobs) <= 1 + 1e-9 for part, jobs in self.deviations()
        )


def grid(hours: tuple[float, ...]) -> Iterator[Case]:
    """Yield all cases of some lengths of jobs."""
    for each in itertools.product(hours, SHAPES, WEIGHTS, SIZES, K_VALUES):
        long, shape, weights, gpus, k = each
        yield Case(gpus, k, weights, shape, long)


def main() -> int:
    """Run the grid; return how many cases are not fair, at most 1."""
    parser = argparse.ArgumentParser(prog="python -m tests.timelines.story_one")
    parser.add_argument("--all", action="store_true", help="jobs of ten minutes too")
    parser.add_argument("--every", type=int, default=1, help="only every so many-th case")
    given = parser.parse_args()
    unfair = count = 0
    for case in itertools.islice(grid(HOURS if given.all else HOURS[:3]), 0, None, given.every):
        worst = max(case.deviations(), key=lambda each: min(abs(each[0]) / TOLERANCE, abs(each[1])))
        is_fair = abs(worst[0]) <= TOLERANCE or abs(worst[1]) <= 1
        count, unfair = count + 1, unfair + (not is_fair)
        print(
            f"{'' if is_fair else 'UNFAIR '}{case}: {worst[0]:+.1%}, {worst[1]:+.1f} jobs, {case.evictions[0]} evictions",
            flush=True,
        )
    print(f"{unfair} of {count} unfair")
    return min(unfair, 1)


if __name__ == "__main__":
    raise SystemExit(main())
