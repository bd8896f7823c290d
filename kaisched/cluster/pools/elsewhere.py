"""Elsewhere: what the queues of projects hold in other node pools, beyond their quotas there."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from kaisched.cluster.pools.projects import MADE_UP_QUOTA
from kaisched.cluster.translate import queue_row
from kaisched.core.axis import ALLOCATED_STATES, PODS
from kaisched.errors import ObjectError
from kaisched.units import UNLIMITED

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kaisched.cluster.pools.projects import Projects
    from kaisched.cluster.rowstore import RowStore
    from kaisched.cluster.translate import PodRow
    from kaisched.core.axis import Amounts, ResourceAxis
    from kaisched.core.constraints import Constraints
    from kaisched.objects.queue import Queue

_Demand: TypeAlias = "tuple[tuple[tuple[str, int], ...], Constraints]"


class Elsewhere:
    """The pods of other node pools that hold room there, counted by the queue that they name.

    Equal pods are counted, not listed: a sum over a queue is as long as it has kinds of pods.
    """

    def __init__(self) -> None:
        """Know no pod."""
        self._of_pod: dict[str, tuple[str, str, _Demand]] = {}
        """Job, queue and demand of each pod."""
        self._of_job: dict[str, set[str]] = {}
        self._of_queue: dict[str, dict[_Demand, int]] = {}
        self.revision = 0
        """Grows with every change."""

    def put(self, pod: PodRow, job: str, queue: str) -> None:
        """Count a pod of another pool if it holds room there."""
        demand = (tuple(sorted(pod.request.items())), pod.constraints)
        now = (job, queue, demand)
        if not (pod.node and ALLOCATED_STATES[pod.state]):
            self.drop(pod.key)
        elif self._of_pod.get(pod.key) != now:
            self.drop(pod.key)
            self._of_pod[pod.key] = now
            self._of_job.setdefault(job, set()).add(pod.key)
            self._count(queue, demand, 1)

    def drop(self, key: str) -> None:
        """Count a pod no more."""
        known = self._of_pod.pop(key, None)
        if known is None:
            return
        job, queue, demand = known
        self._of_job[job].discard(key)
        if not self._of_job[job]:
            del self._of_job[job]
        self._count(queue, demand, -1)

    def requeue(self, job: str, queue: str) -> None:
        """Count the pods of a job in another queue from now on."""
        for key in sorted(self._of_job.get(job, ())):
            _, before, demand = self._of_pod[key]
            self._of_pod[key] = (job, queue, demand)
            self._count(before, demand, -1)
            self._count(queue, demand, 1)

    def _count(self, queue: str, demand: _Demand, more: int) -> None:
        counts = self._of_queue.setdefault(queue, {})
        count = counts.get(demand, 0) + more
        if count:
            counts[demand] = count
        else:
            del counts[demand]
            if not counts:
                del self._of_queue[queue]
        self.revision += 1

    def demands(self) -> Mapping[str, dict[_Demand, int]]:
        """Return what is held, by the queue that jobs name: how often each demand."""
        return self._of_queue


class Overdrafts:
    """What the project of each queue here holds in other pools beyond its quotas there.

    In quota means within the quota in the pool and within the sum over all pools. What is held
    elsewhere beyond the quotas elsewhere is what the quota here is short of in that sum.
    """

    def __init__(self, projects: Projects, pool: str) -> None:
        """Take the queues of all pools; no pod is known yet."""
        self._projects, self._pool = projects, pool
        self.elsewhere = Elsewhere()
        self._known: tuple[tuple[object, ...], Amounts | None] = ((), None)

    def count(self, pod: PodRow, job: str, queue: str, *, is_ours: bool) -> None:
        """Count a pod that came or changed where it is another pool's."""
        if is_ours:
            self.elsewhere.drop(pod.key)
        else:
            self.elsewhere.put(pod, job, queue)

    def table(self, rows: RowStore, served: Mapping[str, bool]) -> Amounts | None:
        """Return ``(R, Q)`` for the queues of a store, None if nothing is held beyond quotas.

        The same object while nothing that it rests on has changed.

        Args:
            rows: the store.
            served: the pools that shards serve, with whether each admits all projects.

        """
        if not self.elsewhere.demands():
            return None
        sign = (
            rows.shapes.card_mib,
            rows.axis.names,
            self.elsewhere.revision,
            self._projects.revision,
            rows.queues.table.name,
            tuple(served.items()),
        )
        if self._known[0] != sign:
            self._known = sign, self._tabulated(rows, served)
        return self._known[1]

    def _tabulated(self, rows: RowStore, served: Mapping[str, bool]) -> Amounts | None:
        queues = rows.queues.table
        held = np.zeros((len(rows.axis), len(queues)), np.int64)
        for name, counts in self.elsewhere.demands().items():
            row = queues.row_of_name.get(self._projects.name_in(self._pool, name), -1)
            for (request, constraints), count in counts.items() if row >= 0 else ():
                held[:, row] += count * rows.shapes.charge_for(dict(request), constraints)
        over = np.zeros_like(held)
        for row in np.flatnonzero(held.any(axis=0)).tolist():
            quota = self._quotas(queues.name[row], rows.axis, served)
            over[:, row] = np.maximum(held[:, row] - quota, 0)
        over[PODS] = 0
        over.setflags(write=False)
        return over if over.any() else None

    def _quotas(self, name: str, axis: ResourceAxis, served: Mapping[str, bool]) -> Amounts:
        """Return ``(R,)`` the quotas of a project in all other pools together."""
        quota = np.zeros(len(axis), np.int64)
        there = self._projects.queues_beside(self._pool, name)
        amounts = [it for queue in there.values() if (it := _quota_of(queue)) is not None]
        if any(admits and pool not in {*there, self._pool} for pool, admits in served.items()):
            amounts.append(MADE_UP_QUOTA)
        for of_queue in amounts:
            for resource, what in enumerate(axis.names):
                amount = of_queue.get(what, UNLIMITED)
                is_open = UNLIMITED in {amount, int(quota[resource])}
                quota[resource] = UNLIMITED if is_open else quota[resource] + amount
        return quota


def _quota_of(queue: Queue) -> Mapping[str, int] | None:
    """Return the quota of a queue by resource; None for one with a fault, as good as absent."""
    try:
        return queue_row(queue).quota
    except ObjectError:
        return None
