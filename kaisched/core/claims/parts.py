"""Counts devices of claims as GPUs, and what claims have of shared devices as parts of GPUs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from kaisched.core.claims.model import Device

_WHOLE: Final = 1000
_MEMORY: Final = "memory"


class Gpus(NamedTuple):
    """How many GPUs devices are, in thousandths."""

    of_node: int
    """What they take of their node: rounded down, so that nothing is refused that a device has room
    for."""
    in_queue: int
    """What they count in a queue: rounded to the nearest, at least 1 for each part."""

    def plus(self, other: Gpus) -> Gpus:
        """Return both together."""
        return Gpus(self.of_node + other.of_node, self.in_queue + other.in_queue)

    def times(self, number: int) -> Gpus:
        """Return so many of them."""
        return Gpus(self.of_node * number, self.in_queue * number)


NO_GPUS: Final = Gpus(0, 0)
WHOLE_GPU: Final = Gpus(_WHOLE, _WHOLE)


class Measure(NamedTuple):
    """The capacity by which parts of a shared device are counted."""

    name: str
    """As the device has it; empty for a device without capacities."""
    nanos: int

    def part(self, consumed: Mapping[str, int]) -> Gpus:
        """Return how much of a GPU a claim has that consumes so much of the device."""
        taken = consumed.get(self.name, 0)
        if self.nanos <= 0 or taken <= 0:
            return Gpus(0, 1)
        thousandths = _WHOLE * taken
        nearest = (2 * thousandths + self.nanos) // (2 * self.nanos)
        return Gpus(min(thousandths // self.nanos, _WHOLE), min(max(nearest, 1), _WHOLE))


def measure_of(device: Device) -> Measure:
    """Return the capacity that counts: memory, or else the first by name."""
    name = _MEMORY
    if name not in device.capacities:
        names = (f"{device.driver}/{_MEMORY}", *sorted(device.capacities))
        name = next((it for it in names if it in device.capacities), "")
    return Measure(name, device.capacities[name].value.nanos if name else 0)
