"""Moves of jobs between the stores of shards: each function works on one store, in its thread."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from kaisched.cluster.members import Members
    from kaisched.cluster.pools.book import PoolBook
    from kaisched.cluster.rowstore import RowStore
    from kaisched.objects.podgroup import PodGroup
    from kaisched.objects.queue import Queue


class Store(Protocol):
    """What is used of the store of a shard."""

    pools: PoolBook
    rows: RowStore
    members: Members

    def look_again(self, pods: Iterable[str]) -> None:
        """Take in pods again of which something is new that they do not say themselves."""
        ...

    def upsert_pod_group(self, group: PodGroup) -> None:
        """Take in a pod group that came or changed."""
        ...


def settle(store: Store) -> None:
    """Bring a store in line with who owns jobs, before a snapshot of it."""
    book = store.pools
    if book.is_on:
        book.owners.begin()
        for job, pool in book.settle():
            hand_over(store, job, pool)
        for job in book.news():
            _review(store, job)
    for job in book.guests.review():
        store.rows.touch()
        store.members.refresh(job)
    why_not = book.guests.why_not()
    if why_not is not None and store.rows.queues.tell(why_not):
        store.rows.touch()
    for queue in book.missing_queues():
        store.rows.touch()
        store.rows.put_queue(queue)


def hand_over(store: Store, job: str, pool: str) -> None:
    """Drop a job from a store and then let another pool own it."""
    store.pools.let_go(job)
    _review(store, job)
    store.pools.pass_on(job, pool)


def note_queue(store: Store, queue: Queue) -> None:
    """Note a queue of any pool; look at all jobs with lists again if it changes anything."""
    if store.pools.note_queue(queue):
        refresh(store)


def forget_group(store: Store, key: str) -> None:
    """Forget a pod group of any pool; if its pods had their list from it, look at them again."""
    if store.pools.forget_group(key):
        look_at_job(store, key)


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
    if not (store.members.is_known(job) or store.pools.is_mine(job)):
        return  # it is another pool's, and nothing of it is here
    store.rows.touch()
    group = store.pools.group(job)
    if group is not None:
        store.upsert_pod_group(group)
    is_new = not store.members.is_known(job)
    look_at_job(store, job)
    if not is_new or len(store.members.pods_of(job)) > 1:
        store.members.refresh(job)  # a single pod has brought its new job in line
