"""Turns slices, classes and claims of the API into values, and allocations into objects."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Final

import msgspec

from kaisched.core.claims import model
from kaisched.core.claims import selectors as cel
from kaisched.core.claims.model import nanos_of
from kaisched.core.claims.table import Holdings, Portion
from kaisched.core.constraints import NodeTerm, Requirement
from kaisched.objects.devices import (
    ALL_DEVICES,
    AllocatedConfig,
    AllocatedDevices,
    ClaimAllocation,
    ClaimConfig,
    Device,
    DeviceAttribute,
    DeviceCapacity,
    DeviceClass,
    DeviceConfig,
    DeviceConstraint,
    DeviceRequest,
    DeviceResult,
    DeviceSelector,
    DeviceTaintRule,
    DeviceToleration,
    ExactRequest,
    OpaqueConfig,
    RequestPolicy,
    ResourceClaim,
    ResourceClaimSpec,
    ResourceSlice,
)
from kaisched.objects.pod import NodeSelector, NodeSelectorTerm, SelectorRequirement
from kaisched.objects.wire import Amount

# -- from objects ----------------------------------------------------------------------------------

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
            (of.name, name, nanos_of(str(counter.value)))
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
            (it.counter_set, name, nanos_of(str(counter.value)))
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
    return model.Quantity(nanos_of(text), text.endswith("i"), "".join(letters))


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


def class_of(one: DeviceClass) -> cel.DeviceClass:
    """Return a class with its selectors."""
    return cel.DeviceClass(
        one.name,
        tuple(cel.CelSelector(it) for it in _expressions(one.spec.selectors)),
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


# -- to objects ------------------------------------------------------------------------------------

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
        AllocatedConfig(source=_FROM_CLASS, requests=list(requests), opaque=_opaque_config(data))
        for requests, data in allocation.class_configs
    ]
    configs += [
        AllocatedConfig(
            source=_FROM_CLAIM, requests=list(it.requests), opaque=_opaque_config(it.opaque)
        )
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


def _opaque_config(data: bytes) -> OpaqueConfig | None:
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
        found = {name: nanos_of(str(amount)) for name, amount in amounts}
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


# -- specs -----------------------------------------------------------------------------------------

_NOTHING: Final = model.Claim(())


class Specs:
    """The different things that claims ask for, and the expressions in them."""

    def __init__(self, classes: Mapping[str, cel.DeviceClass]) -> None:
        """Know none; ``classes`` are those that there are, by name."""
        self._classes = classes
        self._specs: list[model.Claim] = []
        self._number: dict[model.Claim, int] = {}
        self._selectors: dict[str, cel.CelSelector] = {}

    def __getitem__(self, number: int) -> model.Claim:
        """Return what has a number."""
        return self._specs[number]

    @property
    def all(self) -> tuple[model.Claim, ...]:
        """All of them, by number."""
        return tuple(self._specs)

    @property
    def selectors(self) -> Mapping[str, cel.CelSelector]:
        """The expressions, by text."""
        return MappingProxyType(dict(self._selectors))

    def selector(self, text: str) -> cel.CelSelector:
        """Return the expression with a text."""
        return self._selectors[text]

    def number_of(self, claim: ResourceClaim, *, is_allocated: bool) -> int:
        """Return the number of what a claim asks for; check what can be known beforehand.

        Raises:
            ClaimError: it cannot be allocated as things are.

        """
        spec = claim_of(claim.spec)
        for text in texts_of(spec):
            if text not in self._selectors:
                self._selectors[text] = cel.CelSelector(text)
        if not is_allocated:
            self._check(spec)
        number = self._number.get(spec)
        if number is None:
            number = self._number[spec] = len(self._specs)
            self._specs.append(spec)
        return number

    def keep(self, numbers: Container[int]) -> None:
        """Keep only what has one of these numbers; no number is given twice."""
        for spec, number in list(self._number.items()):
            if number not in numbers:
                del self._number[spec]
                self._specs[number] = _NOTHING

    def _check(self, spec: model.Claim) -> None:
        least = sum(min(max(it.count, 1) for it in each.options) for each in spec.requests)
        if least > model.MOST_RESULTS:
            raise model.ClaimError(f"{least} devices are more than {model.MOST_RESULTS}, the most")
        for ask in (it for request in spec.requests for it in request.options):
            of_class = self._classes.get(ask.class_name)
            if of_class is None:
                raise model.ClaimError(f"device class {ask.class_name} does not exist")
            for selector in (*of_class.selectors, *(self._selectors[it] for it in ask.selectors)):
                if selector.fault:
                    raise model.ClaimError(selector.fault)
