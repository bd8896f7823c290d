"""Scheduling conditions of pod groups: one entry for each node pool that could not take a job.

The entry with the highest number is the newest. Selectors of node pools read it: if it names the
pool in which a job is, the job was tried there and refused, and may be given another pool.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from kaisched.objects.labels import pool_name

if TYPE_CHECKING:
    from kaisched.cluster.store import StateStore

UNSCHEDULABLE_ON_POOL: Final = "UnschedulableOnNodePool"
_NUMBER: Final = "transitionID"
_MOST_DIGITS: Final = 18


class PoolWord(NamedTuple):
    """What one node pool has to say of a job in the status of its pod group."""

    pool: str
    """Name of the pool."""
    said: Mapping[str, str] | None
    """Why the pool could not take the job; None if the job waits no more."""
    pools: frozenset[str]
    """The pools whose entries end once the job waits no more."""


def why_waiting(pool: str, reason: str, message: str) -> dict[str, str]:
    """Return the entry of a pool that could not take a job, without number and time."""
    return {
        "type": UNSCHEDULABLE_ON_POOL,
        "nodePool": pool,
        "reason": reason,
        "message": message,
        "status": "True",
    }


def pool_of(entry: Mapping[str, Any]) -> str:
    """Return the name of the pool in an entry."""
    return str(entry.get("nodePool", ""))


def due_entries(
    current: Sequence[Mapping[str, Any]], word: PoolWord, now: str
) -> list[Mapping[str, Any]] | None:
    """Return the entries that a pod group should have; None if it has them.

    Args:
        current: the entries as they are.
        word: what we have to say.
        now: the time, as it is written.

    """
    if word.said is None:
        kept = [it for it in current if pool_of(it) not in word.pools]
        return None if len(kept) == len(current) else kept
    theirs = [it for it in current if pool_of(it) != word.pool]
    newest = max(enumerate(current), key=lambda it: (_number(it[1]), it[0]), default=(-1, {}))[1]
    is_newest = pool_of(newest) == word.pool and len(theirs) == len(current) - 1
    if is_newest and all(newest.get(key) == value for key, value in word.said.items()):
        return None
    number = max(map(_number, current), default=0) + 1
    return [*theirs, {**word.said, _NUMBER: str(max(number, 1)), "lastTransitionTime": now}]


def _number(entry: Mapping[str, Any]) -> int:
    """Return the number of an entry; -1 for one without, which is older than all others."""
    text = str(entry.get(_NUMBER, ""))
    is_number = text.isdecimal() and text.isascii() and len(text) <= _MOST_DIGITS
    return int(text) if is_number else -1


def pools_known(store: StateStore, own: str) -> frozenset[str]:
    """Return the names of the pools that the shards known to a store serve, ours included."""
    if not store.pools.is_on:
        return frozenset((own,))
    return frozenset((own, *map(pool_name, store.pools.owners.served)))


def is_told_of_running(store: StateStore, own: str) -> bool:
    """Tell whether a job of which pods run may have an entry for the pods that wait.

    Where there are several pools a selector might take the job to another one for it.
    """
    return not store.pools.is_on and own == pool_name("")
