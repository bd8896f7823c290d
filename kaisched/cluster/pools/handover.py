"""Pool hand-over: jobs come into the store of a shard, stay for a while, and are passed on."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from kaisched.cluster.pools.book import Listed, PoolBook
from kaisched.cluster.store import StateStore
from kaisched.core.axis import ACTIVE_STATES, Amounts, TaskState
from kaisched.core.devices import least_charges
from kaisched.core.refusals import FIRST_OF_PLUGINS, Refusal, text_of
from kaisched.core.snapshot import Snapshot
from kaisched.framework.report.result import CycleResult
from kaisched.objects.shard import SchedulingShard
from kaisched.units import UNLIMITED, parse_duration

DWELL_S: Final = 10.0
"""How long a job waits in a pool on its first stay, unless the shard says otherwise."""
MOST_DWELL_S: Final = 300.0
_MOST_DOUBLINGS: Final = 16


@dataclass(slots=True)
class _Stay:
    """The time that a job spends in our pool."""

    since_s: float
    changes: Mapping[str, int]
    """By pool, the count of changes when it came."""


class Stays:
    """The stays in one pool. ``changes`` counts by pool what may have made room there."""

    def __init__(self, pool: str, dwell_s: float, changes: Mapping[str, int]) -> None:
        """Begin without stays; ``changes`` is kept current by the caller."""
        self._pool, self._dwell_s, self._changes = pool, dwell_s, changes
        self._stays: dict[str, _Stay] = {}
        self._count: dict[str, int] = {}
        """How many stays a job has had here, the present one included."""

    def __contains__(self, job: str) -> bool:
        return job in self._stays

    def here(self) -> set[str]:
        """Return the jobs that are here."""
        return set(self._stays)

    def known(self) -> set[str]:
        """Return the jobs that are here or were."""
        return set(self._count)

    def count(self, job: str) -> int:
        """Return how many stays a job has had here."""
        return self._count.get(job, 0)

    def begin(self, job: str, now_s: float) -> None:
        """Note that a job has come."""
        self._stays[job] = _Stay(now_s, dict(self._changes))
        self._count[job] = self._count.get(job, 0) + 1

    def end(self, job: str) -> None:
        """Note that a job is not here any more; it may come back."""
        self._stays.pop(job, None)

    def forget(self, job: str) -> None:
        """Forget a job that is gone for good."""
        self._stays.pop(job, None)
        self._count.pop(job, None)

    def next_pool(self, job: str, pools: Sequence[str], is_open: Sequence[str]) -> str | None:
        """Return the pool that has its turn after ours; None without another one.

        Args:
            job: one that is here.
            pools: its list.
            is_open: those of the list in which it could be, in order.

        """
        others = [pool for pool in is_open if pool != self._pool]
        if not others:
            return None
        changed = self._changed(job, is_open)
        if changed:
            return changed[0]
        order = list(pools)
        at = order.index(self._pool) if self._pool in order else -1
        later = [pool for pool in others if order.index(pool) > at]
        return (later or others)[0]

    def ends_s(self, job: str, is_open: Sequence[str], *, is_hopeless: bool = False) -> float:
        """Return when the stay of a job ends; what is hopeless here ends its first stay at once."""
        stay, count = self._stays[job], self._count[job]
        if is_hopeless and count == 1:
            return stay.since_s
        dwell_s = self._dwell_s
        if not self._changed(job, is_open):
            doubled_s = dwell_s * 2.0 ** min(count - 1, _MOST_DOUBLINGS)
            dwell_s = min(doubled_s, max(MOST_DWELL_S, dwell_s))
        return stay.since_s + dwell_s

    def _changed(self, job: str, pools: Sequence[str]) -> list[str]:
        """Return the other pools where there may be room that was not there when a job came."""
        before, now = self._stays[job].changes, self._changes
        others = (pool for pool in pools if pool != self._pool)
        return [pool for pool in others if now.get(pool, 0) > before.get(pool, 0)]


_STAYS: Final = frozenset(
    {
        # It was not tried, or not to the end.
        Refusal.QUEUE_DEPTH,
        Refusal.NOT_TRIED,
        Refusal.PUT_OFF,
        Refusal.OPENED_SINCE,
        Refusal.ROOM_HELD,
        Refusal.SEARCH_BUDGET,
        Refusal.CYCLE_EVICTIONS,
        Refusal.PLUGIN_FAILED,
        Refusal.ACTION_FAILED,
        # It has a promise here.
        Refusal.WAITING_FOR_RELEASE,
        # It would wait in every pool.
        Refusal.INVALID_GROUP,
        Refusal.GANG_INCOMPLETE,
        Refusal.SCHEDULING_GATED,
        Refusal.OWNER_NOT_READ,
    }
)


class PoolTurns:
    """Turns of the jobs with lists in one pool; called by the loop of its shard after a cycle."""

    def __init__(
        self,
        store: StateStore,
        dwell_s: float = DWELL_S,
        *,
        is_idle_first: bool = False,
        patience_s: float = 0.0,
    ) -> None:
        """Begin without stays.

        Args:
            store: that of the shard.
            dwell_s: how long a job waits here on its first stay.
            is_idle_first: let jobs evict here only from their second stay on.
            patience_s: stay so much longer for a job that may evict here by then.

        """
        self._store, self._patience_s = store, patience_s
        store.pools.is_idle_first |= is_idle_first
        self._stays = Stays(store.pools.pool, dwell_s, store.pools.changes)

    def after(self, snapshot: Snapshot, result: CycleResult, now_s: float) -> list[tuple[str, str]]:
        """Pass on the jobs whose time here is over; return each with its next pool."""
        book, stays = self._store.pools, self._stays
        if not book.is_on or not book.jobs or result.stats.abandoned:
            return []
        self._note(book, now_s)
        moved = []
        promised = {nomination.pod_group for nomination in result.nominations}
        for row, code in refused(snapshot, result):
            job = snapshot.jobs.name[row]
            if job not in stays or job in promised or not self._is_over(snapshot, row, code, now_s):
                continue
            pool = self._next(job)
            if pool is not None and not self._may_evict_soon(snapshot, row, now_s):
                stays.end(job)
                self._store.hand_over(job, pool)
                moved.append((job, pool))
        return moved

    def _is_over(self, snapshot: Snapshot, row: int, code: int, now_s: float) -> bool:
        """Tell whether the stay of a refused job is over, the cheaper questions first."""
        job, book = snapshot.jobs.name[row], self._store.pools
        listed = book.jobs[job]
        there = book.open_pools(listed)
        if book.pool not in listed.pools or now_s >= self._stays.ends_s(job, there):
            return True
        early_s = self._stays.ends_s(job, there, is_hopeless=True)
        return now_s >= early_s and is_hopeless(snapshot, row, code)

    def next_end_s(self, now_s: float, jobs: Callable[[str], bool]) -> float | None:
        """Return when the next stay ends of jobs that may then be passed on; None for never.

        Args:
            now_s: what has ended by now does not count.
            jobs: tells which jobs count.

        """
        book, stays = self._store.pools, self._stays
        here = [job for job in stays.here() & book.jobs.keys() if jobs(job)]
        free = [job for job in here if self._next(job) is not None]
        ends = [stays.ends_s(job, book.open_pools(book.jobs[job])) for job in free]
        return min((end_s for end_s in ends if end_s > now_s), default=None)

    def _note(self, book: PoolBook, now_s: float) -> None:
        stays = self._stays
        mine = {job for job in book.jobs if book.is_mine(job)}
        for job in mine - stays.here():
            stays.begin(job, now_s)
            if book.is_idle_first and stays.count(job) > 1 and job not in book.impatient:
                book.impatient.add(job)
                self._store.rows.touch()
                self._store.members.refresh(job)
        for job in stays.here() - mine:
            stays.end(job)
        for job in stays.known() - book.jobs.keys():
            stays.forget(job)

    def is_free(self, listed: Listed) -> bool:
        """Tell whether no pod of a job is on a node, was sent to one, or has done its work."""
        sent = self._store.facts.sent
        return not any(
            ACTIVE_STATES[pod.state] or pod.has_succeeded or key in sent
            for key, (pod, _) in listed.pods.items()
        )

    def _next(self, job: str) -> str | None:
        """Return the pool to which a job may go from here; None if it may not, or without one."""
        book = self._store.pools
        listed = book.jobs[job]
        if not self.is_free(listed):
            return None
        return self._stays.next_pool(job, listed.pools, book.open_pools(listed))

    def _may_evict_soon(self, snapshot: Snapshot, row: int, now_s: float) -> bool:
        """Tell whether a job waits for the time from which it may evict here, and that is near."""
        jobs = snapshot.jobs
        since_s = np.fmax(jobs.created_s[row], jobs.last_evicted_s[row])  # never evicted is NaN
        left_s = float(since_s + jobs.preemption_delay_s[row]) - now_s
        return 0.0 < left_s <= self._patience_s


def pool_turns(store: StateStore, shard: SchedulingShard) -> PoolTurns:
    """Return the stays in the pool of a shard, as it sets them."""
    dwell = shard.spec.pool_dwell
    dwell_s = DWELL_S if dwell is None else parse_duration(dwell)
    patience = shard.spec.pool_patience
    patience_s = 0.0 if patience is None else parse_duration(patience)
    is_idle_first = shard.spec.pool_order == "idleFirst"
    return PoolTurns(store, dwell_s, is_idle_first=is_idle_first, patience_s=patience_s)


def refused(snapshot: Snapshot, result: CycleResult) -> Iterator[tuple[int, int]]:
    """Yield the jobs without a pod on a node that a whole cycle has refused, with the code."""
    records, jobs = result.records, snapshot.jobs
    for row, code in zip(records.rows.tolist(), records.codes.tolist(), strict=True):
        if code not in _STAYS and not jobs.active[row]:
            yield row, code


def is_hopeless(snapshot: Snapshot, row: int, code: int) -> bool:
    """Tell whether no end of other work could let a job start in this pool."""
    if text_of(code).is_lasting:
        return True
    asked = _least(snapshot, row)
    if np.any(asked > snapshot.total):
        return True
    queues, jobs = snapshot.queues, snapshot.jobs
    if jobs.is_preemptible[row] or code < FIRST_OF_PLUGINS:
        return False
    queue = int(jobs.queue_of_job[row])  # the policy has refused it, by quotas or otherwise
    while queue >= 0:
        deserved = queues.deserved[:, queue]
        if np.any((deserved != UNLIMITED) & (asked > deserved)):
            return True
        queue = int(queues.tree.parent_of_queue[queue])
    return False


def _least(snapshot: Snapshot, row: int) -> Amounts:
    """Return the amounts ``(R,)`` that a job needs to start."""
    jobs, podsets, tasks = snapshot.jobs, snapshot.podsets, snapshot.tasks
    first, count = int(jobs.first_podset[row]), int(jobs.podset_count[row])
    left = dict(enumerate(podsets.minimum[first : first + count].tolist(), first))
    asked, charge = np.zeros(len(snapshot.axis), np.int64), least_charges(snapshot.shapes)
    for task in jobs.tasks[row]:
        podset = int(tasks.podset_of_task[task])
        if left.get(podset, 0) > 0 and tasks.state[task] == TaskState.PENDING:
            left[podset] -= 1
            asked += charge[:, tasks.shape_of_task[task]]
    return asked
