"""The forecast of a job's start: a band over several courses of events, and what it assumes."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from kaisched.core.snapshot import Snapshot
from kaisched.framework.report.result import CycleResult
from kaisched.sim.arrivals import Chance
from kaisched.sim.forecast.course import GRACE_S, Course, Ended, World, with_jobs
from kaisched.sim.forecast.past import DAY_S, ENOUGH, MOST_NEW, Past, RunTimes, upcoming
from kaisched.units import format_duration

DRAWS: Final = 10
STEPS: Final = 200
"""The most cycles of one course."""
HORIZON_S: Final = 7 * DAY_S
_SEED: Final = 20_170_904
_EARLY, _MIDDLE, _LATE = 0.1, 0.5, 0.9
_WORK: Final = 40_000_000
"""Rows that all cycles together may pass over: a bound in steps, the same on every machine."""
_ROWS: Final = 5_000
"""What a cycle costs beside its rows, in rows."""


@dataclass(frozen=True, slots=True)
class Forecast:
    """When a job may start, in seconds from now; infinite for later than was looked ahead."""

    earliest_s: float
    """A tenth of the courses start it sooner."""
    median_s: float
    latest_s: float
    """A tenth of the courses start it later."""
    courses: int
    started: int
    """Courses in which it starts."""
    looked_s: float
    """How far courses without a start have looked ahead at least; infinite without any."""
    cycles: int
    is_cut: bool
    """Courses are missing because time was up."""
    assumptions: tuple[str, ...]


def world_of(result: CycleResult) -> World:
    """Return the inputs of a cycle again."""
    session = result.records.session
    return World(session.snapshot, session.usage, session.policy, session.memory, session.now_s)


def forecast(
    world: World,
    job: int,
    past: Past,
    *,
    draws: int = DRAWS,
    steps: int = STEPS,
    run_times: RunTimes | None = None,
    is_late: Callable[[], bool] = lambda: False,
) -> Forecast:
    """Return when a waiting job may start. Equal arguments give an equal forecast.

    Args:
        world: what is known now.
        job: the row of the job.
        past: what is known of the past.
        draws: the number of courses; one is enough where nothing is left to chance.
        steps: the most cycles of each; fewer on a large cluster.
        run_times: those of the jobs; else estimated from the past.
        is_late: asked after each course, whether no other one may begin.

    """
    snapshot = world.snapshot
    times = run_times or RunTimes(snapshot, world.now_s, past)
    rows = _ROWS + len(snapshot.tasks.name) + len(snapshot.nodes) + len(snapshot.queues)
    steps = max(min(steps, _WORK // (rows * draws)), 1)
    draws = draws if _has_chance(world, times, past) else 1
    ended: list[Ended] = []
    for draw in range(draws):
        ended.append(_course(world, past, times, draw).run(job, steps, HORIZON_S))
        if is_late():
            break
    started = sorted(it.started_s for it in ended)
    looked = [it.looked_s for it in ended if it.started_s == math.inf]
    return Forecast(
        earliest_s=_quantile(started, _EARLY),
        median_s=_quantile(started, _MIDDLE),
        latest_s=_quantile(started, _LATE),
        courses=len(ended),
        started=len(ended) - len(looked),
        looked_s=min(looked, default=math.inf),
        cycles=sum(it.steps for it in ended),
        is_cut=len(ended) < draws,
        assumptions=tuple(_assumptions(snapshot, times, past, world.now_s)),
    )


def _has_chance(world: World, times: RunTimes, past: Past) -> bool:
    """Tell whether courses may differ: by new jobs, or by run times that are drawn."""
    jobs = world.snapshot.jobs
    lives = np.flatnonzero((jobs.active > 0) | (jobs.pending > 0)).tolist()
    is_drawn = past.count > 0 and not all(map(times.is_known, lives))
    return is_drawn or (len(past.came) > 0 and past.since_s < world.now_s)


def _course(world: World, past: Past, times: RunTimes, draw: int) -> Course:
    """Return a course by chance: new jobs and run times come from streams of its own."""
    chance = Chance(_SEED)
    new = upcoming(past, world.now_s, HORIZON_S, chance.stream("arrivals", str(draw)))
    snapshot, rows = with_jobs(world.snapshot, new)
    parts = chance.stream("run times", str(draw)).random(len(snapshot.jobs.name)).tolist()
    queues = snapshot.jobs.queue_of_job.tolist()

    def run_time(job: int, is_new: bool) -> float:
        return times.draw(job, queues[job], parts[job], is_new=is_new)

    arrivals = [(job.at_s, row) for job, row in zip(new, rows, strict=True)]
    return Course(world._replace(snapshot=snapshot), run_time, arrivals)


def _quantile(ordered: Sequence[float], part: float) -> float:
    """Return a quantile by nearest rank: a value that occurred."""
    return ordered[max(math.ceil(part * len(ordered)) - 1, 0)]


def _assumptions(snapshot: Snapshot, times: RunTimes, past: Past, now_s: float) -> list[str]:
    """Say what a forecast rests on."""
    jobs = snapshot.jobs
    lives = np.flatnonzero((jobs.active > 0) | (jobs.pending > 0)).tolist()
    known = sum(times.is_known(job) for job in lives)
    rest = [job for job in lives if not times.is_known(job)]
    names = snapshot.queues.name
    own = sum(
        (row := int(jobs.queue_of_job[job])) >= 0 and names[row] in times.of_queue for job in rest
    )
    said = []
    if known:
        said.append(f"{_jobs(known)} as declared")
    if own:
        said.append(f"{_jobs(own)} like the ended runs of the queue, {ENOUGH} or more")
    if len(rest) > own:
        said.append(f"{_jobs(len(rest) - own)} {_like_the_shard(past)}")
    lines = [f"run times: {'; '.join(said) or 'none is known'}"]
    wrong = sum(times.is_doubtful(job) for job in lives)
    if wrong:
        lines.append(f"the declared run time of {_jobs(wrong)} is no time, or is over: not used")
    span_s = now_s - past.since_s
    if past.came and span_s > 0:
        shown = format_duration(float(round(span_s)))
        lines.append(
            f"new jobs come as {len(past.came)} came in the last {shown}, at most {MOST_NEW:,}"
        )
    else:
        lines.append("no new jobs come")
    lines.append(
        f"evicted jobs begin anew, {GRACE_S:.0f} s later; nodes and past usage stay as they are"
    )
    return lines


def _jobs(count: int) -> str:
    return f"{count} job" if count == 1 else f"{count:,} jobs"


def _like_the_shard(past: Past) -> str:
    if past.count:
        runs = "run" if past.count == 1 else "runs"
        return f"like the {past.count:,} ended {runs} of the shard"
    return "for ever, since no run that has ended is known"
