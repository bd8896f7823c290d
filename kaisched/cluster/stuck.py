"""Pods that do not end: each was asked to go for so long that nobody is made to wait for its room.

When a pod was asked to go is the server's word, on the server's clock. Were it compared with ours,
a clock that is minutes ahead would make every pod that leaves a stuck one, and break every promise.
So where we have seen the pod alive, time counts from when we saw it leave. Only of a pod that was
leaving already when we came to know it, as after a restart, the timestamps are taken, once: they
say how long it has been leaving, and the monotonic clock counts on from there.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, MutableMapping
from typing import Final, NamedTuple

STUCK_AFTER_S: Final = 120.0
"""Unless the shard says otherwise; KAI-Scheduler's default."""
_SLACK: Final = 1.1
"""A pod that uses up its grace is then killed and taken away, which takes a while too."""


class Leaving(NamedTuple):
    """How a pod is being deleted."""

    asked_s: float
    """Since when, in seconds since 1970 by the server's clock; NaN where that makes no sense."""
    grace_s: float
    """How long it may take over it."""


def is_overdue(age_s: float, grace_s: float, after_s: float) -> bool:
    """Tell whether a pod that was asked to go so long ago is stuck; never if ``after_s`` < 0."""
    return 0 <= after_s <= age_s and age_s >= _SLACK * grace_s


class Stuck:
    """Who is leaving and since when, and who of them is stuck; by name."""

    def __init__(self, after_s: float = STUCK_AFTER_S) -> None:
        """Know of none. They are stuck after so long, and no sooner than their grace allows.

        A negative ``after_s`` is for ever.
        """
        self._after_s = after_s
        self._fresh: dict[str, float] = {}  # seen since the last turn: when asked, NaN for just now
        self._grace_s: dict[str, float] = {}
        self._since_s: dict[str, float] = {}
        self._stuck: dict[str, float] = {}  # after how long

    def __contains__(self, key: str) -> bool:
        """Tell whether a pod is stuck."""
        return key in self._stuck

    def __iter__(self) -> Iterator[str]:
        """Yield the pods that are stuck."""
        return iter(self._stuck)

    def after_s(self, key: str) -> float:
        """Return how long a stuck pod had been leaving when it was taken for one."""
        return self._stuck[key]

    def note(self, key: str, leaving: Leaving | None, *, was_alive: bool) -> None:
        """Note how a pod is being deleted, if it is, and whether we knew it when it was not."""
        if leaving is None:
            self.forget(key)
            return
        if key not in self._grace_s:
            self._fresh[key] = math.nan if was_alive else leaving.asked_s
        self._grace_s[key] = leaving.grace_s  # who deletes again may give less time

    def forget(self, key: str) -> None:
        """Forget a pod: it is gone, or another."""
        every: tuple[MutableMapping[str, float], ...]
        every = (self._fresh, self._grace_s, self._since_s, self._stuck)
        for known in every:
            known.pop(key, None)

    def restore(self, keys: Iterable[str]) -> None:
        """Let these be stuck, as was known elsewhere; before their pods are noted."""
        self._stuck.update(dict.fromkeys(keys, self._after_s))

    def turn(self, now_s: float, wall_s: float) -> list[str]:
        """Return who is stuck from now on, by the monotonic clock; by the other one pods speak."""
        for key, asked_s in self._fresh.items():
            age_s = wall_s - asked_s
            self._since_s[key] = now_s - (age_s if age_s > 0 else 0.0)  # also where that is NaN
        self._fresh.clear()
        found = {
            key: now_s - since_s
            for key, since_s in self._since_s.items()
            if is_overdue(now_s - since_s, self._grace_s[key], self._after_s)
        }
        for key in found:
            del self._since_s[key]  # it stays stuck until it is gone
        self._stuck.update(found)
        return list(found)
