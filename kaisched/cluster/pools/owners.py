"""Owners: which node pool each job with a list is in, one at any moment.

The shards of one process share an object in memory. Only the shard that owns a job may pass it on,
so two threads never hold one job: whoever passes it on has dropped it before.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from kaisched.cluster.translate import PodRow


class Owners(Protocol):
    """What one shard knows of the owners of jobs, and how it passes its own on."""

    @property
    def served(self) -> Mapping[str, bool]:
        """The pools that shards serve, with whether each admits all projects."""
        ...

    @property
    def lost(self) -> frozenset[str]:
        """Pools that nobody has served for a long time."""
        ...

    @property
    def is_on(self) -> bool:
        """Whether there is another pool at all; if not, lists have no effect."""
        ...

    def owner(self, job: str) -> str | None:
        """Return the pool that owns a job; None while nobody does."""
        ...

    def claim(self, job: str, pool: str) -> None:
        """Let a pool own a job that nobody owns; without effect if somebody does by now."""
        ...

    def move(self, job: str, pool: str) -> None:
        """Pass a job of ours on; without effect if it is not ours."""
        ...

    def begin(self) -> None:
        """Note that this shard decides from now on; asked before every snapshot."""
        ...

    def follow(self, job: str, pods: Mapping[str, tuple[PodRow, object]]) -> None:
        """Take the pods of a job, kept current by the caller: they may say who owns it."""
        ...

    def noted(self, job: str) -> None:
        """Note that a pod of a job has changed."""
        ...

    def admits(self, job: str, pod: PodRow) -> bool:
        """Tell whether a pod of a job of ours may be decided about."""
        ...

    def join(self, job: str) -> None:
        """Note that this shard knows a job."""
        ...

    def leave(self, job: str) -> None:
        """Note that this shard knows a job no more: its pods are gone."""
        ...

    def news(self) -> set[str]:
        """Return the jobs whose owner has changed since this was asked last."""
        ...


def _nobody() -> None:
    pass


@dataclass(slots=True)
class _Entry:
    pool: str | None = None
    known_by: set[str] = field(default_factory=set)


class SharedOwners:
    """The owners of all jobs with lists, for the shards of one process."""

    def __init__(self) -> None:
        """Begin without shards."""
        self._lock = threading.Lock()
        self._entries: dict[str, _Entry] = {}
        self._seats: dict[str, Seat] = {}
        self.served: Mapping[str, bool] = {}
        """The pools that have a seat, with whether each admits all projects."""

    def seat(
        self, pool: str, *, admits_all: bool = False, wake: Callable[[], None] = _nobody
    ) -> Seat:
        """Return the seat of the shard that serves a pool; ``wake`` starts its next cycle."""
        seat = self._seats[pool] = Seat(self, pool, wake=wake)
        self.served = {**self.served, pool: admits_all}
        return seat

    def owner(self, job: str) -> str | None:
        """Return the pool that owns a job."""
        with self._lock:
            entry = self._entries.get(job)
            return None if entry is None else entry.pool

    def swap(self, job: str, before: str | None, after: str) -> bool:
        """Let a pool own a job if another does as expected; tell whether it did.

        Only the new owner hears of it: the old one has dropped the job, and for all others it is
        another pool's as before.
        """
        with self._lock:
            entry = self._entries.get(job)
            if entry is None or entry.pool != before or after not in self._seats:
                return False
            entry.pool = after
            if after in entry.known_by:
                self._seats[after].inbox.add(job)
        self._seats[after].wake()
        return True

    def join(self, job: str, pool: str) -> None:
        """Note that a shard knows a job."""
        with self._lock:
            self._entries.setdefault(job, _Entry()).known_by.add(pool)

    def leave(self, job: str, pool: str) -> None:
        """Forget a job that no shard knows any more."""
        with self._lock:
            entry = self._entries.get(job)
            if entry is not None:
                entry.known_by.discard(pool)
                if not entry.known_by:
                    del self._entries[job]

    def take(self, seat: Seat) -> set[str]:
        """Empty the inbox of a seat and return what was in it."""
        with self._lock:
            found, seat.inbox = seat.inbox, set()
            return found


class _Unmarked:
    """Owners that need no marks on pods."""

    lost: frozenset[str] = frozenset()
    """See :class:`Owners`: what this process does not serve is not among the pools."""

    def begin(self) -> None:
        """See :class:`Owners`."""

    def follow(self, job: str, pods: Mapping[str, tuple[PodRow, object]]) -> None:
        """See :class:`Owners`: pods say nothing here."""

    def noted(self, job: str) -> None:
        """See :class:`Owners`: pods say nothing here."""

    def admits(self, job: str, pod: PodRow) -> bool:
        """See :class:`Owners`: every pod."""
        del job, pod
        return True


class Seat(_Unmarked):
    """The part of one shard in the owners that a process shares."""

    def __init__(self, owners: SharedOwners, pool: str, *, wake: Callable[[], None]) -> None:
        """Sit down for a pool."""
        self._owners, self._pool, self.wake = owners, pool, wake
        self.inbox: set[str] = set()

    @property
    def served(self) -> Mapping[str, bool]:
        """See :class:`Owners`."""
        return self._owners.served

    @property
    def is_on(self) -> bool:
        """See :class:`Owners`."""
        return len(self._owners.served) > 1

    def owner(self, job: str) -> str | None:
        """See :class:`Owners`."""
        return self._owners.owner(job)

    def claim(self, job: str, pool: str) -> None:
        """See :class:`Owners`."""
        self._owners.swap(job, None, pool)

    def move(self, job: str, pool: str) -> None:
        """See :class:`Owners`."""
        self._owners.swap(job, self._pool, pool)

    def join(self, job: str) -> None:
        """See :class:`Owners`."""
        self._owners.join(job, self._pool)

    def leave(self, job: str) -> None:
        """See :class:`Owners`."""
        self._owners.leave(job, self._pool)

    def news(self) -> set[str]:
        """See :class:`Owners`."""
        return self._owners.take(self)


class FixedOwners(_Unmarked):
    """Owners as they were at one moment, for a store that is made again."""

    def __init__(self, pool: str, served: Mapping[str, bool]) -> None:
        """Own nothing yet."""
        self._pool, self.served = pool, served
        self._owned: set[str] = set()
        self._news: set[str] = set()

    @property
    def is_on(self) -> bool:
        """See :class:`Owners`."""
        return len(self.served) > 1

    def grant(self, job: str) -> None:
        """Own a job, as was known."""
        self._owned.add(job)
        self._news.add(job)

    def owner(self, job: str) -> str | None:
        """See :class:`Owners`."""
        return self._pool if job in self._owned else None

    def claim(self, job: str, pool: str) -> None:
        """See :class:`Owners`; nothing changes."""

    def move(self, job: str, pool: str) -> None:
        """See :class:`Owners`; nothing changes."""

    def join(self, job: str) -> None:
        """See :class:`Owners`."""

    def leave(self, job: str) -> None:
        """See :class:`Owners`."""

    def news(self) -> set[str]:
        """See :class:`Owners`."""
        found, self._news = self._news, set()
        return found
