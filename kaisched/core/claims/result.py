"""Makes allocations of the devices that were chosen, as they are written into claims."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kaisched.core.claims.model import (
    Allocation,
    Claim,
    Config,
    DeviceClass,
    Result,
    Site,
)
from kaisched.core.constraints import NodeTerm, Requirement


def allocation_of(
    claim: Claim,
    chosen: Sequence[int],
    results: Sequence[Result],
    classes: Mapping[str, DeviceClass],
    site: Site,
) -> Allocation:
    """Return the allocation of a claim.

    Args:
        claim: what it asks for.
        chosen: for each request the alternative that was taken.
        results: its devices, in order.
        classes: the classes by name.
        site: the node for which the devices were chosen.

    """
    asks = [one.options[at] for one, at in zip(claim.requests, chosen, strict=True)]
    names: dict[str, list[str]] = {}
    for ask in asks:
        names.setdefault(ask.class_name, []).append(ask.name)
    of_classes = tuple(
        (tuple(requests), config)
        for name, requests in names.items()
        for config in classes[name].configs
    )
    node, term = _nodes(results, site)
    return Allocation(tuple(results), of_classes, _configs(claim, chosen), node, term)


def _configs(claim: Claim, chosen: Sequence[int]) -> tuple[Config, ...]:
    """Return the settings of a claim, once for each request in use that they name."""
    found = []
    for config in claim.configs:
        if not config.requests:
            found.append(config)
            continue
        for request, at in zip(claim.requests, chosen, strict=True):
            names = (request.name, request.options[at].name)
            found += [config] * any(name in config.requests for name in names)
    return tuple(found)


def _nodes(results: Sequence[Result], site: Site) -> tuple[str, NodeTerm | None]:
    """Return the one node where the devices can be used, or else requirements on nodes."""
    expressions: list[Requirement] = []
    fields: list[Requirement] = []
    for result in results:
        place = result.slice.place or result.device.place
        if result.device.is_bound_to_node or (place is not None and place.node):
            return site.name, None
        if place is not None and place.term is not None:
            expressions += [it for it in place.term[0] if it not in expressions]
            fields += [it for it in place.term[1] if it not in fields]
    if not expressions and not fields:
        return "", None
    return "", (tuple(expressions), tuple(fields))
