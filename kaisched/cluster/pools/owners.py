"""Owners: which node pool each job with a list is in, by this process or by conditions of pods."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from kaisched.cluster.pods import PodRow
from kaisched.core.axis import TaskState
from kaisched.objects.labels import pool_condition_text


class Owners:
    """What one shard knows of the owners of jobs, and how it passes its own on."""

    served: Mapping[str, bool]
    """The pools that shards serve, with whether each admits all projects."""
    lost: frozenset[str] = frozenset()
    """Pools that nobody has served for a long time."""

    @property
    def is_on(self) -> bool:
        """Whether there is another pool at all; if not, lists have no effect."""
        return len(self.served) > 1

    def owner(self, job: str) -> str | None:
        """Return the pool that owns a job; None without one."""
        raise NotImplementedError

    def claim(self, job: str, pool: str) -> None:
        """Make a pool the owner of a job without one; no effect if it has one by now."""

    def move(self, job: str, pool: str) -> None:
        """Pass a job of ours on; without effect if it is not ours."""

    def begin(self) -> None:
        """Note that this shard decides from now on; asked before every snapshot."""

    def follow(self, job: str, pods: Mapping[str, tuple[PodRow, object]]) -> None:
        """Take the pods of a job, kept current by the caller: they may say who owns it."""

    def noted(self, job: str) -> None:
        """Note that a pod of a job has changed."""

    def admits(self, job: str, pod: PodRow) -> bool:
        """Tell whether a pod of a job of ours may be decided about."""
        del job, pod
        return True

    def join(self, job: str) -> None:
        """Note that this shard knows a job."""

    def leave(self, job: str) -> None:
        """Forget a job: its pods are gone."""

    def news(self) -> set[str]:
        """Return the jobs whose owner has changed since this was asked last."""
        raise NotImplementedError


def _nobody() -> None:
    pass


@dataclass(slots=True)
class _Entry:
    pool: str | None = None
    known_by: set[str] = field(default_factory=set)


class SharedOwners:
    """The owners of all jobs with lists, for the shards of one process.

    Only the shard that owns a job may pass it on, so two threads never hold one job: whoever passes
    it on has dropped it before.
    """

    def __init__(self) -> None:
        """Begin without shards."""
        self.lock = threading.Lock()
        self.entries: dict[str, _Entry] = {}
        self.shards: dict[str, ShardOwners] = {}
        self.served: Mapping[str, bool] = {}
        """The pools that shards of this process serve, with whether each admits all projects."""

    def for_shard(
        self, pool: str, *, admits_all: bool = False, wake: Callable[[], None] = _nobody
    ) -> ShardOwners:
        """Return the owners for the shard that serves a pool; ``wake`` starts its next cycle."""
        shard = self.shards[pool] = ShardOwners(self, pool, wake=wake)
        self.served = {**self.served, pool: admits_all}
        return shard

    def owner(self, job: str) -> str | None:
        """Return the pool that owns a job."""
        with self.lock:
            entry = self.entries.get(job)
            return None if entry is None else entry.pool


class ShardOwners(Owners):
    """The part of one shard in the owners that a process shares."""

    def __init__(self, owners: SharedOwners, pool: str, *, wake: Callable[[], None]) -> None:
        """Serve a pool, of which nothing is handed over yet."""
        self._shared, self._pool, self.wake = owners, pool, wake
        self.handed_over: set[str] = set()

    @property
    def served(self) -> Mapping[str, bool]:  # type: ignore[override]
        """See :class:`Owners`."""
        return self._shared.served

    def owner(self, job: str) -> str | None:
        """See :class:`Owners`."""
        return self._shared.owner(job)

    def claim(self, job: str, pool: str) -> None:
        """See :class:`Owners`."""
        self._swap(job, None, pool)

    def move(self, job: str, pool: str) -> None:
        """See :class:`Owners`."""
        self._swap(job, self._pool, pool)

    def _swap(self, job: str, before: str | None, after: str) -> None:
        """Let a pool own a job if another does as expected.

        Only the new owner is notified: the old one has dropped the job, and for all others it is
        another pool's as before.
        """
        shared = self._shared
        with shared.lock:
            entry, shard = shared.entries.get(job), shared.shards.get(after)
            if entry is None or entry.pool != before or shard is None:
                return
            entry.pool = after
            if after in entry.known_by:
                shard.handed_over.add(job)
        shard.wake()

    def join(self, job: str) -> None:
        """See :class:`Owners`."""
        with self._shared.lock:
            self._shared.entries.setdefault(job, _Entry()).known_by.add(self._pool)

    def leave(self, job: str) -> None:
        """See :class:`Owners`."""
        with self._shared.lock:
            entry = self._shared.entries.get(job)
            if entry is not None:
                entry.known_by.discard(self._pool)
                if not entry.known_by:
                    del self._shared.entries[job]

    def news(self) -> set[str]:
        """See :class:`Owners`."""
        with self._shared.lock:
            found, self.handed_over = self.handed_over, set()
            return found


class FixedOwners(Owners):
    """Owners as they were at one moment, for a store that is made again."""

    def __init__(self, pool: str, served: Mapping[str, bool]) -> None:
        """Own nothing yet."""
        self._pool, self.served = pool, served
        self._owned: set[str] = set()
        self._news: set[str] = set()

    def grant(self, job: str) -> None:
        """Own a job, as was known."""
        self._owned.add(job)
        self._news.add(job)

    def owner(self, job: str) -> str | None:
        """See :class:`Owners`."""
        return self._pool if job in self._owned else None

    def news(self) -> set[str]:
        """See :class:`Owners`."""
        found, self._news = self._news, set()
        return found


Seen = tuple[str, str]
"""UID and resource version of a pod."""


class PoolCondition(NamedTuple):
    """A pool condition that is to be written on a pod."""

    pod: str
    uid: str
    version: str
    pool: str
    moves: int
    job: str

    @property
    def text(self) -> str:
        """The message of the condition."""
        return pool_condition_text(self.pool, self.moves)


class OwnersByCondition(Owners):
    """What one shard reads from the pool conditions of pods, and what it wants to be written.

    In the thread of the store, except that ``served`` does not change.
    """

    def __init__(
        self,
        pool: str,
        served: Mapping[str, bool],
        put: Callable[[PoolCondition], None],
    ) -> None:
        """Begin without jobs.

        Args:
            pool: that of our shard.
            served: ours and those of other processes, with whether each admits all projects.
            put: writes a condition, and calls :meth:`settled` when its pod is known anew.

        """
        self._pool, self.served, self._put = pool, served, put
        self._pods: dict[str, Mapping[str, tuple[PodRow, object]]] = {}
        self._sent: dict[str, Seen] = {}
        """Conditions under way, by pod."""
        self._leaving: dict[str, int] = {}
        """Jobs that are passed on, with the number of their condition until then."""
        self._whole: dict[str, int] = {}
        """Jobs of which all pods have had our condition of this number."""
        self._news: set[str] = set()
        self._records: dict[str, tuple[str, int] | None] = {}
        """The conditions that count, by job, while nothing has changed."""
        self._old: dict[str, int] | None = None
        """Jobs that an earlier leader of ours had, and their number; None before we lead."""

    # -- reading ---------------------------------------------------------------------------------

    def follow(self, job: str, pods: Mapping[str, tuple[PodRow, object]]) -> None:
        """Read the conditions of a job from these pods, which are kept current by the caller."""
        self._pods[job] = pods
        self._records.pop(job, None)

    def noted(self, job: str) -> None:
        """Mark the job for another check: one of its pods has changed."""
        self._records.pop(job, None)
        self._news.add(job)

    def lose(self, pools: frozenset[str]) -> None:
        """Record the pools without a shard."""
        self.lost = pools

    def _alive(self, job: str) -> Iterable[PodRow]:
        return (pod for pod, _ in self._pods.get(job, {}).values() if pod.state != TaskState.GONE)

    def _record(self, job: str) -> tuple[str, int] | None:
        """Return the pool of a job and the number of its condition; None without one."""
        if job not in self._records:
            self._records[job] = self._read(job)
        return self._records[job]

    def _read(self, job: str) -> tuple[str, int] | None:
        best: tuple[int, str, str] | None = None
        for pod in self._alive(job):
            if pod.pool_condition is not None:
                pool, moves = pod.pool_condition
                if best is None or (-moves, pod.key) < best[:2]:
                    best = (-moves, pod.key, pool)
        return None if best is None else (best[2], -best[0])

    def owner(self, job: str) -> str | None:
        """Return the pool of a job; None while a pod that waits lacks its condition."""
        record = self._record(job)
        if record is None:
            return None
        pool, moves = record
        if pool != self._pool:
            return pool
        if self._leaving.get(job) == moves or self._is_old(job, moves):
            return None
        return pool if self._is_whole(job, record) else None

    def _is_whole(self, job: str, record: tuple[str, int]) -> bool:
        """Tell whether all pods that wait had the condition at once; later ones may lack it."""
        conditions = {pod.pool_condition for pod in self._alive(job) if not pod.node}
        if conditions <= {record}:
            self._whole[job] = record[1]
        return self._whole.get(job) == record[1] and conditions <= {None, record}

    def _is_old(self, job: str, moves: int) -> bool:
        return self._old is None or moves <= self._old.get(job, 0)

    def begin(self) -> None:
        """Lead from now on: what an earlier leader has written is written anew before it is ours.

        Its binds may be under way still; they have no effect once their pods have another one.
        """
        if self._old is None:
            records = ((job, self._record(job)) for job in self._pods)
            self._old = {job: it[1] for job, it in records if it and it[0] == self._pool}

    def admits(self, job: str, pod: PodRow) -> bool:
        """Tell whether a pod of a job of ours may be decided about: if it waits, it has ours."""
        return bool(pod.node) or pod.pool_condition == self._record(job)

    # -- writing ---------------------------------------------------------------------------------

    def claim(self, job: str, pool: str) -> None:
        """Write the condition on the pods of a job of ours, or of one without an owner."""
        record = self._record(job)
        if record is None and pool == self._pool:
            record = (pool, 1)
        if record is None or job in self._leaving:
            return
        if record[0] != self._pool:
            self._take(job, record, pool)
            return
        if self._is_old(job, record[1]):
            record = (record[0], record[1] + 1)
        for pod in self._alive(job):
            if not pod.node and pod.pool_condition != record:
                self._write(job, pod, *record)

    def _take(self, job: str, record: tuple[str, int], pool: str) -> None:
        """Take a job whose shard is lost, unless pods of it run."""
        if record[0] not in self.lost or pool != self._pool:
            return
        pods = sorted(self._alive(job), key=lambda pod: pod.key)
        if not any(pod.node for pod in pods):
            self._write(job, pods[0], pool, record[1] + 1)

    def move(self, job: str, pool: str) -> None:
        """Pass a job of ours on: write the condition of the first of its pods that waits."""
        record = self._record(job)
        waiting = sorted((pod for pod in self._alive(job) if not pod.node), key=lambda it: it.key)
        pods = waiting or sorted(self._alive(job), key=lambda it: it.key)
        if record is None or record[0] != self._pool or not pods:
            return
        self._leaving[job] = record[1]
        self._write(job, pods[0], pool, record[1] + 1, is_move=True)

    def _write(
        self, job: str, pod: PodRow, pool: str, moves: int, *, is_move: bool = False
    ) -> None:
        seen = (pod.uid, pod.meta.resource_version)
        if self._sent.get(pod.key) == seen and not is_move:
            return
        self._sent[pod.key] = seen
        self._put(PoolCondition(pod.key, *seen, pool, moves, job))

    def settled(self, condition: PoolCondition) -> None:
        """Note that a condition was written or refused, after its pod was taken in anew."""
        if self._sent.get(condition.pod) == (condition.uid, condition.version):
            del self._sent[condition.pod]
        if condition.pool != self._pool and self._leaving.get(condition.job) == condition.moves - 1:
            del self._leaving[condition.job]
        self._news.add(condition.job)

    # -- of the book -----------------------------------------------------------------------------

    def join(self, job: str) -> None:
        """See :class:`Owners`."""
        self._news.add(job)

    def leave(self, job: str) -> None:
        """See :class:`Owners`."""
        for known in (self._pods, self._records, self._whole, self._leaving, self._old or {}):
            known.pop(job, None)

    def news(self) -> set[str]:
        """See :class:`Owners`."""
        found, self._news = self._news, set()
        return found
