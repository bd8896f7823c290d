"""Forecasts of when jobs start: bands over several courses of events, and what they assume."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from kaisched.core.axis import BoolVec, FloatVec, IntVec, RowVec
from kaisched.core.snapshot import Snapshot
from kaisched.framework.report.result import CycleResult
from kaisched.sim.arrivals import Chance
from kaisched.sim.forecast.course import GRACE_S, Course, Ended, NewJob, World, with_jobs
from kaisched.sim.forecast.past import DAY_S, ENOUGH, MOST_NEW, Past, RunTimes, upcoming
from kaisched.units import format_duration

DRAWS: Final = 10
STEPS: Final = 200
"""The most cycles of one course."""
HORIZON_S: Final = 7 * DAY_S
_SEED: Final = 20_170_904
_EARLY, _MIDDLE, _LATE = 0.1, 0.5, 0.9
_APART_S: Final = 1.0
"""The pods of a job end within so long of each other; what is free first goes to smaller jobs."""
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
    now_s: float = math.nan
    """The time of the state from which the seconds count, in seconds since 1970."""


def world_of(result: CycleResult) -> World:
    """Return the inputs of a cycle again."""
    session = result.records.session
    return World(session.snapshot, session.usage, session.policy, session.memory, session.now_s)


def forecasts(
    world: World,
    jobs: Collection[int],
    past: Past,
    *,
    draws: int = DRAWS,
    steps: int = STEPS,
    run_times: RunTimes | None = None,
    is_late: Callable[[], bool] = lambda: False,
) -> dict[int, Forecast]:
    """Return when each of some waiting jobs may start. Equal arguments give equal forecasts.

    Args:
        world: what is known now.
        jobs: the rows of the jobs.
        past: what is known of the past.
        draws: the number of courses; one is enough where nothing is left to chance.
        steps: the most cycles of each; fewer on a large cluster.
        run_times: those of the jobs; else estimated from the past.
        is_late: asked after each course, whether no other one may begin.

    """
    if not jobs:
        return {}
    snapshot = world.snapshot
    times = run_times or RunTimes(snapshot, world.now_s, past)
    rows = _ROWS + len(snapshot.tasks.name) + len(snapshot.nodes) + len(snapshot.queues)
    steps = max(min(steps, _WORK // (rows * draws)), 1)
    draws = draws if _has_chance(world, times, past) else 1
    ended: list[Ended] = []
    for draw in range(draws):
        ended.append(_course(world, past, times, draw).run(jobs, steps, HORIZON_S))
        if is_late():
            break
    assumptions = tuple(_assumptions(snapshot, times, past, world.now_s))
    found = {job: _foreseen(job, ended, len(ended) < draws, assumptions) for job in jobs}
    return {job: replace(it, now_s=world.now_s) for job, it in found.items()}


def _foreseen(
    job: int, ended: Sequence[Ended], is_cut: bool, assumptions: tuple[str, ...]
) -> Forecast:
    """Return what courses say of a job."""
    started = sorted(it.started_s.get(job, math.inf) for it in ended)
    looked = [it.looked_s for it in ended if job not in it.started_s]
    return Forecast(
        earliest_s=_quantile(started, _EARLY),
        median_s=_quantile(started, _MIDDLE),
        latest_s=_quantile(started, _LATE),
        courses=len(ended),
        started=len(ended) - len(looked),
        looked_s=min(looked, default=math.inf),
        cycles=sum(it.steps for it in ended),
        is_cut=is_cut,
        assumptions=assumptions,
    )


def _has_chance(world: World, times: RunTimes, past: Past) -> bool:
    """Tell whether courses may differ: by new jobs, by run times, or by pods that end apart."""
    is_drawn = past.count > 0 and len(times.known()) < len(times.lives)
    is_one_by_one = bool(_alone(world.snapshot.tasks.job_of_task).all())
    return is_drawn or past.reach_s(world.now_s) > 0 or not is_one_by_one


def _course(world: World, past: Past, times: RunTimes, draw: int) -> Course:
    """Return a course by chance: new jobs and run times come from streams of its own."""
    chance = Chance(_SEED)
    new = upcoming(past, world.now_s, HORIZON_S, chance.stream("arrivals", str(draw)))
    before = len(world.snapshot.tasks.name)
    snapshot, rows = with_jobs(world.snapshot, new)
    parts = chance.stream("run times", str(draw)).random(len(snapshot.jobs.name)).tolist()
    queues, of_pod = snapshot.jobs.queue_of_job.tolist(), snapshot.tasks.job_of_task
    declared_s = np.append(times.declared_s, np.repeat(*_run_times(new)))
    later_s = _APART_S * chance.stream("ends", str(draw)).random(len(of_pod))
    later_s[_alone(of_pod)] = 0.0

    def run_time(tasks: RowVec, ages_s: FloatVec) -> FloatVec:
        lengths_s: FloatVec = declared_s[tasks]
        drawn = np.flatnonzero(~(lengths_s > ages_s))
        found: dict[tuple[int, float], float] = {}
        keys = zip(of_pod[tasks[drawn]].tolist(), ages_s[drawn].tolist(), strict=True)
        for at, (job, age_s) in zip(drawn.tolist(), keys, strict=True):
            if (job, age_s) not in found:
                lengths = times.lengths(queues[job])
                found[job, age_s] = lengths.draw(parts[job], age_s)
            lengths_s[at] = found[job, age_s]
        return lengths_s + later_s[tasks]

    names = snapshot.tasks.name[:before]
    following = [past.following.get(name, 0) for name in names]
    grace_s = [past.grace_s.get(name, GRACE_S) for name in names]
    return Course(
        world._replace(snapshot=snapshot),
        run_time,
        [(job.at_s, row) for job, row in zip(new, rows, strict=True)],
        started_s=np.append(times.started_s, np.full(len(of_pod) - before, np.nan)),
        following=np.array(following, np.int64),
        grace_s=np.array(grace_s),
    )


def _alone(job_of_task: RowVec) -> BoolVec:
    """Return which pods ``(T,)`` are the only one of their job, or belong to none."""
    pods = np.bincount(job_of_task[job_of_task >= 0], minlength=1)
    alone: BoolVec = (job_of_task < 0) | (pods[job_of_task] <= 1)
    return alone


def _run_times(new: Sequence[NewJob]) -> tuple[FloatVec, IntVec]:
    """Return how long new jobs run, and how many pods each has."""
    return np.array([it.run_s for it in new]), np.array([it.pods for it in new], np.int64)


def _quantile(ordered: Sequence[float], part: float) -> float:
    """Return a quantile by nearest rank: a value that occurred."""
    return ordered[max(math.ceil(part * len(ordered)) - 1, 0)]


def _assumptions(snapshot: Snapshot, times: RunTimes, past: Past, now_s: float) -> list[str]:
    """Say what a forecast rests on."""
    jobs, names = snapshot.jobs, snapshot.queues.name
    known = times.known()
    rest = set(times.lives).difference(known)
    own = sum(
        (row := int(jobs.queue_of_job[job])) >= 0 and names[row] in times.of_queue for job in rest
    )
    said = []
    if known:
        said.append(f"{_jobs(len(known))} as declared")
    if own:
        said.append(f"{_jobs(own)} like the ended runs of the queue, {ENOUGH} or more")
    if len(rest) > own:
        said.append(f"{_jobs(len(rest) - own)} {_like_the_shard(past)}")
    lines = [f"run times: {'; '.join(said) or 'none is known'}"]
    if wrong := len(times.doubtful()):
        lines.append(f"the declared run time of {_jobs(wrong)} is no time, or is over: not used")
    if more := sum(past.following.values()):
        pods = "1 pod follows" if more == 1 else f"{more:,} pods follow"
        lines.append(f"{pods} those of batch Jobs that end, up to the completions of each")
    reach_s = past.reach_s(now_s)
    if reach_s:
        shown = format_duration(float(round(reach_s)))
        lines.append(
            f"new jobs come for {shown} as {len(past.came)} came in the last {shown}, at most"
            f" {MOST_NEW:,}, and none later"
        )
    else:
        lines.append("no new jobs come: how often they do is not known")
    if not _alone(snapshot.tasks.job_of_task).all():
        lines.append("the pods of a job end within a second of each other")
    lines.append(
        "evicted jobs begin anew after their grace period; nodes and past usage stay as they are"
    )
    return lines


def _jobs(count: int) -> str:
    return f"{count} job" if count == 1 else f"{count:,} jobs"


def _like_the_shard(past: Past) -> str:
    if past.count:
        runs = "run" if past.count == 1 else "runs"
        return f"like the {past.count:,} ended {runs} of the shard"
    return "for ever, since no run that has ended is known"
