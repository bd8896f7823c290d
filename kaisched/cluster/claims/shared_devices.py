"""Counts parts of devices that several claims share; costs nothing while no driver offers any."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeAlias

from kaisched.core.claims.consumed import consumed_by, fits
from kaisched.core.claims.model import (
    NANOS,
    Ask,
    ClaimError,
    Device,
    DeviceClass,
    Identity,
    Selector,
)
from kaisched.core.claims.parts import WHOLE_GPU, Gpus, Measure, measure_of
from kaisched.core.claims.profiles import profile_of

if TYPE_CHECKING:
    from kaisched.core.claims.profiles import Named

Selectors: TypeAlias = Callable[[str], Selector]
"""Gives the expression with a text."""


class SharedDevices:
    """The devices that several claims may have parts of, and what parts of them count as."""

    def __init__(self) -> None:
        """Know none."""
        self._classes: Mapping[str, DeviceClass] = {}
        self._devices: list[Device] = []
        """All devices of nodes, while any of them is shared."""
        self._measures: dict[Identity, Measure] = {}
        """Also of devices that are gone: their parts count as before until claims lose them."""
        self._unseen: set[Identity] = set()
        """Devices that claims have parts of, and nobody has offered yet."""
        self._alike: dict[Named, list[Device]] = {}
        self._asked: dict[Ask, tuple[Gpus, Selectors]] = {}
        self._sizes: dict[tuple[str, str], frozenset[int]] = {}

    def count(
        self,
        classes: Mapping[str, DeviceClass],
        at_nodes: Iterable[Iterable[Device]],
        used: Callable[[], set[Identity]],
    ) -> bool:
        """Take in the devices of all nodes; return whether claims count for other parts now.

        ``used`` returns the devices that claims have, or have parts of.
        """
        devices = [it for of_node in at_nodes for it in of_node]
        shared = [it for it in devices if it.is_shared]
        if not shared and not self._measures:
            return False
        is_other = bool(shared) and not self._devices  # until now each counted as whole
        self._classes, self._devices = classes, devices if shared else []
        self._alike = {}
        is_other |= self._measure(shared, used)
        asked = self._asked
        self._asked = {ask: (self._of_one(ask, it), it) for ask, (_, it) in asked.items()}
        sizes, self._sizes = self._sizes, {key: self._sizes_of(*key) for key in self._sizes}
        return (
            is_other
            or self._sizes != sizes
            or any(self._asked[ask][0] != gpus for ask, (gpus, _) in asked.items())
        )

    def _measure(self, shared: list[Device], used: Callable[[], set[Identity]]) -> bool:
        """Measure devices anew; return whether what claims have of any counts for more or less."""
        before, now = self._measures, {it.identity: measure_of(it) for it in shared}
        is_other = any(before.get(it, one) != one for it, one in now.items())
        is_other |= not self._unseen.isdisjoint(now)
        if self._unseen or not before.keys() <= now.keys():
            in_use = used()
            self._unseen = (self._unseen & in_use) - now.keys()
            gone = (before.keys() - now.keys()) & in_use
            now |= {it: before[it] for it in before if it in gone}
        self._measures = now
        return is_other

    def part(self, identity: Identity, consumed: Mapping[str, int]) -> Gpus:
        """Return what counts for a claim that has a part of a device; one never seen is whole."""
        measure = self._measures.get(identity)
        if measure is None:
            self._unseen.add(identity)
            return WHOLE_GPU
        return measure.part(consumed)

    def of_one(self, ask: Ask, selectors: Selectors) -> Gpus:
        """Return what each device of a request counts before it is chosen."""
        if not self._devices:
            return WHOLE_GPU
        key = replace(ask, name="", count=1, tolerations=())
        if key not in self._asked:
            self._asked[key] = self._of_one(key, selectors), selectors
        return self._asked[key][0]

    def sizes(self, class_name: str, capacity: str) -> frozenset[int]:
        """Return how much of a capacity the shared devices of a class have, rounded down."""
        key = class_name, capacity
        if key not in self._sizes:
            self._sizes[key] = self._sizes_of(*key)
        return self._sizes[key]

    def _sizes_of(self, class_name: str, capacity: str) -> frozenset[int]:
        found = (
            it.capacities[capacity].value.nanos // NANOS
            for it in self._matching(class_name, ())
            if it.is_shared and capacity in it.capacities
        )
        return frozenset(it for it in found if it > 0)

    def _of_one(self, ask: Ask, selectors: Selectors) -> Gpus:
        """Return the least of a node, and the most in a queue, that one device comes to."""
        parts = []
        for device in self._matching(ask.class_name, [selectors(it) for it in ask.selectors]):
            taken = consumed_by(ask, device)
            if taken is None or not fits(taken, device, {}):
                continue
            consumed = {name: it.nanos for name, it in taken.items()}
            parts.append(measure_of(device).part(consumed) if device.is_shared else WHOLE_GPU)
        if not parts:
            return WHOLE_GPU
        return Gpus(min(it.of_node for it in parts), max(it.in_queue for it in parts))

    def _matching(self, class_name: str, expressions: Iterable[Selector]) -> Iterable[Device]:
        """Yield devices that do for expressions of a class and these; of equal ones the first."""
        of_class = self._classes.get(class_name)
        if of_class is None:
            return
        every = [*of_class.selectors, *expressions]
        for device in self._distinct(every):
            try:
                if all(it.matches(device) for it in every):
                    yield device
            except ClaimError:
                continue

    def _distinct(self, expressions: Iterable[Selector]) -> list[Device]:
        """Return the devices, and of those that look the same to the expressions the first."""
        fields: set[tuple[str, str]] = set()
        named: Named = ()
        for each in expressions:
            if each.named is None:
                named = None
            else:
                fields.update(each.named)
        named = None if named is None else tuple(sorted(fields))
        if named not in self._alike:
            first: dict[Any, Device] = {}
            for device in self._devices:
                capacities = tuple(sorted(device.capacities.items()))
                first.setdefault((profile_of(device, named), capacities), device)
            self._alike[named] = list(first.values())
        return self._alike[named]
