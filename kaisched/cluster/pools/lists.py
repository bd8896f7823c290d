"""Lists of node pools: what pod groups, owners, pods and queues say of where jobs may go."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kaisched.cluster.derived import queue_of
from kaisched.errors import ObjectError
from kaisched.objects import labels

if TYPE_CHECKING:
    from kaisched.cluster.grouping import Membership
    from kaisched.cluster.pools.projects import Projects
    from kaisched.objects.podgroup import PodGroup
    from kaisched.objects.wire import ObjectMeta

    Said = tuple[tuple[str, ...], str]
    """The pools of a list, and the queue that is named."""


class Lists:
    """Which pools jobs list, and the pod groups that say so."""

    def __init__(self, projects: Projects) -> None:
        """Know no groups yet; the queues are kept current by the caller."""
        self._projects = projects
        self._groups: dict[str, PodGroup] = {}

    def put(self, group: PodGroup) -> bool:
        """Note a pod group; tell whether its list is another than before."""
        before = self._groups.get(group.key)
        self._groups[group.key] = group
        return before is None or self.of_group(before) != self.of_group(group)

    def drop(self, key: str) -> bool:
        """Forget a pod group; tell whether it was known."""
        return self._groups.pop(key, None) is not None

    def group(self, job: str) -> PodGroup | None:
        """Return the pod group of a job; None without one."""
        return self._groups.get(job)

    def of_group(self, group: PodGroup) -> Said | None:
        """Return what a pod group says by itself; None without a list."""
        return self._said((group.metadata,), group.spec.queue)

    def of(self, member: Membership) -> Said | None:
        """Return the pools of a pod's job and the queue that it names; None without a list."""
        group = self._group_of(member)
        if group is None:
            return self._said(member.metas, "")
        return self._said((group.metadata, *member.metas), group.spec.queue)

    def queue_of(self, member: Membership) -> str:
        """Return the queue that a pod's job names."""
        group = self._group_of(member)
        return (group.spec.queue if group is not None else "") or queue_of(member.metas)

    def _group_of(self, member: Membership) -> PodGroup | None:
        return self._groups.get(member.job) if member.is_declared else None

    def _said(self, metas: tuple[ObjectMeta, ...], queue: str) -> Said | None:
        queue = queue or queue_of(metas)
        for meta in metas:
            try:
                pools = labels.node_pools_of(meta)
            except ObjectError:
                return None  # the job has this fault where its labels put it, or see PoolBook
            if pools is not None:
                return pools, queue
        if any(labels.NODE_POOL in meta.labels for meta in metas):
            return None
        pools = self._projects.list_of(queue)
        return None if pools is None else (pools, queue)
