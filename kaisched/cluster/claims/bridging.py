"""Finds the resource that some nodes offer by a device plugin and others by claims.

A cluster is like that while it changes from a device plugin to a driver, node by node. Pods that
ask for such a resource may go to nodes of both kinds: by what a node has they need a claim or not.
There is one such resource at most; any other is asked of device plugins alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Final, NamedTuple

from kaisched.core.claims.model import MOST_RESULTS
from kaisched.core.claims.table import Bridge
from kaisched.objects.requests import IMPLICIT, ResourceAsk

if TYPE_CHECKING:
    from kaisched.cluster.claims.gpus import GpuClasses

_GPU: Final = "gpu"


class Bridging(NamedTuple):
    """A resource that is offered in both ways, and the classes that back it."""

    resource: str = ""
    """As nodes and queues count it; empty for none."""
    classes: frozenset[str] = frozenset()
    """Those of which nodes without the device plugin have devices."""


NONE: Final = Bridging()


def bridging_of(gpus: GpuClasses, backing: Mapping[str, str], names: Iterable[str]) -> Bridging:
    """Return the resource that is offered in both ways: GPUs before others.

    Args:
        gpus: what nodes offer by device plugins, and the devices of classes of GPUs.
        backing: by resource, the class that backs it.
        names: the resources that count as GPUs.

    """
    classes: dict[str, set[str]] = {}
    for resource, name in backing.items():
        if gpus.counts(name):
            classes.setdefault(_GPU if resource in names else resource, set()).add(name)
    for resource in sorted(classes, key=lambda it: (it != _GPU, it)):
        without = gpus.nodes_without(resource)
        if len(without) == len(gpus.nodes):
            continue
        found = frozenset(it for it in classes[resource] if gpus.has_any(it, without))
        if found:
            return Bridging(resource, found)
    return NONE


def bridge_over(gpus: GpuClasses, bridging: Bridging) -> Bridge | None:
    """Return the nodes that offer a resource by claims only; None without such a resource."""
    if not bridging.resource:
        return None
    without = gpus.nodes_without(bridging.resource)
    return Bridge(bridging.resource, frozenset(it for it in without if gpus.of_node[it]))


def classes_of(
    asks: Iterable[ResourceAsk], bridging: Bridging, backing: Mapping[str, str]
) -> dict[str, str]:
    """Return the classes that back what a pod asks for, if nodes of both kinds can serve it.

    They cannot if it asks for GPUs that no such class backs, for more of them than a claim may
    have, or for other devices: then its claim would be another on each kind of node.
    """
    found, number = {}, 0
    for ask in asks:
        if ask.counted_as == bridging.resource:
            name = backing.get(ask.resource, "")
            if name not in bridging.classes:
                return {}
            found[ask.resource] = name
            number += ask.number
        elif ask.resource in backing or ask.resource.startswith(IMPLICIT):
            return {}
    return found if number <= MOST_RESULTS else {}
