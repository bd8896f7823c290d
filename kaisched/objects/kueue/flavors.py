"""Quotas of ClusterQueues and Cohorts by flavor, as those of queues (K4)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from kaisched.objects.kueue.amounts import share_of
from kaisched.objects.kueue.wire import FlavorFungibility, FlavorResource
from kaisched.objects.queue import QueueFlavor, QueueFlavorFungibility, QueueFlavorResource

_STOPS = ("MayStopSearch", "Borrow", "Preempt")
"""The second and third are older names of the first."""


def queue_flavors(
    said: Iterable[tuple[str, str, FlavorResource]], labels: Mapping[str, Mapping[str, str]]
) -> list[QueueFlavor]:
    """Return the flavors of a queue in its order.

    Args:
        said: the name of each flavor, of a resource in our queues, and its quota.
        labels: the node labels of each flavor.

    """
    found: dict[str, dict[str, QueueFlavorResource]] = {}
    for flavor, name, resource in said:
        share = share_of(name, resource)
        found.setdefault(flavor, {})[name] = QueueFlavorResource(
            quota=share.quota,
            borrowing_limit=share.borrowing_limit,
            lending_limit=share.lending_limit,
        )
    return [
        QueueFlavor(name=name, node_labels=dict(labels.get(name, {})), resources=resources)
        for name, resources in found.items()
    ]


def fungibility_of(said: FlavorFungibility) -> QueueFlavorFungibility:
    """Return which flavor a job gets if its first does not fit at once."""
    return QueueFlavorFungibility(
        when_can_borrow="MayStopSearch" if said.when_can_borrow in _STOPS else "TryNextFlavor",
        when_can_preempt="MayStopSearch" if said.when_can_preempt in _STOPS else "TryNextFlavor",
        preference=said.preference,
    )
