"""Changes that reflectors report, and the filter for those that start a cycle at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from kaisched.cluster.kubernetes.resources import Seen
from kaisched.objects.devices import ResourceClaim
from kaisched.objects.pod import Pod, PodDisruptionBudget
from kaisched.objects.podgroup import PodGroup
from kaisched.objects.queue import Queue
from kaisched.objects.wire import ObjectMeta


class Change(NamedTuple):
    """A new or changed object, or one that is gone, of which only the identity is known."""

    obj: Seen
    is_gone: bool = False
    is_read: bool = False
    """From a read outside the watch: it may be older than the last event of the watch."""


Tell = Callable[[Change], None]


class ChangeFilter:
    """Remembers the last change of each object, so that repetitions do not wake the loop."""

    def __init__(self) -> None:
        """Begin without changes."""
        self._generations: dict[str, tuple[object, ...]] = {}

    def may_matter(self, change: Change) -> bool:
        """Tell whether a change may lead to a new decision.

        A pod on its node frees nothing and asks for nothing. A change of a pending pod's spec
        counts (by its generation), a change of its status does not: that is our own write. The same
        is true for queues and pod groups. But the status also names the claims that were made for
        a pod.
        """
        pod = change.obj
        if isinstance(pod, Queue | PodGroup):
            key = f"{pod.KIND} {pod.key}"
            if change.is_gone:
                self._generations.pop(key, None)
                return True
            return self._is_new_generation(key, pod.metadata, with_labels=True)
        if not isinstance(pod, Pod):
            return self._of_other(change)
        meta = pod.metadata
        if change.is_gone:
            self._generations.pop(pod.key, None)
            return True
        if meta.deletion_timestamp or pod.status.phase in {"Succeeded", "Failed"}:
            return True
        claims = [it.resource_claim_name for it in pod.status.resource_claim_statuses]
        return self._is_new_generation(pod.key, meta, *claims) and not pod.spec.node_name

    def _of_other(self, change: Change) -> bool:
        match change.obj:
            case PodDisruptionBudget():
                return self._allows_more(change.obj, change)
            case ResourceClaim():
                return self._frees_devices(change.obj, change)
            case _:
                return True

    def _allows_more(self, budget: PodDisruptionBudget, change: Change) -> bool:
        """Tell whether a disruption budget protects other pods than before, or fewer."""
        key = f"{budget.KIND} {budget.key}"
        known = self._generations.pop(key, None)
        if change.is_gone:
            return True
        now = self._generations[key] = (budget.spec, budget.status.disruptions_allowed)
        return known is None or known[0] != now[0] or known[1:] < now[1:]

    def _frees_devices(self, claim: ResourceClaim, change: Change) -> bool:
        """Tell whether a claim is new, or has its devices no more; what it gets, we write."""
        key = f"{claim.KIND} {claim.key}"
        known = self._generations.pop(key, None)
        if change.is_gone:
            return True
        now = self._generations[key] = (claim.metadata.uid, claim.status.allocation is None)
        return known is None or (known != now and now[1])

    def _is_new_generation(
        self, key: str, meta: ObjectMeta, *more: object, with_labels: bool = False
    ) -> bool:
        """Tell whether the spec of an object, or its labels and annotations, have changed."""
        now: tuple[object, ...] = (meta.uid, meta.generation, *more)
        if with_labels:
            now = (*now, meta.labels, meta.annotations)
        is_known = self._generations.get(key) == now
        self._generations[key] = now
        return not is_known
