"""Quotas of a queue by flavor, in base units."""

from __future__ import annotations

from kaisched.core.tables import Flavor, FlavorQuota
from kaisched.objects.faults import Source, to_error
from kaisched.objects.queue import Queue, base_units, flavor_faults
from kaisched.units import UNLIMITED


def queue_flavors(queue: Queue) -> tuple[Flavor, ...]:
    """Return the flavors of a queue, in its order.

    Raises:
        ObjectError: the first fault of the flavors, with its path.

    """
    fault = next((it for it in flavor_faults(queue) if not it.is_warning), None)
    if fault is not None:
        raise to_error(fault, Source(), queue.KIND, queue.name)
    return tuple(
        Flavor(
            flavor.name,
            tuple(
                FlavorQuota(
                    name,
                    base_units(name, resource.quota),
                    base_units(name, resource.borrowing_limit),
                    base_units(name, resource.lending_limit),
                )
                for name, resource in flavor.resources.items()
            ),
            tuple(sorted(flavor.node_labels.items())),
        )
        for flavor in queue.spec.flavors
    )


def flavored_quota(flavors: tuple[Flavor, ...]) -> dict[str, int]:
    """Return the quota of each resource in all flavors together."""
    total: dict[str, int] = {}
    for flavor in flavors:
        for it in flavor.quotas:
            total[it.resource] = min(total.get(it.resource, 0) + it.quota, UNLIMITED)
    return total
