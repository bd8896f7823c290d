"""The table of claims of a snapshot: what is offered, what claims ask for, and what they have."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Final, NamedTuple

from kaisched.core.axis import record
from kaisched.core.claims.model import Allocation, Claim, Device, Place, Result, Taken
from kaisched.core.claims.offer import Offer
from kaisched.core.claims.selectors import CelSelector

# -- GPUs and parts of them ------------------------------------------------------------------------

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


# -- the table -------------------------------------------------------------------------------------

Portion = tuple[tuple[str, str, str], tuple[tuple[str, int], ...] | None]
"""A device and what a claim has of its capacities; None for the whole device."""


class Held(NamedTuple):
    """What a claim has."""

    portions: tuple[Portion, ...]
    place: Place
    """The nodes where it can be used."""
    gpus: Gpus = NO_GPUS


class Bridge(NamedTuple):
    """A resource that some nodes offer by a device plugin and others by claims."""

    resource: str
    """Its name on the axis."""
    nodes: frozenset[str]
    """Those that have devices and no plugin."""


@record
class ClaimTable:
    """Devices, and the claims on them."""

    offer: Offer
    specs: Sequence[Claim]
    """What claims ask for, by the number in :class:`~kaisched.core.constraints.ClaimUse`."""
    selectors: Mapping[str, CelSelector]
    """The expressions of all claims, by text."""
    held: Mapping[str, Held]
    """Claims that have devices, by key."""
    consumers: Mapping[str, int]
    """How many pods a claim says it is reserved for, as far as there are any."""
    claims_of_task: Mapping[int, tuple[str, ...]]
    """The keys of the claims of a task, in its own order; tasks without claims are absent."""
    users: Mapping[str, tuple[int, ...]]
    """The tasks that use a claim which has devices."""
    bridge: Bridge | None = None
    """None where no resource is offered in both ways."""
    gpu_classes: frozenset[str] = frozenset()
    """The classes whose devices count as GPUs."""
    payers: Mapping[str, Sequence[int]] = field(default_factory=dict)
    """By claim with devices that several pods use, the tasks with a node, in the order in which it
    counts with them: with the first of those that stay."""
    uncounted: Mapping[int, Mapping[frozenset[str], int]] = field(default_factory=dict)
    """Of claims without devices that count with pods of several jobs: by task that counts some, and
    by the keys of some of these or all, the shape that does not count them."""


def portions_of(results: Sequence[Result]) -> tuple[Portion, ...]:
    """Return what devices a claim takes; access for administrators takes none."""
    return tuple(
        (
            it.device.identity,
            None if it.consumed is None else tuple((name, of.nanos) for name, of in it.consumed),
        )
        for it in results
        if not it.ask.is_admin
    )


def held_by(allocation: Allocation) -> Held:
    """Return what a claim has after an allocation."""
    place = Place(allocation.node, not allocation.node and allocation.term is None, allocation.term)
    return Held(portions_of(allocation.results), place)


class Holdings:
    """How often devices are taken: more than once only while a choice is still open."""

    def __init__(self) -> None:
        """Start with nothing taken."""
        self.taken = Taken()
        self._times: dict[tuple[str, str, str], int] = {}

    def copy(self) -> Holdings:
        """Return a copy that can be changed on its own."""
        copied = Holdings()
        copied.taken = self.taken.copy()
        copied._times = dict(self._times)
        return copied

    def add(self, portions: Sequence[Portion]) -> None:
        """Take devices."""
        for identity, consumed in portions:
            if consumed is None:
                self._times[identity] = self._times.get(identity, 0) + 1
                self.taken.devices.add(identity)
                continue
            before = self.taken.consumed.setdefault(identity, {})
            for name, nanos in consumed:
                before[name] = before.get(name, 0) + nanos
            self._times[identity] = self._times.get(identity, 0) + 1

    def remove(self, portions: Sequence[Portion]) -> None:
        """Give devices back."""
        for identity, consumed in portions:
            left = self._times[identity] - 1
            self._times[identity] = left
            if consumed is not None:
                before = self.taken.consumed[identity]
                for name, nanos in consumed:
                    before[name] -= nanos
            if not left:
                del self._times[identity]
                self.taken.devices.discard(identity)
                self.taken.consumed.pop(identity, None)
