"""Moves of jobs between the stores of shards: each function works on one store, in its thread."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Protocol

from kaisched.cluster.problems import fault_of

if TYPE_CHECKING:
    from kaisched.cluster.known_pods import KnownPods
    from kaisched.cluster.members import Members
    from kaisched.cluster.pools.book import PoolBook
    from kaisched.cluster.rowstore import RowStore
    from kaisched.objects.podgroup import PodGroup
    from kaisched.objects.queue import Queue


class Store(Protocol):
    """What is used of the store of a shard."""

    pools: PoolBook
    pods: KnownPods
    rows: RowStore
    members: Members

    def look_again(self, pods: Iterable[str]) -> None:
        """Take in pods again of which something is new that they do not say themselves."""
        ...


def settle(store: Store) -> None:
    """Bring a store in line with who owns jobs, before a snapshot of it."""
    book = store.pools
    if book.is_on:
        book.owners.begin()
        store.look_again([*_moved(book), *book.listed_anew(store.pods.members())])
        for job, pool in book.settle():
            hand_over(store, job, pool)
        for job in book.news():
            _review(store, job)
        store.look_again(_moved(book))
    for job in book.guests.review():
        store.rows.touch()
        store.members.refresh(job)
    why_not = book.guests.why_not()
    if why_not is not None and store.rows.queues.tell(why_not):
        store.rows.touch()
    for queue in book.missing_queues():
        store.rows.touch()
        store.rows.put_queue(queue)


def _moved(book: PoolBook) -> list[str]:
    """Return the pods whose pool by their node may be another, once."""
    moved = sorted(book.moved)
    book.moved.clear()
    return moved


def hand_over(store: Store, job: str, pool: str) -> None:
    """Drop a job from a store and then let another pool own it."""
    store.pools.let_go(job)
    _review(store, job)
    store.pools.pass_on(job, pool)


def note_queue(store: Store, queue: Queue) -> None:
    """Note a queue of any pool; look at all jobs with lists again if it changes anything."""
    if store.pools.note_queue(queue):
        refresh(store)


def note_group(store: Store, group: PodGroup) -> None:
    """Take in a pod group of any pool; look at its pods again if its list is another."""
    is_listed_anew = store.pools.note_group(group)
    _declare(store, group)
    if is_listed_anew:
        look_at_job(store, group.key)
        _declare(store, group)  # whose it is depends on its pods


def _declare(store: Store, group: PodGroup) -> None:
    if not store.pools.admits_group(group):
        _withdraw(store, group.key)
    elif store.members.declare(group, fault_of(group)):
        store.rows.touch()


def forget_group(store: Store, key: str) -> None:
    """Drop a pod group of any pool; if its pods had their list from it, look at them again."""
    if store.pools.forget_group(key):
        look_at_job(store, key)
    _withdraw(store, key)


def _withdraw(store: Store, key: str) -> None:
    store.rows.touch()
    store.members.withdraw(key)


def look_at_job(store: Store, job: str) -> None:
    """Look at the pods of a job again, wherever they are known."""
    there = {pod.key for pod in store.members.pods_of(job)}
    store.look_again(sorted(there.union(store.pools.pods_of(job))))


def refresh(store: Store) -> None:
    """Look at all jobs with lists again: queues have changed."""
    store.rows.touch()
    store.look_again(store.pools.all_pods())
    for job in list(store.pools.jobs):
        store.members.refresh(job)


def _review(store: Store, job: str) -> None:
    """Take a job in or drop it, as its owner says."""
    book = store.pools
    group = book.group(job)
    if job in book.jobs:
        is_ours = book.is_mine(job)
    else:  # it has no list any more
        is_ours = group is not None and book.admits_group(group)
    if not (is_ours or store.members.is_known(job)):
        return  # it is another pool's, and nothing of it is here
    store.rows.touch()
    if group is not None:
        note_group(store, group)
    is_new = not store.members.is_known(job)
    look_at_job(store, job)
    if not is_new or len(store.members.pods_of(job)) > 1:
        store.members.refresh(job)  # a single pod has brought its new job in line
