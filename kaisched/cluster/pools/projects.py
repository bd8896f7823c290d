"""Projects: the queues of one project in several node pools, and what they hold elsewhere."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Final, NamedTuple, TypeAlias

import numpy as np

from kaisched.cluster.pods import PodRow
from kaisched.cluster.queues import QueueRow, queue_row
from kaisched.cluster.rowstore import RowStore
from kaisched.core.axis import ALLOCATED_STATES, PODS, Amounts, ResourceAxis
from kaisched.core.constraints import Constraints
from kaisched.errors import ObjectError
from kaisched.objects import labels
from kaisched.objects.labels import pool_name
from kaisched.objects.queue import Queue
from kaisched.units import UNLIMITED

MADE_UP_WEIGHT: Final = 2.0
"""Weight beyond the quota of a queue that was made up: Medium."""
MADE_UP_QUOTA: Final[Mapping[str, int]] = {"gpu": 0}
_MOST_DEPTH: Final = 32


class Projects:
    """All queues of the cluster, whatever their pool."""

    def __init__(self) -> None:
        """Know none."""
        self._queues: dict[str, Queue] = {}
        self.revision = 0
        """Grows with every change but those of a status."""
        self._of_project: dict[tuple[str, str], str] | None = None
        """By (project, pool) the first queue by name that has the label; None after a change."""
        self._listing: set[str] = set()
        """The queues that list pools."""

    def put(self, queue: Queue) -> bool:
        """Note a queue; tell whether anything here depends on what has changed."""
        before = self._queues.get(queue.name)
        self._queues[queue.name] = queue
        said = queue.spec, queue.metadata.labels
        if before is not None and (before.spec, before.metadata.labels) == said:
            return False  # only its status, which is written again and again
        self._of_project = None
        self.revision += 1
        (self._listing.add if queue.spec.node_pools else self._listing.discard)(queue.name)
        return True

    def drop(self, name: str) -> bool:
        """Forget a queue; tell whether it was known."""
        self._of_project = None
        self.revision += 1
        self._listing.discard(name)
        return self._queues.pop(name, None) is not None

    @property
    def has_lists(self) -> bool:
        """Whether any queue lists pools."""
        return bool(self._listing)

    def list_of(self, name: str) -> tuple[str, ...] | None:
        """Return the pools for jobs of a queue, by it or by a queue above; None for no list."""
        for _ in range(_MOST_DEPTH):
            queue = self._queues.get(name)
            if queue is None:
                return None
            if queue.spec.node_pools:
                return tuple(map(labels.pool_named, queue.spec.node_pools))
            name = queue.spec.parent_queue
        return None

    def pool_of(self, name: str) -> str | None:
        """Return the pool of a queue; None for one that does not exist."""
        queue = self._queues.get(name)
        return None if queue is None else labels.node_pool_of(queue.metadata)

    def queue_in(self, pool: str, name: str) -> str:
        """Return the queue of a pool for jobs that name a queue of any pool; empty for none."""
        named = self._queues.get(name)
        if named is not None and labels.node_pool_of(named.metadata) == pool:
            return name
        project = self.project_of(name)
        if found := self._labelled().get((project, pool)):
            return found
        for wanted in (_in_pool(project, pool), project):
            there = self._queues.get(wanted)
            if there is not None and labels.node_pool_of(there.metadata) == pool:
                return wanted
        return ""

    def name_in(self, pool: str, name: str) -> str:
        """Return the queue of a pool as :meth:`queue_in` does, or the name of one to make up."""
        return self.queue_in(pool, name) or _in_pool(self.project_of(name), pool)

    def queues_beside(self, pool: str, name: str) -> dict[str, Queue]:
        """Return the queues of a queue's project in all pools but this one, by pool."""
        pools = {labels.node_pool_of(queue.metadata) for queue in self._queues.values()} - {pool}
        found = {other: self.queue_in(other, name) for other in sorted(pools)}
        return {other: self._queues[there] for other, there in found.items() if there}

    def _labelled(self) -> dict[tuple[str, str], str]:
        if self._of_project is None:
            self._of_project = {}
            for name in sorted(self._queues, reverse=True):
                meta = self._queues[name].metadata
                project = meta.labels.get(labels.QUEUE_PROJECT)
                if project:
                    self._of_project[project, labels.node_pool_of(meta)] = name
        return self._of_project

    def made_up(self, pool: str, name: str) -> list[QueueRow]:
        """Return the queues to make up so that jobs of a queue have one in a pool, roots first."""
        path: list[QueueRow] = []
        below: QueueRow | None = None
        for _ in range(_MOST_DEPTH):
            there = self.queue_in(pool, name)
            here = self.name_in(pool, name)
            if below is not None:
                path[-1] = replace(below, parent=here)
            queue = self._queues.get(name)
            if there:
                break
            below = QueueRow(here, quota=MADE_UP_QUOTA, weight=_MEDIUM, labels=_MARKED)
            path.append(below)
            if queue is None or not queue.spec.parent_queue:
                break
            name = queue.spec.parent_queue
        return path[::-1]

    def project_of(self, name: str) -> str:
        """Return the project of a queue: its label, or its name without that of its pool."""
        queue = self._queues.get(name)
        if queue is None:
            return name
        pool = labels.pool_name(labels.node_pool_of(queue.metadata))
        return queue.metadata.labels.get(labels.QUEUE_PROJECT) or name.removesuffix(f"-{pool}")


def _in_pool(project: str, pool: str) -> str:
    return f"{project}-{labels.pool_name(pool)}"


_MEDIUM: Final[Mapping[str, float]] = dict.fromkeys(MADE_UP_QUOTA, MADE_UP_WEIGHT)
_MARKED: Final[Mapping[str, str]] = {labels.MADE_UP: "true"}


_Demand: TypeAlias = "tuple[tuple[tuple[str, int], ...], Constraints]"


class Overdrafts:
    """What the project of each queue here holds in other pools beyond its quotas there.

    In quota means within the quota in the pool and within the sum over all pools. What is held
    elsewhere beyond the quotas elsewhere is what the quota here is short of in that sum. Equal pods
    are counted, not listed: a sum over a queue is as long as it has kinds of pods.
    """

    def __init__(self, projects: Projects, pool: str) -> None:
        """Take the queues of all pools; no pod is known yet."""
        self._projects, self._pool = projects, pool
        self._of_pod: dict[str, tuple[str, str, _Demand]] = {}
        """Job, queue and demand of each pod of another pool that holds room there."""
        self._of_job: dict[str, set[str]] = {}
        self._of_queue: dict[str, dict[_Demand, int]] = {}
        """How often each demand is held, by the queue that jobs name."""
        self._revision = 0
        """Grows with every change of these."""
        self._known: tuple[tuple[object, ...], Amounts | None] = ((), None)

    def count(self, pod: PodRow, job: str, queue: str, *, is_ours: bool) -> None:
        """Count a pod that came or changed where it is another pool's and holds room there."""
        demand = (tuple(sorted(pod.request.items())), pod.constraints)
        now = (job, queue, demand)
        if is_ours or not (pod.node and ALLOCATED_STATES[pod.state]):
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
        self._revision += 1

    def table(self, rows: RowStore, served: Mapping[str, bool]) -> Amounts | None:
        """Return ``(R, Q)`` for the queues of a store, None if nothing is held beyond quotas.

        The same object while nothing that it rests on has changed.

        Args:
            rows: the store.
            served: the pools that shards serve, with whether each admits all projects.

        """
        if not self._of_queue:
            return None
        sign = (
            rows.shapes.card_mib,
            rows.axis.names,
            self._revision,
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
        for name, counts in self._of_queue.items():
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


_FIX: Final = "give them one list: which counts depends on the queue that a job names"


class Disagreement(NamedTuple):
    """Queues of one project with different lists."""

    project: str
    queues: tuple[str, ...]
    """The first queue by name of each list."""
    text: str
    fix: str = _FIX


def different_lists(queues: Iterable[Queue]) -> list[Disagreement]:
    """Return the projects whose queues have different lists, of their own or from above."""
    projects, leaves = _read(queues)
    lists: dict[str, dict[tuple[str, ...], str]] = {}
    for name in leaves:
        pools = projects.list_of(name)
        if pools is not None:
            lists.setdefault(projects.project_of(name), {}).setdefault(pools, name)
    found = []
    for project, by_list in sorted(lists.items()):
        if len(by_list) > 1:
            said = [f"{name} ({_named(pools)})" for pools, name in by_list.items()]
            text = f"queues of project {project} list different node pools: {', '.join(said)}"
            found.append(Disagreement(project, tuple(by_list.values()), text))
    return found


def lacking_queues(queues: Iterable[Queue], served: Mapping[str, bool]) -> list[tuple[str, str]]:
    """Return (project, pool) where a project has no queue in a pool that its list names.

    Args:
        queues: all of the cluster.
        served: the pools that shards serve, with whether each makes up what is missing.

    """
    projects, leaves = _read(queues)
    found = {
        (projects.project_of(name), pool_name(pool))
        for name in leaves
        for pool in projects.list_of(name) or ()
        if served.get(pool) is False and not projects.queue_in(pool, name)
    }
    return sorted(found)


def _read(queues: Iterable[Queue]) -> tuple[Projects, list[str]]:
    """Return all queues, and the names of those without queues below them."""
    projects, parents, names = Projects(), set(), []
    for queue in queues:
        projects.put(queue)
        parents.add(queue.spec.parent_queue)
        names.append(queue.name)
    return projects, sorted(set(names) - parents)


def _named(pools: Iterable[str]) -> str:
    return ", ".join(map(pool_name, pools))
