"""Quotas of a queue by flavor: checks of them."""

from __future__ import annotations

from collections.abc import Iterator

from kaisched.objects.faults import Fault, Path
from kaisched.objects.queue import Queue
from kaisched.objects.quotas import PODS, amount_faults, name_faults, queue_faults


def all_queue_faults(queue: Queue) -> Iterator[Fault]:
    """Yield the faults of a queue on its own, those of its flavors included."""
    yield from queue_faults(queue)
    yield from flavor_faults(queue)


def flavor_faults(queue: Queue) -> Iterator[Fault]:
    """Yield the faults of a queue's flavors."""
    seen: set[str] = set()
    for number, flavor in enumerate(queue.spec.flavors):
        path: Path = ("spec", "flavors", number)
        if not flavor.name:
            yield Fault((*path, "name"), "empty", fix="name the flavor")
        if flavor.name in seen:
            yield Fault((*path, "name"), "a flavor is given twice", flavor.name, "drop one of them")
        seen.add(flavor.name)
        if not flavor.resources:
            fix = "write the quota of at least one resource"
            yield Fault((*path, "resources"), "empty", fix=fix)
        for name, resource in flavor.resources.items():
            where = (*path, "resources", name)
            yield from name_faults(where, name)
            amounts = {
                "quota": resource.quota,
                "borrowingLimit": resource.borrowing_limit,
                "lendingLimit": resource.lending_limit,
            }
            yield from amount_faults(where, name, amounts)
            plain = queue.spec.resources.get(name)
            if plain is not None and plain.quota != 0 and name != PODS:
                yield Fault(
                    ("spec", "resources", name, "quota"),
                    "not counted beside quotas by flavor",
                    plain.quota,
                    "leave it out; the quotas in flavors are added up",
                    is_warning=True,
                )
