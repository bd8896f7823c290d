"""Turns allocations into the status of claims, and reads what other claims have from there."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

import msgspec

from kaisched.cluster.claims.reading import node_term
from kaisched.core.claims import model
from kaisched.core.claims.cel_values import amount_of
from kaisched.core.claims.table import Holdings, Portion
from kaisched.core.constraints import Requirement
from kaisched.objects.devices import (
    AllocatedConfig,
    AllocatedDevices,
    ClaimAllocation,
    DeviceResult,
    DeviceToleration,
    OpaqueConfig,
    ResourceClaim,
)
from kaisched.objects.pod import NodeSelector, NodeSelectorTerm, SelectorRequirement

_FROM_CLASS: Final = "FromClass"
_FROM_CLAIM: Final = "FromClaim"
_NAME: Final = "metadata.name"
_DECIMAL: Final = "", "k", "M", "G", "T", "P", "E"
_SMALL: Final = "n", "u", "m"
_BINARY: Final = "", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"


def written(allocation: model.Allocation, new_share: Callable[[], str]) -> ClaimAllocation:
    """Return an allocation as it stands in the status of its claim.

    Args:
        allocation: what the claim gets.
        new_share: gives a new UUID for each part of a shared device.

    """
    configs = [
        AllocatedConfig(source=_FROM_CLASS, requests=list(requests), opaque=_opaque(data))
        for requests, data in allocation.class_configs
    ]
    configs += [
        AllocatedConfig(source=_FROM_CLAIM, requests=list(it.requests), opaque=_opaque(it.opaque))
        for it in allocation.claim_configs
    ]
    results = [_result(it, new_share) for it in allocation.results]
    return ClaimAllocation(
        devices=AllocatedDevices(results=results, config=configs),
        node_selector=_selector(allocation),
    )


def _result(one: model.Result, new_share: Callable[[], str]) -> DeviceResult:
    device, ask = one.device, one.ask
    return DeviceResult(
        request=ask.name,
        driver=device.driver,
        pool=device.pool,
        device=device.name,
        admin_access=ask.is_admin or None,
        tolerations=[
            DeviceToleration(
                key=it.key,
                operator=it.operator,
                value=it.value,
                effect=it.effect,
                toleration_seconds=it.seconds,
            )
            for it in ask.tolerations
        ],
        binding_conditions=list(device.conditions),
        binding_failure_conditions=list(device.failures),
        share_id="" if one.consumed is None else new_share(),
        consumed_capacity={name: quantity_text(it) for name, it in one.consumed or ()},
    )


def _selector(allocation: model.Allocation) -> NodeSelector | None:
    if allocation.node:
        fields: tuple[Requirement, ...] = (Requirement(_NAME, "In", (allocation.node,)),)
        return _one_term((), fields)
    return None if allocation.term is None else _one_term(*allocation.term)


def _one_term(
    expressions: tuple[Requirement, ...], fields: tuple[Requirement, ...]
) -> NodeSelector:
    term = NodeSelectorTerm(match_expressions=_listed(expressions), match_fields=_listed(fields))
    return NodeSelector(node_selector_terms=[term])


def _listed(requirements: tuple[Requirement, ...]) -> list[SelectorRequirement]:
    return [
        SelectorRequirement(key=it.key, operator=it.operator, values=list(it.values))
        for it in requirements
    ]


def _opaque(data: bytes) -> OpaqueConfig | None:
    return msgspec.json.decode(data, type=OpaqueConfig | None)


def quantity_text(amount: model.Quantity) -> str:
    """Return an amount as an API server writes it: the shortest number with a suffix.

    Whole multiples of 1024 are all that stays binary: other numbers have no binary suffix, and a
    server reads what has none as decimal. An exponent stays one, and is a multiple of 3.
    """
    nanos = amount.nanos
    if amount.is_binary and nanos >= 1024 * model.NANOS and nanos % (1024 * model.NANOS) == 0:
        number = nanos // model.NANOS
        power = 0
        while number % 1024 == 0 and power < len(_BINARY) - 1:
            number, power = number // 1024, power + 1
        return f"{number}{_BINARY[power]}"
    suffixes = (*_SMALL, *_DECIMAL)
    power = 0
    while nanos and nanos % 1000 == 0 and power < len(suffixes) - 1:
        nanos, power = nanos // 1000, power + 1
    if not nanos:
        return "0"
    exponent = 3 * (power - len(_SMALL))
    if amount.exponent and exponent:
        return f"{nanos}{amount.exponent}{exponent}"
    return f"{nanos}{suffixes[power]}"


def place_of(allocation: ClaimAllocation) -> model.Place:
    """Return the nodes where what a claim has can be used."""
    selector = allocation.node_selector
    if selector is None or not selector.node_selector_terms:
        return model.Place(is_everywhere=True)
    return model.Place(term=node_term(selector))


def taken_portions(allocation: ClaimAllocation) -> tuple[Portion, ...]:
    """Return what a claim takes of devices; access for administrators takes nothing."""
    return tuple(
        (
            (it.driver, it.pool, it.device),
            None if (consumed := consumed_in(it)) is None else tuple(consumed.items()),
        )
        for it in allocation.devices.results
        if not it.admin_access
    )


def consumed_in(result: DeviceResult) -> dict[str, int] | None:
    """Return what a claim has of a shared device, in billionths; None for a device of its own.

    One of which it does not properly say how much it has counts as its own: more it cannot be.
    """
    if not result.share_id:
        return None
    amounts = result.consumed_capacity.items()
    try:
        found = {name: amount_of(str(amount)).nanos for name, amount in amounts}
    except model.ClaimError:
        return None
    return found if min(found.values(), default=0) >= 0 else None


def taken_by(claims: Iterable[ResourceClaim]) -> model.Taken:
    """Return what claims have of devices."""
    holdings = Holdings()
    for claim in claims:
        if claim.status.allocation is not None:
            holdings.add(taken_portions(claim.status.allocation))
    return holdings.taken
