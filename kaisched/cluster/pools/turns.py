"""Turns of jobs through their lists of pools: when a shard gives up a job, and to which pool."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from kaisched.cluster.pools.moving import hand_over
from kaisched.core.refusals import FIRST_OF_PLUGINS, Refusal
from kaisched.core.states import ACTIVE_STATES, TaskState
from kaisched.units import UNLIMITED, parse_duration

if TYPE_CHECKING:
    from kaisched.cluster.pools.book import Listed, PoolBook
    from kaisched.cluster.store import StateStore
    from kaisched.core.axis import Amounts
    from kaisched.core.snapshot import Snapshot
    from kaisched.framework.report.records import CycleResult
    from kaisched.objects.shard import SchedulingShard

DWELL_S: Final = 10.0
"""How long a job waits in a pool on its first stay, unless the shard says otherwise."""
MOST_DWELL_S: Final = 300.0
_STAYS: Final = frozenset(
    {
        # It was not tried, or not to the end.
        Refusal.QUEUE_DEPTH,
        Refusal.NOT_TRIED,
        Refusal.PUT_OFF,
        Refusal.OPENED_SINCE,
        Refusal.SEARCH_BUDGET,
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
_HOPELESS: Final = frozenset(
    {
        Refusal.QUEUE_MISSING,
        Refusal.QUEUE_ORPHAN,
        Refusal.QUEUE_NOT_LEAF,
        Refusal.EXCEEDS_ANY_NODE,
        Refusal.NO_NODE_ALLOWED,
        # Shards differ in what they offer: sharing GPUs, claims on devices.
        Refusal.UNSUPPORTED,
    }
)
"""What no end of other work lifts: a job does not wait for it on its first stay."""


@dataclass(slots=True)
class _Stay:
    """The time that a job spends in our pool."""

    since_s: float
    changes: dict[str, int]
    """By pool, the count of changes when it came."""


class PoolTurns:
    """Stays of the jobs with lists in one pool; called by the loop of its shard after a cycle."""

    def __init__(
        self, store: StateStore, dwell_s: float = DWELL_S, *, is_idle_first: bool = False
    ) -> None:
        """Begin without stays.

        Args:
            store: that of the shard.
            dwell_s: how long a job waits here on its first stay.
            is_idle_first: let jobs evict here only from their second stay on.

        """
        self._store, self._dwell_s = store, dwell_s
        if is_idle_first:
            store.pools.be_idle_first()
        self._stays: dict[str, _Stay] = {}
        self._count: dict[str, int] = {}
        """How many stays a job has had here, the present one included."""

    def after(self, snapshot: Snapshot, result: CycleResult, now_s: float) -> list[tuple[str, str]]:
        """Pass on the jobs whose time here is over; return each with its next pool."""
        book = self._store.pools
        if not book.is_on or not book.jobs or result.stats.abandoned:
            return []
        self._note(book, now_s)
        moved = []
        promised = {nomination.pod_group for nomination in result.nominations}
        for row, code in self._refused(snapshot, result):
            job = snapshot.jobs.name[row]
            listed = book.jobs.get(job)
            if listed is None or job in promised or job not in self._stays:
                continue
            pool = self._next(book, job, listed) if self.is_free(listed) else None
            if pool is None:
                continue
            if self._is_over(job, now_s, is_hopeless=_is_hopeless(snapshot, row, code)):
                del self._stays[job]
                hand_over(self._store, job, pool)
                moved.append((job, pool))
        return moved

    def _note(self, book: PoolBook, now_s: float) -> None:
        mine = {job for job in book.jobs if book.is_mine(job)}
        for job in mine - self._stays.keys():
            self._stays[job] = _Stay(now_s, dict(book.changes))
            self._count[job] = self._count.get(job, 0) + 1
            if book.is_idle_first and self._count[job] > 1 and not book.may_evict(job):
                book.let_evict(job)
                self._store.rows.touch()
                self._store.members.refresh(job)
        for job in self._stays.keys() - mine:
            del self._stays[job]
        for job in self._count.keys() - book.jobs.keys():
            del self._count[job]

    @staticmethod
    def _refused(snapshot: Snapshot, result: CycleResult) -> Iterator[tuple[int, int]]:
        """Yield the jobs without a pod on a node that a whole cycle has refused, with the code."""
        records, jobs = result.records, snapshot.jobs
        for row, code in zip(records.rows.tolist(), records.codes.tolist(), strict=True):
            if code not in _STAYS and not jobs.active[row]:
                yield row, code

    def is_free(self, listed: Listed) -> bool:
        """Tell whether no pod of a job is on a node, was sent to one, or has done its work."""
        sent = self._store.facts.sent
        return not any(
            ACTIVE_STATES[pod.state] or pod.has_succeeded or key in sent
            for key, (pod, _) in listed.pods.items()
        )

    def _next(self, book: PoolBook, job: str, listed: Listed) -> str | None:
        """Return the pool that has its turn after ours; None without another one."""
        mine = book.pool
        there = book.open_pools(listed)
        others = [pool for pool in there if pool != mine]
        if not others:
            return None
        changed = self._changed(book, job, others)
        if changed:
            return changed[0]
        order = list(listed.pools)
        at = order.index(mine) if mine in order else -1
        later = [pool for pool in others if order.index(pool) > at]
        return (later or others)[0]

    def _changed(self, book: PoolBook, job: str, pools: Iterable[str]) -> list[str]:
        """Return the pools where there may be room that was not there when a job came to us."""
        before = self._stays[job].changes
        return [pool for pool in pools if book.changes[pool] > before.get(pool, 0)]

    def _is_over(self, job: str, now_s: float, *, is_hopeless: bool) -> bool:
        stay, count = self._stays[job], self._count[job]
        if is_hopeless and count == 1:
            return True
        book = self._store.pools
        is_due = bool(self._changed(book, job, book.jobs[job].pools))
        dwell_s = self._dwell_s
        if not is_due:
            dwell_s = min(dwell_s * 2.0 ** min(count - 1, 16), max(MOST_DWELL_S, dwell_s))
        return now_s - stay.since_s >= dwell_s


def pool_turns(store: StateStore, shard: SchedulingShard) -> PoolTurns:
    """Return the stays in the pool of a shard, as it sets them."""
    dwell = shard.spec.pool_dwell
    dwell_s = DWELL_S if dwell is None else parse_duration(dwell)
    return PoolTurns(store, dwell_s, is_idle_first=shard.spec.pool_order == "idleFirst")


def _is_hopeless(snapshot: Snapshot, row: int, code: int) -> bool:
    """Tell whether no end of other work could let a job start in this pool."""
    if code in _HOPELESS:
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
    asked = np.zeros(len(snapshot.axis), np.int64)
    for task in jobs.tasks[row]:
        podset = int(tasks.podset_of_task[task])
        if left.get(podset, 0) > 0 and tasks.state[task] == TaskState.PENDING:
            left[podset] -= 1
            asked += snapshot.shapes.charge[:, tasks.shape_of_task[task]]
    return asked
