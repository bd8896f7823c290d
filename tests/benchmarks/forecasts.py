"""The error of forecasts of starts, on a stretch of the Philly trace.

``python -m tests.benchmarks.forecasts`` simulates the stretch, looks at jobs that wait at instants
by chance, forecasts the start of each from what is known then, and compares with the simulation.
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from statistics import median

import numpy as np

from kaisched.core.snapshot import Snapshot
from kaisched.engine.policy import default_policy
from kaisched.framework.memory import Memory
from kaisched.framework.report.result import CycleResult
from kaisched.sim.cluster import Cluster, equal_nodes, equal_queues
from kaisched.sim.forecast.course import NewJob, World
from kaisched.sim.forecast.forecast import Forecast, forecasts
from kaisched.sim.forecast.past import DAY_S, WINDOW_S, Past, RunTimes
from kaisched.sim.pools import Site
from kaisched.sim.recorder import Tally
from kaisched.sim.replay import Replay
from kaisched.sim.running import PolicyCycle
from kaisched.sim.ticks import GRID_S, Pace, tick_at
from kaisched.sim.traces import find_trace, read_trace
from kaisched.sim.workload import ClusterSize, QuotaMode, Workload, workload_of

FIRST_DAY, LAST_DAY = 28, 58
_WARM_UP, _REST = 2, 2
"""Days without forecasts: the cluster fills, and what is forecast at the end may still start."""


class Runs(Tally):
    """What has become of the jobs of a simulation."""

    def __init__(self, work: Workload) -> None:
        """Start before the first job."""
        super().__init__(work, tick_at(FIRST_DAY * DAY_S))
        self._since: dict[int, int] = {}
        self.starts: dict[int, list[int]] = {}
        self.ended: list[tuple[int, float]] = []
        """Queue and length of each run, in the order of their ends."""

    def start(self, job: int, tick: int) -> None:
        """Note a start."""
        super().start(job, tick)
        self._since[job] = tick
        self.starts.setdefault(job, []).append(tick)

    def finish(self, job: int, tick: int) -> None:
        """Note the end of a run."""
        super().finish(job, tick)
        length_s = float((tick - self._since[job]) * GRID_S)
        self.ended.append((self._work.queue[job], length_s))


@dataclass(frozen=True)
class Moment:
    """A waiting job at an instant, and what was known then."""

    snapshot: Snapshot
    memory: Memory
    now_s: float
    row: int
    ended: int
    """Runs that had ended."""


@dataclass
class Observer:
    """The cycle of a simulation, which notes one waiting job at each of some instants."""

    cycle: PolicyCycle
    runs: Runs
    instants: list[float]
    chance: np.random.Generator
    moments: list[Moment] = field(default_factory=list)

    def __call__(self, snapshot: Snapshot, now_s: float) -> CycleResult:
        """Decide, as the cycle does."""
        while self.instants and self.instants[0] <= now_s:
            self.instants.pop(0)
            jobs = snapshot.jobs
            waiting = np.flatnonzero((jobs.pending > 0) & (jobs.active == 0))
            if len(waiting):
                row = int(self.chance.choice(waiting))
                memory = self.cycle._memory
                ended = len(self.runs.ended)
                self.moments.append(Moment(snapshot, memory, now_s, row, ended))
        return self.cycle(snapshot, now_s)


def number_of(name: str) -> int:
    """Return a job's position in the workload."""
    return int(name.rpartition("-")[2])


class Month:
    """A simulated stretch of the trace, and forecasts from its moments."""

    def __init__(self, nodes: int, samples: int, seed: int) -> None:
        """Simulate."""
        trace = read_trace(find_trace("philly-2017"))
        size = ClusterSize(nodes, 8)
        part = trace.part(FIRST_DAY * DAY_S, LAST_DAY * DAY_S)
        self.work = workload_of(part, size, QuotaMode.PUBLISHED)
        self.cluster = Cluster(self.work, equal_nodes(size), equal_queues(self.work))
        self.policy = default_policy()
        self.runs = Runs(self.work)
        chance = np.random.default_rng(seed)
        first_s, last_s = (FIRST_DAY + _WARM_UP) * DAY_S, (LAST_DAY - _REST) * DAY_S
        instants = sorted(chance.uniform(first_s, last_s, samples).tolist())
        observer = Observer(PolicyCycle(self.policy), self.runs, instants, chance)
        self.end_s = LAST_DAY * DAY_S
        replay = Replay(
            self.work,
            [Site(self.cluster, observer)],
            tick_at(FIRST_DAY * DAY_S),
            Pace(),
            tally=self.runs,
        )
        replay.run(tick_at(self.end_s))
        found = observer.moments
        self.moments = [found[at] for at in chance.permutation(len(found)).tolist()]
        """In an order by chance, so that the first ones already tell something."""

    def actual_s(self, moment: Moment) -> float:
        """Return how long the job waited from then on; infinite if to the end of the stretch."""
        job = number_of(moment.snapshot.jobs.name[moment.row])
        starts = (tick * GRID_S - moment.now_s for tick in self.runs.starts.get(job, ()))
        return min((start_s for start_s in starts if start_s >= 0), default=math.inf)

    def past(self, moment: Moment) -> Past:
        """Return what was known of the past."""
        ended: dict[str, list[float]] = {}
        for queue, length_s in self.runs.ended[: moment.ended]:
            ended.setdefault(self.work.queue_names[queue], []).append(length_s)
        since_s = max(moment.now_s - WINDOW_S, FIRST_DAY * DAY_S)
        return Past(ended, list(self._came(moment, since_s)), since_s)

    def _came(self, moment: Moment, since_s: float) -> Iterator[NewJob]:
        work, row_of_name = self.work, moment.snapshot.queues.row_of_name
        for job, at_s in enumerate(work.submitted_s):
            if since_s <= at_s < moment.now_s:
                kind = work.kind[job]
                pods = len(kind.pods)
                shape = self.cluster._shape_of(kind.pods[0])
                queue = row_of_name[work.queue_names[work.queue[job]]]
                yield NewJob(at_s, queue, shape, pods, pods, kind.priority, kind.is_preemptible)

    def forecast(self, moment: Moment, *, is_known: bool) -> Forecast:
        """Forecast the start of a moment's job."""
        snapshot, past = moment.snapshot, self.past(moment)
        numbers = map(number_of, snapshot.jobs.name)
        of_job = [self.work.ticks[job] * GRID_S if is_known else math.nan for job in numbers]
        declared_s = np.array(of_job, np.float64)[snapshot.tasks.job_of_task]
        times = RunTimes(snapshot, moment.now_s, past, declared_s)
        world = World(snapshot, None, self.policy, moment.memory, moment.now_s)
        return forecasts(world, [moment.row], past, run_times=times)[moment.row]


def holds(seen: Forecast, actual_s: float) -> bool:
    """Tell whether a band holds, to the grid of the simulation; an open one has no end."""
    first_s = seen.earliest_s if seen.started else seen.looked_s
    return first_s - GRID_S <= actual_s <= seen.latest_s + GRID_S


def row_of(name: str, rows: Sequence[tuple[Forecast, float]], took_s: float) -> str:
    """Return a line of the table."""
    exact = [
        (seen, actual_s)
        for seen, actual_s in rows
        if math.isfinite(seen.median_s) and math.isfinite(actual_s)
    ]
    error_s = median([abs(seen.median_s - actual_s) for seen, actual_s in exact] or [math.nan])
    factors = [
        abs(math.log((seen.median_s + GRID_S) / (actual_s + GRID_S))) for seen, actual_s in exact
    ]
    held = sum(holds(seen, actual_s) for seen, actual_s in rows)
    is_open = sum(math.isinf(seen.latest_s) for seen, _ in rows)
    wait_s = median([actual_s for _, actual_s in rows])
    cells = (
        name,
        f"{len(rows)}",
        f"{wait_s / 60:.0f} min",
        f"{error_s / 60:.0f} min",
        f"{math.exp(median(factors or [math.nan])):.2f}",
        f"{100 * held / len(rows):.0f} %",
        f"{100 * is_open / len(rows):.0f} %",
        f"{took_s / len(rows):.1f} s",
    )
    return f"| {' | '.join(cells)} |"


def main() -> None:
    """Measure, and print the table again every ten moments."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=64)
    parser.add_argument("--samples", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    chosen = parser.parse_args()
    month = Month(chosen.nodes, chosen.samples, chosen.seed)
    print(f"{len(month.moments)} of {chosen.samples} instants have waiting jobs", flush=True)
    rows: dict[bool, list[tuple[Forecast, float]]] = {True: [], False: []}
    took_s = {True: 0.0, False: 0.0}
    for count, moment in enumerate(month.moments, 1):
        for is_known, found in rows.items():
            began_s = time.process_time()
            found.append((month.forecast(moment, is_known=is_known), month.actual_s(moment)))
            took_s[is_known] += time.process_time() - began_s
        if count % 10 == 0 or count == len(month.moments):
            for is_known, found in rows.items():
                name = "known" if is_known else "learned"
                print(row_of(name, found, took_s[is_known]), flush=True)


if __name__ == "__main__":
    main()
