"""Totals of projects over node pools: the queues of a project in each pool, and their sum.

Which queues are of one project is said by rule L3 of docs/explanation/node-pools.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from kaisched.framework.report.records import QueueShare
from kaisched.objects.labels import QUEUE_PROJECT, pool_name
from kaisched.view.plan_document import queue_document

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from kaisched.view.live import LiveView

_AMOUNTS: Final = ("fairShare", "allocated", "requested", "deserved")
_LABEL, _NAME_WITH_POOL, _NAME = range(3)
"""By what a queue is that of its project in a pool: the first that there is counts."""


class PoolQueues(NamedTuple):
    """The queues of one node pool after a cycle of its shard."""

    shard: str
    pool: str
    """Label value of the pool; empty for the pool of objects without the label."""
    shares: Sequence[QueueShare]
    labels: Sequence[Mapping[str, str]]
    """Of each queue, in the order of ``shares``."""


class Projects:
    """The projects that have queues in several of these pools."""

    def __init__(self, pools: Iterable[PoolQueues]) -> None:
        """Find the queue of each project in each pool."""
        self._pools = list(pools)
        self._rows: dict[str, dict[int, int]] = {}
        """By project and pool, the row of its queue there."""
        self._project_of: dict[tuple[str, str], str] = {}
        """By shard and queue; only the queues that count."""
        for at, pool in enumerate(self._pools):
            self._find(at, pool)

    def _find(self, at: int, pool: PoolQueues) -> None:
        found: dict[str, tuple[int, str, int]] = {}
        for row, (share, labels) in enumerate(zip(pool.shares, pool.labels, strict=True)):
            project, how = _project(share.name, labels, pool.pool)
            one = (how, share.name, row)
            found[project] = min(found.get(project, one), one)
        for project, (_, name, row) in found.items():
            self._rows.setdefault(project, {})[at] = row
            self._project_of[pool.shard, name] = project

    def document(self, shard: str, queue: str) -> dict[str, Any] | None:
        """Return the sums of a queue's project, and its part in each pool.

        None where the project has a queue in one pool only.
        """
        project = self._project_of.get((shard, queue), "")
        rows = self._rows.get(project, {})
        if len(rows) < 2:  # noqa: PLR2004 - several
            return None
        parts = [(self._pools[at], self._pools[at].shares[row]) for at, row in rows.items()]
        return {
            "name": project,
            **_amounts_of(queue_document(_sum(project, [share for _, share in parts]))),
            "pools": [
                {
                    "nodePool": pool_name(pool.pool),
                    "shard": pool.shard,
                    "queue": share.name,
                    **_amounts_of(queue_document(share)),
                }
                for pool, share in parts
            ],
        }


def _project(queue: str, labels: Mapping[str, str], pool: str) -> tuple[str, int]:
    """Return the project of a queue, and by what it is known."""
    if project := labels.get(QUEUE_PROJECT):
        return project, _LABEL
    ending = f"-{pool_name(pool)}"
    if queue.endswith(ending) and queue != ending:
        return queue.removesuffix(ending), _NAME_WITH_POOL
    return queue, _NAME


def _sum(project: str, shares: Sequence[QueueShare]) -> QueueShare:
    """Return the sums; what is unlimited in one pool is unlimited in all."""
    return QueueShare(
        project,
        None,
        _added([share.fair_share for share in shares]),
        _added([share.allocated for share in shares]),
        _added([share.requested for share in shares]),
        _added([share.deserved for share in shares]),
    )


def _added(columns: Sequence[Mapping[str, int]]) -> dict[str, int]:
    total: dict[str, int] = {}
    for column in columns:
        for name, amount in column.items():
            before = total.get(name, 0)
            total[name] = -1 if -1 in {amount, before} else before + amount
    return total


def _amounts_of(document: Mapping[str, Any]) -> dict[str, Any]:
    return {key: document[key] for key in _AMOUNTS}


def projects_of(views: Iterable[tuple[str, LiveView | None]]) -> Projects | None:
    """Return the projects of the pools whose views are there; None for those of one alone."""
    found = [(pool, view) for pool, view in views if view is not None]
    if len(found) == 1:
        return None
    return Projects(
        PoolQueues(it.shard, pool, it.shares, it.snapshot.queues.labels) for pool, it in found
    )
