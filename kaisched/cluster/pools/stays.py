"""Stays of jobs in one node pool: how long each lasts, and which pool of its list is next."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

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
