"""What is known of the past: jobs that came lately, runs that have ended, and how long runs last.

Run times are declared by jobs, or learned from the runs of their queue or shard. Learned ones are
drawn from the product-limit estimate of Kaplan and Meier: runs that have ended, and runs that go
on, of which only the least length is known. Beyond the longest that is known, the median of the
rest of a run is as long as it has lasted.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

import numpy as np

from kaisched.cluster.grouping import Owner
from kaisched.cluster.pods import Ours, pod_row
from kaisched.core.axis import ALLOCATED_STATES, PODS, BoolVec, FloatVec
from kaisched.core.snapshot import Snapshot
from kaisched.objects import labels
from kaisched.objects.labels import RUN_SECONDS
from kaisched.objects.pod import Pod
from kaisched.objects.podgroup import PodGroup
from kaisched.objects.shard import GPU_RESOURCES
from kaisched.objects.workloads import Job, PartialObject
from kaisched.sim.forecast.course import NewJob, starts_of
from kaisched.units import UnitError

DAY_S: Final = 86_400.0
WINDOW_S: Final = 7 * DAY_S
"""How far back jobs count that came."""
LEAST_SPAN_S: Final = 600.0
"""A shorter past says how often jobs come only if they came all along, and not at once."""
_PARTS: Final = 10
_LEAST_PARTS: Final = 5
_LEAST_CAME: Final = 10
"""Jobs came all along if so many came, and in so many of so many equal parts of the past."""
MOST_NEW: Final = 2_000
"""The most jobs that come in one course."""
_NONE: Final = -1
_ENDED: Final = ("Succeeded", "Failed")


@dataclass(frozen=True, slots=True)
class Past:
    """The runs that have ended, and the jobs that came, as far as anybody still knows."""

    ended_s: Mapping[str, Sequence[float]] = field(default_factory=dict)
    """Lengths of the runs of each queue; under the empty name, those of unknown queues."""
    came: Sequence[NewJob] = ()
    """Jobs that came lately, in order."""
    since_s: float = 0.0
    """From when on they are known."""
    declared: Mapping[str, str] = field(default_factory=dict)
    """Annotations of pods with a run time, by pod."""
    started_s: Mapping[str, float] = field(default_factory=dict)
    """When pods started that run, by pod, as they say."""
    following: Mapping[str, int] = field(default_factory=dict)
    """How many pods a batch Job makes one after the other in the place of each, by pod."""
    grace_s: Mapping[str, float] = field(default_factory=dict)
    """How long pods may take to stop, by pod, of those that say it."""

    def reach_s(self, now_s: float) -> float:
        """Return how far ahead new jobs are foreseen: as long as those before are known."""
        span_s = now_s - self.since_s
        if not self.came or span_s <= 0:
            return 0.0
        return span_s if span_s >= LEAST_SPAN_S or self._came_all_along(span_s) else 0.0

    def _came_all_along(self, span_s: float) -> bool:
        parts = {int(_PARTS * (job.at_s - self.since_s) / span_s) for job in self.came}
        return len(self.came) >= _LEAST_CAME and len(parts) >= _LEAST_PARTS

    @property
    def count(self) -> int:
        """The number of ended runs."""
        return sum(map(len, self.ended_s.values()))


class _Run(NamedTuple):
    """A pod that has ended."""

    pod: Pod
    created_s: float
    length_s: float


def past_of(
    objects: Iterable[object],
    snapshot: Snapshot,
    now_s: float,
    schedulers: Iterable[str],
    gpu_resources: Sequence[str] = GPU_RESOURCES,
) -> Past:
    """Return the past that objects tell.

    Args:
        objects: pods that have ended count, if they say when they began and ended.
        snapshot: its jobs came lately, too.
        now_s: the time of the snapshot.
        schedulers: scheduler names of ours.
        gpu_resources: names of resources that count as whole GPUs.

    """
    ours, given = frozenset(schedulers), list(objects)
    pods = [it for it in given if isinstance(it, Pod) and it.spec.scheduler_name in ours]
    completions = dict(_completions(given))
    notes = ((pod.key, pod.metadata.annotations.get(labels.RUN_SECONDS)) for pod in pods)
    declared = {key: text for key, text in notes if text is not None}
    begun = ((pod.key, _seconds_at(pod.status.start_time)) for pod in pods)
    graces = ((pod.key, pod.spec.termination_grace_period_seconds) for pod in pods)
    grace_s = {key: float(seconds) for key, seconds in graces if seconds is not None}
    following: dict[str, int] = {}
    for uid, of_owner in _grouped(pods, _owner_of).items():
        following.update(_following(of_owner, completions.get(uid, 0)))
    ended: dict[str, list[float]] = {}
    came = _alive(snapshot, now_s, declared_of(snapshot, declared))
    for queue, length_s, new in _ended(given, pods, snapshot, completions, gpu_resources):
        ended.setdefault(queue, []).append(length_s)
        if new is not None and new.at_s > now_s - WINDOW_S:
            came.append(new)
    came.sort()
    since_s = came[0].at_s if came else now_s
    started_s = {key: at_s for key, at_s in begun if at_s is not None}
    return Past(ended, came, since_s, declared, started_s, following, grace_s)


def _completions(objects: Iterable[object]) -> Iterator[tuple[str, int]]:
    """Yield the UID of each workload, and how many of its pods are to succeed; 0 for unknown."""
    for obj in objects:
        if isinstance(obj, Job):
            yield obj.metadata.uid, obj.spec.completions or 0
        elif isinstance(obj, PartialObject | Owner):
            meta = obj.meta if isinstance(obj, Owner) else obj.metadata
            yield meta.uid, obj.gang.completions


def _grouped(pods: Iterable[Pod], key: Callable[[Pod], str]) -> dict[str, list[Pod]]:
    found: dict[str, list[Pod]] = {}
    for pod in pods:
        found.setdefault(key(pod), []).append(pod)
    return found


def _owner_of(pod: Pod) -> str:
    """Return the UID of the workload that makes a pod; empty for none."""
    return next((it.uid for it in pod.metadata.owner_references if it.controller), "")


def _ended(
    objects: Iterable[object],
    pods: Iterable[Pod],
    snapshot: Snapshot,
    completions: Mapping[str, int],
    gpu_resources: Sequence[str],
) -> Iterator[tuple[str, float, NewJob | None]]:
    """Yield queue and length of the run of each job with ended pods, and the job if it is over."""
    queue_of_group = {it.key: it.spec.queue for it in objects if isinstance(it, PodGroup)}
    shapes = _Shapes(snapshot, gpu_resources)
    for of_job in _grouped(pods, _job_of).values():
        runs = [run for pod in of_job if (run := _run_of(pod)) is not None]
        if not runs:
            continue
        first, length_s = runs[0], max(run.length_s for run in runs)
        queue = _queue_of(first.pod, queue_of_group)
        row, shape = snapshot.queues.row_of_name.get(queue, -1), shapes.find(first.pod)
        is_over = all(pod.status.phase in _ENDED for pod in of_job)
        size = len(runs)
        least = 1 if completions.get(_owner_of(first.pod)) else size
        new = NewJob(first.created_s, row, shape, size, least, shapes.priority, True, length_s)
        yield queue, length_s, new if is_over and row >= 0 and shape >= 0 else None


def _following(pods: Sequence[Pod], completions: int) -> Iterator[tuple[str, int]]:
    """Yield how many pods follow each pod of a batch Job that has not ended."""
    left = [pod.key for pod in pods if pod.status.phase not in _ENDED]
    done = sum(pod.status.phase == "Succeeded" for pod in pods)
    more = max(completions - done - len(left), 0)
    for at, key in enumerate(sorted(left)):
        each, rest = divmod(more, len(left))
        if follow := each + (at < rest):
            yield key, follow


class _Shapes:
    """The shapes of a snapshot, found by what a pod requests."""

    def __init__(self, snapshot: Snapshot, gpu_resources: Sequence[str]) -> None:
        self._axis = snapshot.axis
        self._ours = Ours(frozenset(), "", tuple(gpu_resources), offers_shares=True)
        columns = snapshot.shapes.request.T.tolist()
        self._row: dict[tuple[int, ...], int] = {
            tuple(column): row for row, column in reversed([*enumerate(columns)])
        }
        lives = snapshot.jobs.active + snapshot.jobs.pending > 0
        priorities = snapshot.jobs.priority[lives]
        self.priority = int(np.median(priorities)) if len(priorities) else 0
        """The usual priority: that of an ended pod's job is known no more."""

    def find(self, pod: Pod) -> int:
        """Return the shape of a pod, -1 for none."""
        request = pod_row(pod, self._ours).request
        known = {name: amount for name, amount in request.items() if name in self._axis.position}
        vector = self._axis.vector(known)
        vector[PODS] = 1
        return self._row.get(tuple(vector.tolist()), _NONE)


def _run_of(pod: Pod) -> _Run | None:
    """Return the run of a pod that has ended and says when it began and ended."""
    if pod.status.phase not in _ENDED:
        return None
    changed = {it.type: it for it in pod.status.conditions}
    ready, scheduled = changed.get("Ready"), changed.get("PodScheduled")
    if ready is None or ready.status != "False":
        return None
    begun = pod.status.start_time or (scheduled.last_transition_time if scheduled else "")
    begun_s, ended_s, created_s = map(
        _seconds_at, (begun, ready.last_transition_time, pod.metadata.creation_timestamp)
    )
    if begun_s is None or ended_s is None or created_s is None or ended_s <= begun_s:
        return None
    return _Run(pod, created_s, ended_s - begun_s)


def _seconds_at(text: str | None) -> float | None:
    """Return a time in seconds since 1970; None for what is none."""
    try:
        return labels.time_of(text or "")
    except UnitError:
        return None


def _job_of(pod: Pod) -> str:
    """Return what is the same for all pods of a job, as far as the pod alone tells."""
    group = labels.pod_group_of(pod.metadata)
    if group is not None:
        return f"{pod.metadata.namespace}/{group}"
    owners = [it.uid for it in pod.metadata.owner_references if it.uid]
    return owners[0] if owners else pod.key


def _queue_of(pod: Pod, queue_of_group: Mapping[str, str]) -> str:
    group = labels.pod_group_of(pod.metadata)
    named = queue_of_group.get(f"{pod.metadata.namespace}/{group}", "") if group is not None else ""
    return named or labels.queue_of(pod.metadata) or ""


def _alive(snapshot: Snapshot, now_s: float, declared_s: FloatVec) -> list[NewJob]:
    """Return the jobs of a snapshot that came lately; a job of subgroups counts as none."""
    jobs, podsets = snapshot.jobs, snapshot.podsets
    lives = ((jobs.active > 0) | (jobs.pending > 0)) & (jobs.queue_of_job >= 0)
    late = lives & (jobs.refusal == 0) & (jobs.created_s > now_s - WINDOW_S)
    return [
        NewJob(
            at_s=float(jobs.created_s[row]),
            queue=int(jobs.queue_of_job[row]),
            shape=int(snapshot.tasks.shape_of_task[jobs.first_task[row]]),
            pods=int(jobs.active[row] + jobs.pending[row]),
            minimum=int(podsets.minimum[jobs.first_podset[row]]),
            priority=int(jobs.priority[row]),
            is_preemptible=bool(jobs.is_preemptible[row]),
            run_s=float(declared_s[jobs.first_task[row]]) or math.nan,
        )
        for row in np.flatnonzero(late).tolist()
        if row not in jobs.structure
    ]


def upcoming(
    past: Past, now_s: float, horizon_s: float, chance: np.random.Generator
) -> list[NewJob]:
    """Return jobs that may come: those that came lately, once more, in days by chance.

    Where less than two days are known, they come again in the same order from an instant by
    chance on. None come later than they are foreseen.
    """
    span_s = now_s - past.since_s
    end_s = now_s + min(horizon_s, past.reach_s(now_s))
    new: list[NewJob] = []
    is_daily = span_s >= 2 * DAY_S
    length_s = DAY_S if is_daily else span_s
    begin_s = now_s
    while begin_s < end_s and len(new) < MOST_NEW:
        if is_daily:
            first_s = now_s - DAY_S * int(chance.integers(1, int(span_s // DAY_S) + 1))
        else:
            first_s = past.since_s + span_s * float(chance.random())
        for job in past.came:
            later_s = (job.at_s - first_s) % span_s
            if later_s < length_s and begin_s + later_s < end_s:
                new.append(job._replace(at_s=begin_s + later_s))
        begin_s += length_s
    new.sort(key=lambda job: job.at_s)
    return new[:MOST_NEW]


ENOUGH: Final = 10
"""Ended runs that a queue needs for a distribution of its own."""
_LONGEST: Final = 100.0
"""Longest run, as a multiple of the longest that is known."""
_LEAST_S: Final = 1.0


class Lengths:
    """The distribution of run times, estimated from runs."""

    def __init__(self, ended_s: Sequence[float], running_s: Sequence[float] = ()) -> None:
        """Take the lengths of ended runs, and how long others have run so far."""
        self.ended = len(ended_s)
        lengths: FloatVec = np.array([*ended_s, *running_s], np.float64)
        is_end = np.arange(len(lengths)) < self.ended
        # Of equal lengths, ends come first: who still runs was there when the other ended.
        order = np.lexsort((~is_end, lengths))
        length: FloatVec = np.maximum(lengths[order], _LEAST_S)
        is_end = is_end[order]
        at_risk = np.arange(len(lengths), 0, -1)
        kept: FloatVec = np.where(is_end, 1.0 - 1.0 / at_risk, 1.0)
        left = kept.cumprod()
        self._at_s: FloatVec = length[is_end]
        self._left: FloatVec = left[is_end]
        """The part of all runs that is longer than the length at the same place."""
        self._longest_s = float(length[-1]) if len(length) else 0.0

    def draw(self, chance: float, age_s: float = 0.0) -> float:
        """Return the length of a run that has lasted ``age_s``; ``chance`` is in [0, 1).

        It is infinite if no run has ended.
        """
        if not self.ended:
            return math.inf
        at = int(np.searchsorted(self._at_s, age_s, side="right"))
        left = float(self._left[at - 1]) if at else 1.0
        wanted = left * (1.0 - chance)
        # The first length with no more than the wanted part left.
        later = self._left[at:]
        found = int(np.searchsorted(-later, -wanted, side="left"))
        if found < len(later):
            return float(self._at_s[at + found])
        from_s = max(self._longest_s, age_s)
        beyond = wanted / (float(later[-1]) if len(later) else left)
        return from_s * min(1.0 / max(beyond, 1.0 / _LONGEST), _LONGEST)


class RunTimes:
    """The run times of the pods of a snapshot."""

    def __init__(
        self, snapshot: Snapshot, now_s: float, past: Past, declared_s: FloatVec | None = None
    ) -> None:
        """Estimate the distributions.

        Args:
            snapshot: with the pods.
            now_s: the time of the snapshot.
            past: the runs that have ended, and what pods say of theirs.
            declared_s: ``(T,)`` run times in seconds, NaN for unknown; by default those in the
                annotations of the pods and their jobs.

        """
        jobs, tasks = snapshot.jobs, snapshot.tasks
        self._names = snapshot.queues.name
        self._job = tasks.job_of_task
        runs = np.flatnonzero(ALLOCATED_STATES[tasks.state] & (self._job >= 0))
        self.started_s = starts_of(snapshot)
        """``(T,)`` when each pod started, if it runs."""
        for task in runs.tolist() if past.started_s else ():
            begun_s = past.started_s.get(tasks.name[task])
            if begun_s is not None:
                self.started_s[task] = begun_s
        self._age_s: FloatVec = np.zeros(len(self._job))
        self._age_s[runs] = np.maximum(now_s - self.started_s[runs], 0.0)
        """``(T,)`` how long each pod has run, 0 for those that wait."""
        self.declared_s = declared_of(snapshot, past.declared) if declared_s is None else declared_s
        lives = np.flatnonzero((jobs.active > 0) | (jobs.pending > 0))
        self.lives: Sequence[int] = lives.tolist()
        """Jobs with pods."""
        over: FloatVec = np.zeros(len(jobs.name))
        np.maximum.at(over, self._job[runs], self._age_s[runs])
        ages: dict[str, list[float]] = {}
        for job in np.unique(self._job[runs]).tolist():
            ages.setdefault(self._queue(int(jobs.queue_of_job[job])), []).append(over[job])
        ended = past.ended_s
        self.shard = Lengths(
            [it for of in ended.values() for it in of], [it for of in ages.values() for it in of]
        )
        self.of_queue = {
            queue: Lengths(lengths, ages.get(queue, ()))
            for queue, lengths in ended.items()
            if len(lengths) >= ENOUGH and queue
        }

    def _queue(self, row: int) -> str:
        return self._names[row] if row >= 0 else ""

    def known(self) -> list[int]:
        """Return the living jobs whose pods all declare a run time that may still be true."""
        return self._unlike(~(self.declared_s > self._age_s))

    def doubtful(self) -> list[int]:
        """Return the living jobs with a pod that declares no run time, or runs for longer."""
        is_over = set(self._job[self.declared_s <= self._age_s].tolist())
        return [job for job in self.lives if job in is_over]

    def _unlike(self, tasks: BoolVec) -> list[int]:
        """Return the living jobs without any of some pods."""
        found = set(self._job[tasks].tolist())
        return [job for job in self.lives if job not in found]

    def lengths(self, queue: int) -> Lengths:
        """Return the distribution for a queue: its own, or that of the shard."""
        return self.of_queue.get(self._queue(queue), self.shard)


def declared_of(snapshot: Snapshot, of_pod: Mapping[str, str]) -> FloatVec:
    """Return the seconds ``(T,)`` that each pod declares, else its job, else the job's first pod.

    NaN for none, 0 for what is no number.
    """
    jobs, names = snapshot.jobs, snapshot.tasks.name
    declared_s = np.full(len(names), np.nan)
    for job in np.flatnonzero((jobs.active > 0) | (jobs.pending > 0)).tolist():
        text = jobs.metadata[job].annotations.get(RUN_SECONDS) if len(jobs.metadata) else None
        said = [of_pod.get(names[row], text) for row in jobs.tasks[job]]
        first = next((it for it in said if it is not None), None)
        if first is not None:
            declared_s[list(jobs.tasks[job])] = [
                _seconds(first if it is None else it) for it in said
            ]
    return declared_s


def _seconds(text: str) -> float:
    """Return a number of seconds, 0 for what is none: no run is that short."""
    try:
        seconds = float(text)
    except ValueError:
        return 0.0
    return seconds if 0.0 < seconds < np.inf else 0.0
