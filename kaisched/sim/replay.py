"""The replay: a workload's jobs come, run and end in virtual time, with a cycle after each change.

At one tick, what ended makes room first; then what was evicted a tick ago is gone and waits again;
then new jobs come; then one cycle decides, and what it decided is done at that very instant.

An evicted job holds its room until the next tick, as a pod does until it has terminated. It keeps
what it had computed at its last checkpoint, and its place in the order of arrival. Its pods are
made anew, so a place that was promised to one of those that stop is promised to nobody.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import groupby
from typing import Final

import numpy as np

from kaisched.core.axis import RowVec
from kaisched.core.snapshot import Snapshot
from kaisched.errors import InvariantBroken, PluginError
from kaisched.framework.records import CycleResult
from kaisched.sim.cluster import Cluster
from kaisched.sim.events import EventHeap
from kaisched.sim.grid import GRID_S, NEVER
from kaisched.sim.tally import Tally
from kaisched.sim.workload import Workload

SAMPLE_TICKS: Final = 30
"""Fair shares are looked at this often."""
CHECKPOINT_TICKS: Final = 60
"""Jobs write a checkpoint after each hour of their run, unless told otherwise."""
STOP_TICKS: Final = 1
"""So long an evicted job holds its room."""
_IDLE: Final = -1
"""End of a job that does not run."""

Decide = Callable[[Snapshot, float], CycleResult]
"""The cycle: what to do about a snapshot at an instant in seconds."""
Tell = Callable[[int], None]
"""Hears the tick after each cycle."""


class Replay:
    """One run. The state of a job is its end: a tick while it runs, before and after it none."""

    def __init__(
        self,
        workload: Workload,
        cluster: Cluster,
        decide: Decide,
        first: int,
        checkpoint_ticks: int = CHECKPOINT_TICKS,
    ) -> None:
        """Stand at tick ``first`` with an empty cluster."""
        self._work = workload
        self.checkpoint_ticks = checkpoint_ticks
        self._cluster = cluster
        self._decide = decide
        self._events = EventHeap()
        self._end = [_IDLE] * len(workload)
        self._left = workload.ticks.copy()
        self._has_started = [False] * len(workload)
        self._sample_at = first
        self.tally = Tally(len(workload.queue_names), first)
        self.first = first
        self.last = first
        self.last_end = first
        self.cycles = 0
        self.failures: dict[tuple[str, str, str], int] = {}
        """How often a plugin failed: (plugin, question, error)."""

    def run(self, until: int, tell: Tell | None = None) -> None:
        """Go on up to and including a tick; :data:`NEVER` for as long as anything happens."""
        events = self._events
        batches = iter(_batches(self._work.arrival))
        arrival, first, last = next(batches, _NO_MORE)
        while (tick := min(arrival, events.next_tick)) <= until and tick != NEVER:
            is_changed = self._settle(events.take(tick), tick)
            if tick == arrival:
                self._arrive(first, last)
                arrival, first, last = next(batches, _NO_MORE)
                is_changed = True
            if is_changed:
                result = self._cycle(tick)
                upcoming = min(arrival, events.next_tick, until + 1)
                self._sample(result, tick, upcoming if upcoming < NEVER else tick + 1)
                if tell is not None:
                    tell(tick)
        self._close(until)

    def waiting(self) -> list[int]:
        """Return the jobs that came and have not started."""
        came = sum(self.tally.arrived)
        return [job for job in range(came) if not self._has_started[job]]

    def _settle(self, due: list[int], tick: int) -> bool:
        """Take in what is due; return whether anything changed."""
        work, tally, end = self._work, self.tally, self._end
        is_changed = False
        for event in due:
            if event < 0:
                self._cluster.renew(~event)
            elif end[event] == tick:
                end[event] = _IDLE
                self._left[event] = 0
                self._cluster.remove(event)
                tally.finish(work.queue[event], work.gpus[event], tick)
                self.last_end = tick
            else:
                continue  # it was evicted since and ends later
            is_changed = True
        return is_changed

    def _arrive(self, first: int, last: int) -> None:
        queue = self._work.queue
        for job in range(first, last):
            self._cluster.add(job)
            self.tally.arrive(queue[job])

    def _cycle(self, tick: int) -> CycleResult:
        now_s = float(tick * GRID_S)
        snapshot = self._cluster.snapshot()
        result = self._decide(snapshot, now_s)
        self.cycles += 1
        self.last = tick
        if result.stats.abandoned:
            raise PluginError(f"a cycle was abandoned at {now_s:.0f} s: {result.stats.abandoned}")
        for failure in result.failures:
            key = (failure.plugin, failure.question, failure.error)
            self.failures[key] = self.failures.get(key, 0) + 1
        if len(result.evict_tasks):
            self._evict(result, tick)
        if len(result.bind_tasks):
            self._start(result.bind_tasks, result.bind_nodes, tick, now_s)
        if len(result.nominate_tasks):
            self._nominate(result)
        return result

    def _sample(self, result: CycleResult, tick: int, upcoming: int) -> None:
        """Take the fair shares of this cycle where they hold at a time of sampling.

        Nothing changes until ``upcoming``. To sample when something changes would be easier and
        wrong: then bursts of short jobs would be seen more often than they are there.
        """
        at = _next_sample(self._sample_at, tick)
        if at < upcoming:
            self.tally.sample_fair_share(at, self._cluster.fair_shares(result))
            at = _next_sample(at, upcoming)
        self._sample_at = at

    def _start(self, tasks: RowVec, nodes: RowVec, tick: int, now_s: float) -> None:
        work, tally = self._work, self.tally
        for job in self._whole_jobs(tasks, "bound"):
            queue = work.queue[job]
            tally.start(queue, work.gpus[job], tick)
            if not self._has_started[job]:
                self._has_started[job] = True
                tally.waits[queue].append(tick - work.arrival[job])
            end = tick + self._left[job]
            self._end[job] = end
            self._events.add(end, job)
        self._cluster.place(tasks, nodes, now_s)

    def _evict(self, result: CycleResult, tick: int) -> None:
        """Stop jobs; one of which a part is moved stops as a whole, since the rest needs it."""
        work, cluster = self._work, self._cluster
        moves = np.isin(result.evict_tasks, result.nominate_tasks)
        jobs = set(cluster.jobs_of(result.evict_tasks[moves]))
        jobs.update(self._whole_jobs(self._left_out(result.evict_tasks, jobs), "evicted"))
        for job in sorted(jobs):
            if self._end[job] == _IDLE:
                raise InvariantBroken(f"job {job} was evicted, but does not run")
            left = self._end[job] - tick
            # It began from a checkpoint, so whole intervals of all its work are those of this run.
            redone = (work.ticks[job] - left) % self.checkpoint_ticks
            self._left[job] = left + redone
            self._end[job] = _IDLE
            self.tally.evict(
                work.queue[job], work.gpus[job], tick, redone=redone, stopping=STOP_TICKS
            )
            self._events.add(tick + STOP_TICKS, ~job)
            cluster.release(job)

    def _left_out(self, tasks: RowVec, jobs: set[int]) -> RowVec:
        """Return the tasks of other jobs than these."""
        other = [job not in jobs for job in self._cluster.jobs_of(tasks)]
        return tasks[np.array(other, np.bool_)]

    def _nominate(self, result: CycleResult) -> None:
        """Keep the promises to pods that go on waiting; the pods of moved jobs are gone soon."""
        tasks, nodes = result.nominate_tasks, result.nominate_nodes
        if len(result.evict_tasks):
            stays = ~np.isin(tasks, result.evict_tasks)
            tasks, nodes = tasks[stays], nodes[stays]
        self._cluster.nominate(tasks, nodes)

    def _whole_jobs(self, tasks: RowVec, what: str) -> list[int]:
        """Return the jobs of these tasks, each of which must be complete: they are all gangs."""
        jobs = self._cluster.jobs_of(tasks)
        pods = self._work.pods
        counts: dict[int, int] = {}
        for job in sorted(jobs):
            counts[job] = counts.get(job, 0) + 1
        for job, count in counts.items():
            if count != len(pods[job]):
                raise InvariantBroken(f"{count} of {len(pods[job])} pods of job {job} were {what}")
        return list(counts)

    def _close(self, until: int) -> None:
        """Bring the sums up to the end, and check that no job and no GPU was lost."""
        if until != NEVER:
            self.last = until
        self.tally.close(self.last)
        running = [0] * len(self._work.queue_names)
        for job, end in enumerate(self._end):
            running[self._work.queue[job]] += end != _IDLE
        tally = self.tally
        for queue, name in enumerate(self._work.queue_names):
            known = running[queue] + tally.pending[queue] + tally.finished[queue]
            if known != tally.arrived[queue]:
                raise InvariantBroken(
                    f"queue {name} lost jobs: {tally.arrived[queue]} came, {known} are known"
                )


_NO_MORE: Final = (NEVER, 0, 0)


def _next_sample(at: int, tick: int) -> int:
    """Return the first time of sampling from ``at`` on that is not before a tick."""
    return at + max(-(-(tick - at) // SAMPLE_TICKS), 0) * SAMPLE_TICKS


def _batches(arrival: list[int]) -> list[tuple[int, int, int]]:
    """Return (tick, first job, behind the last job) of the jobs that come together."""
    batches = []
    first = 0
    for tick, same in groupby(arrival):
        last = first + sum(1 for _ in same)
        batches.append((tick, first, last))
        first = last
    return batches
