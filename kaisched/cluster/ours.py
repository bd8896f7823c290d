"""Which objects are a store's own, by scheduler name and node pool."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from kaisched.objects import labels

if TYPE_CHECKING:
    from kaisched.objects.pod import Pod
    from kaisched.objects.wire import ObjectMeta

OUR_SCHEDULERS: Final = frozenset({"kaisched"})


@dataclass(frozen=True, slots=True)
class Ours:
    """Tells ours from others'; never changes, so any thread may ask."""

    schedulers: frozenset[str]
    """The scheduler names whose pods are ours to place."""
    node_pool: str
    """Value of the label of nodes, queues, pod groups and pods; empty for those without it."""
    gpu_resources: tuple[str, ...]
    """Resource names that count as whole GPUs."""

    def has(self, meta: ObjectMeta) -> bool:
        """Tell whether an object is of our node pool."""
        return labels.node_pool_of(meta) == self.node_pool

    def may_place(self, pod: Pod) -> bool:
        """Tell whether a pod is one that we place, or have placed."""
        return pod.spec.scheduler_name in self.schedulers and self.has(pod.metadata)
