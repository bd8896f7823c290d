"""Amounts of Kueue as those of our queues, exactly."""

from __future__ import annotations

from collections.abc import Container
from typing import Final

from kaisched.objects.kueue.wire import FlavorResource
from kaisched.objects.queue import QueueResource
from kaisched.objects.shard import GPU_RESOURCES
from kaisched.units import MAX_QUOTA, MEGABYTE, MEMORY_UNIT, Amount, is_in_bytes, parse_quantity

_MOST: Final = MAX_QUOTA - 1
_SHARED: Final = ("cpu", "memory", "ephemeral-storage")
NO_ROOM: Final = QueueResource(quota=0, limit=0)


def our_name(resource: str, gpu_resources: Container[str]) -> str:
    """Return the name in our queues; empty for a resource that they do not share out."""
    if resource in gpu_resources:
        return "gpu"
    if resource in GPU_RESOURCES:
        return ""
    return resource if resource in _SHARED or is_in_bytes(resource) or "/" in resource else ""


def share_of(name: str, said: FlavorResource) -> QueueResource:
    """Return the quota and the limits of one resource; their syntax was checked."""
    return QueueResource(
        quota=amount_of(name, said.nominal_quota),
        borrowing_limit=_limit(name, said.borrowing_limit),
        lending_limit=_limit(name, said.lending_limit),
    )


def amount_of(name: str, amount: Amount) -> int | float:
    """Return an amount as Kueue counts it: milli-CPU, bytes, pieces, each rounded up.

    Memory is rounded down to our base unit of 64 bytes; amounts saturate as those of queues do.
    """
    quantity = parse_quantity(amount)
    exact, per = quantity.numerator, quantity.denominator
    if name == "cpu":
        return min(-(-exact * 1000 // per), _MOST)
    whole = -(-exact // per)
    if name == "gpu":
        return min(whole, _MOST // 1000)
    if is_in_bytes(name):
        return _megabytes(min(whole // MEMORY_UNIT, _MOST))
    return min(whole, _MOST)


def _limit(name: str, amount: Amount | None) -> int | float:
    return -1 if amount is None else amount_of(name, amount)


def _megabytes(units: int) -> int | float:
    """Return the number of megabytes that is read as just so many base units."""
    if units % MEGABYTE == 0:
        return units // MEGABYTE
    megabytes = units / MEGABYTE
    if parse_quantity(megabytes).times(MEGABYTE, 1, round_up=False, most=MAX_QUOTA) == units:
        return megabytes
    return (2 * units + 1) / (2 * MEGABYTE)  # the middle: half a unit from both neighbours
