"""Projects: the queues of one project in several node pools, and the lists of pools of queues."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from kaisched.cluster.queues import QueueRow
from kaisched.objects import labels

if TYPE_CHECKING:
    from kaisched.objects.queue import Queue

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
