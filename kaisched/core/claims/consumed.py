"""Counts what requests take of the capacities of devices that several claims share."""

from __future__ import annotations

from collections.abc import Mapping

from kaisched.core.claims.model import NANOS, Ask, Capacity, Device, Policy, Quantity


def consumed_by(ask: Ask, device: Device) -> dict[str, Quantity] | None:
    """Return what a request takes of each capacity of a device; None if it cannot be asked for."""
    asked = dict(ask.capacity)
    if not asked.keys() <= device.capacities.keys():
        return None
    taken = {}
    for name, capacity in device.capacities.items():
        amount = _rounded(asked.get(name), capacity)
        if capacity.policy is not None and not _is_allowed(amount, capacity.policy):
            return None
        taken[name] = amount
    return taken


def fits(taken: Mapping[str, Quantity], device: Device, before: Mapping[str, int]) -> bool:
    """Tell whether a device has so much left, after what other claims have of it."""
    return all(
        amount.nanos + before.get(name, 0) <= device.capacities[name].value.nanos
        for name, amount in taken.items()
    )


def _rounded(asked: Quantity | None, capacity: Capacity) -> Quantity:
    """Return the amount that is taken: rounded up to one that the device gives."""
    policy = capacity.policy
    if asked is None:
        default = None if policy is None else policy.default
        return capacity.value if default is None else default
    if policy is None:
        return asked
    if policy.least is not None:
        if asked.nanos < policy.least.nanos:
            return policy.least
        if policy.step is None:
            return asked
        least, step = _whole(policy.least), _whole(policy.step)
        steps = -(-(_whole(asked) - least) // step)
        return Quantity((least + steps * step) * NANOS, is_binary=True)
    return next((it for it in policy.values if asked.nanos <= it.nanos), asked)


def _whole(amount: Quantity) -> int:
    return -(-amount.nanos // NANOS)


def _is_allowed(amount: Quantity, policy: Policy) -> bool:
    if policy.default is not None and amount.nanos == policy.default.nanos:
        return True
    if policy.has_range:
        if policy.most is not None and amount.nanos > policy.most.nanos:
            return False
        if policy.step is None or policy.least is None:
            return True
        return (_whole(amount) - _whole(policy.least)) % _whole(policy.step) == 0
    return not policy.values or any(it.nanos == amount.nanos for it in policy.values)
