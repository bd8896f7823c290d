"""Checks whether a pod may use a claim as things are."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kaisched.core.claims.model import MOST_CONSUMERS
from kaisched.objects.devices import ResourceClaim

if TYPE_CHECKING:
    from kaisched.cluster.pods import PodRow


class Waiting(Exception):  # noqa: N818 - a way out, and no error
    """A claim keeps its pod from every node."""


def check_use(pod: PodRow, claim: ResourceClaim, *, is_own: bool) -> None:
    """Refuse a claim that a pod may not use now; of one that has a node, what it has counts.

    Raises:
        Waiting: it says why.

    """
    if pod.node:
        return
    meta, status = claim.metadata, claim.status
    if is_own and all(it.uid != pod.uid for it in meta.owner_references):
        raise Waiting(f"claim {claim.name} is not the pod's own, as one of a template must be")
    if meta.deletion_timestamp and status.allocation is None:
        raise Waiting(f"claim {claim.name} is being deleted")
    users = status.reserved_for
    if len(users) >= MOST_CONSUMERS and all(it.uid != pod.uid for it in users):
        raise Waiting(f"claim {claim.name} is used by {len(users)} pods, which is the most")
