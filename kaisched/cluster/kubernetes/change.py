"""What reflectors tell, and which of it is worth a cycle at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from kaisched.cluster.kubernetes.resources import Seen
from kaisched.objects.disruption_budget import PodDisruptionBudget
from kaisched.objects.pod import Pod
from kaisched.objects.podgroup import PodGroup
from kaisched.objects.queue import Queue
from kaisched.objects.wire import ObjectMeta


class Change(NamedTuple):
    """An object came or changed, or is gone; then only its identity is known."""

    obj: Seen
    is_gone: bool = False
    is_read: bool = False
    """Read aside of the watch: it may be older than what the watch has told already."""


Tell = Callable[[Change], None]


class ChangeFilter:
    """Knows what was last told of objects, so that repetitions wake nobody."""

    def __init__(self) -> None:
        """Have been told nothing."""
        self._generations: dict[str, tuple[object, ...]] = {}

    def may_matter(self, change: Change) -> bool:
        """Tell whether a change may let something be decided that could not be before.

        A pod on its node frees nothing and asks for nothing. A pending pod asks again when its
        spec changes (the generation tells), not when its status does: that is our own writing. The
        same goes for queues and pod groups.
        """
        pod = change.obj
        if isinstance(pod, Queue | PodGroup):
            key = f"{pod.KIND} {pod.key}"
            if change.is_gone:
                self._generations.pop(key, None)
                return True
            return self._is_new_generation(key, pod.metadata, with_labels=True)
        if not isinstance(pod, Pod):
            return not isinstance(pod, PodDisruptionBudget) or self._allows_more(pod, change)
        meta = pod.metadata
        if change.is_gone:
            self._generations.pop(pod.key, None)
            return True
        if meta.deletion_timestamp or pod.status.phase in {"Succeeded", "Failed"}:
            return True
        return self._is_new_generation(pod.key, meta) and not pod.spec.node_name

    def _allows_more(self, budget: PodDisruptionBudget, change: Change) -> bool:
        """Tell whether a disruption budget protects others than before, or fewer pods."""
        key = f"{budget.KIND} {budget.key}"
        known = self._generations.pop(key, None)
        if change.is_gone:
            return True
        now = self._generations[key] = (budget.spec, budget.status.disruptions_allowed)
        return known is None or known[0] != now[0] or known[1:] < now[1:]

    def _is_new_generation(self, key: str, meta: ObjectMeta, *, with_labels: bool = False) -> bool:
        """Tell whether the spec of an object, or what it is labelled with, is news."""
        now: tuple[object, ...] = (meta.uid, meta.generation)
        if with_labels:
            now = (*now, meta.labels, meta.annotations)
        is_known = self._generations.get(key) == now
        self._generations[key] = now
        return not is_known
