"""Turns slices, classes and claims of the API into the values that are decided by."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Final

import msgspec

from kaisched.core.claims import model
from kaisched.core.claims.cel import CelSelector
from kaisched.core.claims.cel_values import amount_of
from kaisched.core.constraints import NodeTerm, Requirement
from kaisched.objects.devices import (
    ALL_DEVICES,
    ClaimConfig,
    Device,
    DeviceAttribute,
    DeviceCapacity,
    DeviceClass,
    DeviceConfig,
    DeviceConstraint,
    DeviceRequest,
    DeviceSelector,
    DeviceTaintRule,
    ExactRequest,
    RequestPolicy,
    ResourceClaimSpec,
    ResourceSlice,
)
from kaisched.objects.pod import NodeSelector, SelectorRequirement
from kaisched.objects.wire import Amount

_NO_SELECTOR: Final = ""
"""A selector of a kind that is not known yet: its expression is empty, and is refused."""


# -- slices ------------------------------------------------------------------------------------


def slice_of(one: ResourceSlice) -> model.Slice:
    """Return a slice with its devices.

    Raises:
        ClaimError: an amount in it is none.

    """
    spec = one.spec
    place = None
    if not spec.per_device_node_selection:
        place = _place(spec.node_name, spec.node_selector, is_everywhere=spec.all_nodes)
    return model.Slice(
        name=one.name,
        driver=spec.driver,
        pool=spec.pool.name,
        generation=spec.pool.generation,
        slices=spec.pool.resource_slice_count,
        place=place,
        devices=tuple(
            _device(one, it, has_place=spec.per_device_node_selection) for it in spec.devices
        ),
        counters=tuple(
            (of.name, name, amount_of(str(counter.value)).nanos)
            for of in spec.shared_counters
            for name, counter in of.counters.items()
        ),
        counter_sets=tuple(of.name for of in spec.shared_counters),
    )


def _device(of: ResourceSlice, one: Device, *, has_place: bool) -> model.Device:
    place = _place(one.node_name, one.node_selector, is_everywhere=one.all_nodes)
    return model.Device(
        driver=of.spec.driver,
        pool=of.spec.pool.name,
        name=one.name,
        attributes={name: _value(it) for name, it in one.attributes.items()},
        capacities={name: _capacity(it) for name, it in one.capacity.items()},
        counters=tuple(
            (it.counter_set, name, amount_of(str(counter.value)).nanos)
            for it in one.consumes_counters
            for name, counter in it.counters.items()
        ),
        taints=tuple(model.Taint(it.key, it.value, it.effect) for it in one.taints),
        place=place if has_place else None,
        is_bound_to_node=one.binds_to_node,
        conditions=tuple(one.binding_conditions),
        failures=tuple(one.binding_failure_conditions),
        is_shared=one.allow_multiple_allocations,
    )


def _value(one: DeviceAttribute) -> model.Value:
    for kind in ("int", "bool", "string", "version"):
        value = getattr(one, f"{kind}_value")
        if value is not None:
            return model.Value(kind, value)
    return model.Value("unknown", None)


def _capacity(one: DeviceCapacity) -> model.Capacity:
    policy = one.request_policy
    return model.Capacity(quantity_of(one.value), None if policy is None else _policy(policy))


def _policy(one: RequestPolicy) -> model.Policy:
    bounds = one.valid_range
    step = None if bounds is None else _optional(bounds.step)
    return model.Policy(
        default=_optional(one.default),
        values=tuple(quantity_of(it) for it in one.valid_values),
        least=None if bounds is None else _optional(bounds.min),
        most=None if bounds is None else _optional(bounds.max),
        step=None if step is None or step.nanos <= 0 else step,
        has_range=bounds is not None,
    )


def _optional(amount: Amount | None) -> model.Quantity | None:
    return None if amount is None else quantity_of(amount)


def quantity_of(amount: Amount) -> model.Quantity:
    """Return an amount and how it is written."""
    text = str(amount)
    # The E of "5E" and "5Ei" is a suffix, and no exponent.
    letters = [it for it in text if it in "eE"] if text[-1:].isdecimal() else []
    return model.Quantity(amount_of(text).nanos, text.endswith("i"), "".join(letters))


def _place(node: str, selector: NodeSelector | None, *, is_everywhere: bool) -> model.Place:
    terms = () if selector is None else selector.node_selector_terms
    # The API has exactly one term here; if a later version has more, no node matches.
    term = node_term(selector) if selector is not None and len(terms) == 1 else None
    return model.Place(node, is_everywhere, term)


def node_term(selector: NodeSelector) -> NodeTerm:
    """Return the first term of a selector, in the order in which it is written."""
    term = selector.node_selector_terms[0]
    return _requirements(term.match_expressions), _requirements(term.match_fields)


def _requirements(listed: Iterable[SelectorRequirement]) -> tuple[Requirement, ...]:
    return tuple(Requirement(it.key, it.operator, tuple(it.values)) for it in listed)


def tainted(slices: Iterable[model.Slice], rules: Iterable[DeviceTaintRule]) -> list[model.Slice]:
    """Return slices whose devices have the taints of rules besides their own."""
    listed = [it for it in rules if it.spec.device_selector is not None]
    if not listed:
        return list(slices)
    return [
        replace(one, devices=tuple(_tainted(it, listed) for it in one.devices)) for one in slices
    ]


def _tainted(device: model.Device, rules: Iterable[DeviceTaintRule]) -> model.Device:
    more = tuple(
        model.Taint(it.spec.taint.key, it.spec.taint.value, it.spec.taint.effect)
        for it in rules
        if _selects(it, device)
    )
    return replace(device, taints=(*device.taints, *more)) if more else device


def _selects(rule: DeviceTaintRule, device: model.Device) -> bool:
    wanted = rule.spec.device_selector
    return wanted is not None and all(
        not text or text == has
        for text, has in (
            (wanted.driver, device.driver),
            (wanted.pool, device.pool),
            (wanted.device, device.name),
        )
    )


# -- classes and claims ------------------------------------------------------------------------


def class_of(one: DeviceClass) -> model.DeviceClass:
    """Return a class with its selectors."""
    return model.DeviceClass(
        one.name,
        tuple(CelSelector(it) for it in _expressions(one.spec.selectors)),
        tuple(_opaque(it) for it in one.spec.config),
    )


def claim_of(spec: ResourceClaimSpec) -> model.Claim:
    """Return what a claim asks for.

    Raises:
        ClaimError: an amount in it is none, or a request is of a kind that is not known.

    """
    devices = spec.devices
    return model.Claim(
        tuple(_request(it) for it in devices.requests),
        tuple(_constraint(it) for it in devices.constraints),
        tuple(model.Config(tuple(it.requests), _opaque(it)) for it in devices.config),
    )


def texts_of(claim: model.Claim) -> set[str]:
    """Return the expressions in a claim."""
    return {text for it in claim.requests for ask in it.options for text in ask.selectors}


def _request(one: DeviceRequest) -> model.Request:
    if one.exactly is not None:
        return model.Request(one.name, (_ask(one.name, one.exactly),))
    if not one.first_available:
        raise model.ClaimError(f"request {one.name} is of a kind that is not known")
    options = tuple(_ask(f"{one.name}/{it.name}", it) for it in one.first_available)
    return model.Request(one.name, options, is_choice=True)


def _ask(name: str, one: ExactRequest) -> model.Ask:
    if one.allocation_mode not in ("", "ExactCount", ALL_DEVICES):
        raise model.ClaimError(f"request {name}: no such allocationMode: {one.allocation_mode}")
    return model.Ask(
        name,
        one.device_class_name,
        tuple(_expressions(one.selectors)),
        model.ALL if one.allocation_mode == ALL_DEVICES else max(one.count, 1),
        one.admin_access,
        tuple(
            model.Toleration(it.key, it.operator, it.value, it.effect, it.toleration_seconds)
            for it in one.tolerations
        ),
        tuple((key, quantity_of(it)) for key, it in sorted(one.capacity.requests.items())),
    )


def _constraint(one: DeviceConstraint) -> model.Constraint:
    if not one.match_attribute and not one.distinct_attribute:
        raise model.ClaimError("a constraint of the claim is of a kind that is not known")
    is_distinct = not one.match_attribute
    name = one.distinct_attribute if is_distinct else one.match_attribute
    return model.Constraint(tuple(one.requests), name, is_distinct)


def _expressions(selectors: Sequence[DeviceSelector]) -> list[str]:
    return [_NO_SELECTOR if it.cel is None else it.cel.expression for it in selectors]


def _opaque(one: DeviceConfig | ClaimConfig) -> bytes:
    return msgspec.json.encode(one.opaque)
