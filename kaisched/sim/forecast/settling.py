"""What becomes of a state if nothing ends and nothing comes: cycles until none decides anything."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from kaisched.core.axis import ALLOCATED_STATES, TaskState
from kaisched.framework.report.records import DecisionRecord, QueueShare
from kaisched.framework.report.result import CycleResult
from kaisched.sim.forecast.course import Course, World

MOST_CYCLES: Final = 30


@dataclass(frozen=True, slots=True)
class JobState:
    """A job after the last cycle."""

    queue: str
    running: int
    """Its pods that run."""
    waiting: int
    before: int
    """Its pods that ran before the first cycle."""
    record: DecisionRecord | None
    """Why it waits; None if it does not."""


@dataclass(frozen=True, slots=True)
class Eviction:
    """A pod that one of the cycles evicted."""

    pod: str
    pod_group: str
    action: str
    beneficiary: str
    reason: str


@dataclass(slots=True)
class Settled:
    """A state in which nothing moves any more."""

    jobs: dict[str, JobState] = field(default_factory=dict)
    evictions: list[Eviction] = field(default_factory=list)
    shares: list[QueueShare] = field(default_factory=list)
    cycles: int = 0
    is_quiet: bool = True
    """Whether the last cycle decided nothing."""
    failures: list[CycleResult] = field(default_factory=list)


def settled(world: World) -> Settled:
    """Run cycles until one decides nothing, at most ``MOST_CYCLES``."""
    found = Settled()
    results: list[CycleResult] = []

    def watch(_snapshot: object, result: CycleResult) -> None:
        results.append(result)
        found.evictions += [
            Eviction(it.pod, it.pod_group, it.action, it.beneficiary, it.reason)
            for it in result.evictions
        ]

    course = Course(world, None, watch=watch)
    course.run(-1, MOST_CYCLES, math.inf)
    last = results[-1]
    found.cycles = len(results)
    found.is_quiet = not (len(last.bind_tasks) or len(last.evict_tasks))
    found.shares = list(last.shares)
    found.failures = results
    records = {record.pod_group: record for record in last.records}
    pods, jobs = course.pods, world.snapshot.jobs
    was = ALLOCATED_STATES[world.snapshot.tasks.state]
    for job, name in enumerate(jobs.name):
        tasks = np.array(jobs.tasks[job], np.int64)
        running = int(ALLOCATED_STATES[pods.state[tasks]].sum()) if len(tasks) else 0
        waiting = int((pods.state[tasks] == TaskState.PENDING).sum()) if len(tasks) else 0
        before = int(was[tasks].sum()) if len(tasks) else 0
        if running or waiting or before:
            queue = jobs.queue_name[job]
            found.jobs[name] = JobState(queue, running, waiting, before, records.get(name))
    return found
