"""A job with a list of node pools, as one shard knows it."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kaisched.core.axis import TaskState
from kaisched.errors import ObjectError
from kaisched.objects import labels

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from kaisched.cluster.grouping import Membership
    from kaisched.cluster.translate import PodRow
    from kaisched.objects.wire import ObjectMeta

Known = tuple["PodRow", "Membership"]
"""A pod and the job that it is in."""


@dataclass(slots=True)
class Listed:
    """A job with a list of pools."""

    pools: tuple[str, ...]
    """Label values, the pool to try first in front."""
    queue: str
    """The queue that it names, of whatever pool."""
    speaker: str
    """The first of its pods by name, whose word counts where pods differ."""
    pods: dict[str, Known] = field(default_factory=dict)
    is_by_place: bool = False
    """It says nothing of pools, and pods of it are on nodes of one."""

    def hear(self, pod: str, pools: tuple[str, ...], queue: str) -> bool:
        """Take the word of a pod if it is the speaker or before it; tell whether it is news."""
        if pod > self.speaker:
            return False
        before = (self.pools, self.queue)
        self.pools, self.queue, self.speaker = pools, queue, pod
        return before != (pools, queue)

    def home(self, pool_of_node: Mapping[str, str]) -> str | None:
        """Return the pool with most bound pods of the job, or else of those that have succeeded."""
        placed = [pod for pod, _ in self.pods.values() if pod.node]
        bound = [pod.node for pod in placed if pod.state != TaskState.GONE]
        nodes = bound or [pod.node for pod in placed if pod.has_succeeded]
        counts = Counter(pool_of_node[it] for it in nodes if it in pool_of_node)
        if not counts:
            return None
        order = {pool: at for at, pool in enumerate(self.pools)}
        return min(counts, key=lambda it: (-counts[it], order.get(it, len(order)), it))

    def fault(self, served: Collection[str]) -> str:
        """Return what is wrong with the list where none of its pools is served; else nothing."""
        if any(pool in served for pool in self.pools):
            return ""
        names = ", ".join(map(labels.pool_name, self.pools))
        there = ", ".join(sorted(map(labels.pool_name, served)))
        return f"no shard serves a node pool of its list ({names}); there are: {there}"


def is_lost(metas: Sequence[ObjectMeta]) -> bool:
    """Tell whether a job has a list with a fault, and no label that puts it into a pool."""
    try:
        any(labels.node_pools_of(meta) is not None for meta in metas)  # the first one counts
    except ObjectError:
        return not any(labels.NODE_POOL in meta.labels for meta in metas)
    return False


def sign_of(pod: PodRow) -> tuple[object, ...]:
    """Return what of a pod says whose its job is."""
    return pod.state, pod.node, pod.mark
