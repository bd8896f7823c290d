"""Replay of a workload in virtual time: jobs arrive, run and end; each change starts a cycle.

At one tick, jobs that end make room first. Then jobs evicted a tick ago are gone and wait again.
Then new jobs arrive. Then one cycle decides, and its decisions take effect at that very tick.

An evicted job holds its room until the next tick, as a pod does until it has terminated. It keeps
the work up to its last checkpoint, and its place in the order of arrival. Its pods are replaced by
new ones, so a nomination of one of the old pods is void.

When a node fails, the jobs on it stop at once, as a whole, and wait again in this way.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from kaisched.core.axis import RowVec
from kaisched.errors import InvariantBroken, PluginError
from kaisched.framework.report.result import CycleResult
from kaisched.sim.arrivals import Drawn, Listed
from kaisched.sim.cluster import Cluster
from kaisched.sim.pools import Lists, Site, Ways
from kaisched.sim.recorder import NOT_YET, Tally
from kaisched.sim.ticks import FOREVER, NEVER, SAMPLE_TICKS, STOP_TICKS, EventHeap, Pace
from kaisched.sim.workload import Workload

_IDLE: Final = -1
"""End of a job that is not running."""

OnTick = Callable[[int], None]
"""Callback with the tick after each cycle."""


@dataclass(frozen=True, slots=True)
class Outage:
    """A node fails or returns at a tick."""

    tick: int
    node: str
    is_ready: bool


_BY_THE_MINUTE: Final = Pace()
_NO_LISTS: Final = Lists()


class Replay:
    """One run. A job's state is its end: a tick while it runs, ``_IDLE`` before and after."""

    def __init__(
        self,
        workload: Workload,
        sites: Sequence[Site],
        first: int,
        pace: Pace = _BY_THE_MINUTE,
        *,
        source: Listed | Drawn | None = None,
        outages: Sequence[Outage] = (),
        tally: Tally | None = None,
        lists: Lists = _NO_LISTS,
    ) -> None:
        """Start at tick ``first`` with empty clusters. Outages are in the order of time.

        ``sites`` are the node pools, ``lists`` how jobs go on from one to another. ``source`` adds
        jobs to the workload; else it has them all. ``tally`` observes the replay: a
        :class:`Recorder` where more than sums are wanted.
        """
        self._work = workload
        self.pace = pace
        self._ways = Ways(workload, sites, lists)
        self._stopping: set[int] = set()
        """Jobs that were evicted and still hold their room."""
        self._stay_ends_at = NEVER
        self._source = Listed(workload.arrival) if source is None else source
        self._outages = list(reversed(outages))
        self._events = EventHeap()
        self._recheck_at = NEVER
        self._is_bounded = False
        self._end: list[int] = []
        self._left: list[int] = []
        self._sample_at = first
        self.tally = Tally(workload, first) if tally is None else tally
        self.first = first
        self.last = first
        self.last_end = first
        self.cycles = 0
        self.failures: dict[tuple[str, str, str], int] = {}
        """Number of failures by (plugin, question, error)."""

    def run(self, until: int, on_tick: OnTick | None = None) -> None:
        """Run up to and including a tick; with :data:`NEVER`, until nothing more happens."""
        self._is_bounded = until != NEVER
        while (tick := self._next_tick()) <= until and tick != NEVER:
            is_changed = self._settle(self._events.take(tick), tick)
            is_changed |= self._break_and_mend(tick)
            if tick == self._source.next_tick:
                self._arrive(tick)
                is_changed = True
            if is_changed:
                self._ways.settle()
            if is_changed or tick in {self._recheck_at, self._stay_ends_at}:
                results = self._cycles(tick)
                upcoming = min(self._next_tick(), until + 1)
                self._sample(results, tick, upcoming if upcoming < NEVER else tick + 1)
                self.tally.after(results[0], tick)
                if on_tick is not None:
                    on_tick(tick)
        self._close(until)

    def _next_tick(self) -> int:
        tick = min(self._source.next_tick, self._events.next_tick, self._recheck_at)
        tick = min(tick, self._stay_ends_at)
        if self._outages:
            tick = min(tick, self._outages[-1].tick)
        return tick if tick < FOREVER else NEVER

    def _settle(self, due: list[int], tick: int) -> bool:
        """Process due events; return whether anything changed."""
        end = self._end
        is_changed = False
        for event in due:
            if event < 0:
                self._stopping.discard(~event)
                self._ways.note_change(~event)
                self._renew(~event)
            elif end[event] == tick:
                end[event] = _IDLE
                self._left[event] = 0
                self._ways.note_change(event)
                self._ways.site_of(event).cluster.remove(event)
                self._ways.forget(event)
                self.tally.finish(event, tick)
                self.last_end = tick
            else:
                continue  # it was evicted in the meantime and ends later
            is_changed = True
        return is_changed

    def _arrive(self, tick: int) -> None:
        work = self._work
        for job in self._source.take(tick):
            self._end.append(_IDLE)
            self._left.append(work.ticks[job])
            self._ways.arrive(job, self.pace.now_s(tick))
            self._ways.site_of(job).cluster.add(job, self._ways.eviction_delay_s(job))
            self.tally.arrive(job, tick)

    def _break_and_mend(self, tick: int) -> bool:
        """Fail and restore the nodes that are due; return whether there were any."""
        is_changed = False
        while self._outages and self._outages[-1].tick <= tick:
            outage = self._outages.pop()
            site = self._ways.site_of_node(outage.node)
            if not outage.is_ready:
                # Jobs that were stopping are gone by now: due events come first.
                for job in site.cluster.jobs_on(outage.node):
                    self._stop(job, tick, is_failure=True)
                    self._renew(job)
            site.cluster.set_ready(outage.node, is_ready=outage.is_ready)
            self._ways.changes[site.pool] += 1
            is_changed = True
        return is_changed

    def _renew(self, job: int) -> None:
        self._ways.site_of(job).cluster.renew(job, self._ways.eviction_delay_s(job))

    def _cycles(self, tick: int) -> list[CycleResult]:
        """Let each pool have a cycle, and again those to which jobs were passed on.

        Returns the last result of each.
        """
        sites = self._ways.sites
        results: dict[int, CycleResult] = {}
        waiting = list(range(len(sites)))
        while waiting:
            woken: set[int] = set()
            for at in waiting:
                results[at], moved = self._cycle(sites[at], tick)
                woken.discard(at)
                woken.update(moved)
            waiting = sorted(woken)
        self._recheck_at = self._next_recheck(tick)
        self._stay_ends_at = self._next_stay_end(tick)
        return [results[at] for at in range(len(sites))]

    def _is_free(self, job: int) -> bool:
        return self._end[job] == _IDLE and job not in self._stopping and self._left[job] > 0

    def _next_stay_end(self, tick: int) -> int:
        now_s = self.pace.now_s(tick)
        end_s = self._ways.next_end_s(now_s, self._is_free)
        if end_s is None:
            return NEVER
        return tick + max(math.ceil((end_s - now_s) / self.pace.step_s), 1)

    def _cycle(self, site: Site, tick: int) -> tuple[CycleResult, set[int]]:
        """Run a cycle of one pool; return its result, and the pools to which jobs went on."""
        now_s = self.pace.now_s(tick)
        snapshot = site.cluster.snapshot()
        result = site.decide(snapshot, now_s)
        leaving = self._ways.leaving(site, snapshot, result, now_s)
        self.cycles += 1
        self.last = tick
        if result.stats.abandoned:
            at_s = tick * self.pace.step_s
            raise PluginError(f"a cycle was abandoned at {at_s:.0f} s: {result.stats.abandoned}")
        for failure in result.failures:
            key = (failure.plugin, failure.question, failure.error)
            self.failures[key] = self.failures.get(key, 0) + 1
        if len(result.evict_tasks):
            self._evict(site.cluster, result, tick)
        if len(result.bind_tasks):
            self._start(site.cluster, result, tick, now_s)
        if len(result.nominate_tasks):
            self._nominate(site.cluster, result)
        if len(result.evict_tasks) or len(result.bind_tasks):
            self._ways.settle()
        return result, {self._pass_on(job, tick) for job in leaving}

    def _pass_on(self, job: int, tick: int) -> int:
        """Pass a waiting job on; return where it goes."""
        queue = self._work.queue[job]
        site = self._ways.pass_on(job, self.pace.now_s(tick))
        site.cluster.add(job, self._ways.eviction_delay_s(job))
        self.tally.move(job, queue)
        return self._ways.sites.index(site)

    def _next_recheck(self, tick: int) -> int:
        """Return the tick of the next cycle if nothing happens until then.

        In a run without an end there is one only while other events are pending: jobs that wait on
        an empty cluster would wait for ever.
        """
        if not self.pace.recheck or not any(self.tally.pending):
            return NEVER
        self._recheck_at = NEVER
        is_over = not self._is_bounded and self._next_tick() == NEVER
        return NEVER if is_over else tick + self.pace.recheck

    def _sample(self, results: list[CycleResult], tick: int, upcoming: int) -> None:
        """Record the fair shares of these cycles if they hold at a time of sampling.

        Nothing changes until ``upcoming``. Samples at changes would be simpler, but wrong: they
        would give bursts of short jobs too much weight.
        """
        every = self.pace.sample
        at = _next_sample(self._sample_at, tick, every)
        if at < upcoming:
            of_each = zip(self._ways.sites, results, strict=True)
            parts = [site.cluster.fair_shares(result) for site, result in of_each]
            shares = [sum(part) for part in zip(*parts, strict=True)]
            self.tally.sample(at, shares)
            at = _next_sample(at, upcoming, every)
        self._sample_at = at

    def _start(self, cluster: Cluster, result: CycleResult, tick: int, now_s: float) -> None:
        self._work.on_nodes.update(cluster.gpus_on(result.bind_tasks, result.bind_nodes))
        for job in self._whole_jobs(cluster, result.bind_tasks, "bound"):
            if self.tally.jobs[job].started == NOT_YET:
                self._source.note_start(job, tick)
            self.tally.start(job, tick)
            end = tick + self._left[job]
            self._end[job] = end
            self._events.add(end, job)
        claims = () if cluster.devices is None else result.binds
        cluster.place(result.bind_tasks, result.bind_nodes, now_s, result.bind_cards, claims)

    def _evict(self, cluster: Cluster, result: CycleResult, tick: int) -> None:
        """Stop evicted jobs; if a part of a job moves, the whole job stops, since it is a gang."""
        moves = np.isin(result.evict_tasks, result.nominate_tasks)
        jobs = set(cluster.jobs_of(result.evict_tasks[moves]))
        rest = _left_out(cluster, result.evict_tasks, jobs)
        jobs.update(self._whole_jobs(cluster, rest, "evicted"))
        for job in sorted(jobs):
            if self._end[job] == _IDLE:
                raise InvariantBroken(f"job {job} was evicted, but does not run")
            self._stop(job, tick, is_failure=False)
            self._events.add(tick + STOP_TICKS, ~job)
            self._stopping.add(job)
            cluster.release(job, self.pace.now_s(tick))

    def _stop(self, job: int, tick: int, *, is_failure: bool) -> None:
        """Return a running job to the queue, less the work since its last checkpoint."""
        work = self._work
        left = self._end[job] - tick
        own = work.kind[job].checkpoint_ticks
        every = self.pace.checkpoint if own is None else own
        # It began at a checkpoint, so whole intervals of its total work equal those of this run.
        redone = (work.ticks[job] - left) % every
        self._left[job] = left + redone
        self._end[job] = _IDLE
        self.tally.stop(job, tick, redone, is_failure=is_failure)

    @staticmethod
    def _nominate(cluster: Cluster, result: CycleResult) -> None:
        """Nominate pods that go on waiting; the pods of moved jobs will soon be gone."""
        tasks, nodes = result.nominate_tasks, result.nominate_nodes
        if len(result.evict_tasks):
            stays = ~np.isin(tasks, result.evict_tasks)
            tasks, nodes = tasks[stays], nodes[stays]
        cluster.nominate(tasks, nodes)

    def _whole_jobs(self, cluster: Cluster, tasks: RowVec, what: str) -> list[int]:
        """Return the jobs of these tasks; each job must be complete, since all are gangs."""
        jobs = cluster.jobs_of(tasks)
        kind = self._work.kind
        counts: dict[int, int] = {}
        for job in sorted(jobs):
            counts[job] = counts.get(job, 0) + 1
        for job, count in counts.items():
            pods = len(kind[job].pods)
            if count != pods:
                raise InvariantBroken(f"{count} of {pods} pods of job {job} were {what}")
        return list(counts)

    def _close(self, until: int) -> None:
        """Complete the sums at the end, and check that no job and no GPU was lost."""
        if until != NEVER:
            self.last = until
        self.tally.close(self.last)
        running = [0] * len(self._work.queue_names)
        for job, end in enumerate(self._end):
            running[self._work.queue[job]] += end != _IDLE
        tally = self.tally
        for queue, name in enumerate(self._work.queue_names):
            if running[queue] != tally.running(queue):
                arrived, known = tally.arrived[queue], running[queue] - tally.running(queue)
                raise InvariantBroken(
                    f"queue {name} lost jobs: {arrived} arrived, {arrived + known} are known"
                )


def _left_out(cluster: Cluster, tasks: RowVec, jobs: set[int]) -> RowVec:
    """Return the tasks that belong to none of these jobs."""
    other = [job not in jobs for job in cluster.jobs_of(tasks)]
    return tasks[np.array(other, np.bool_)]


def _next_sample(at: int, tick: int, every: int = SAMPLE_TICKS) -> int:
    """Return the first time of sampling from ``at`` on that is not before a tick."""
    return at + max(-(-(tick - at) // every), 0) * every
