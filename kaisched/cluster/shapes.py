"""Shapes and label sets: equal demand, equal constraints and equal labels get one number."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TypeAlias

import numpy as np

from kaisched.cluster.columns import Column, ListColumn
from kaisched.core.axis import GPU, GPU_UNIT, PODS, IntVec, ResourceAxis, RowVec
from kaisched.core.constraints import Constraints
from kaisched.core.devices import DeviceDemand
from kaisched.core.memory_charges import memory_charges
from kaisched.core.tables import LabelSets, ShapeTable

Asked: TypeAlias = tuple[tuple[str, int], ...]
"""Amounts in base units by resource name, less pods, sorted."""


class ShapeRows:
    """The shapes there are. What they ask for is kept by name, because the axis may grow."""

    def __init__(self, axis: ResourceAxis) -> None:
        """Make an empty table."""
        self._number: dict[tuple[Asked, Constraints], int] = {}
        self._asked: list[Asked] = []
        self.constraints: ListColumn[Constraints] = ListColumn()
        self.card_mib = (0, 0)
        """MiB of the smallest and of the largest card; 0 for none whose size is known."""
        self.are_pinned = False
        """Somebody outside the store keeps numbers of shapes, so none may change."""
        self._table: ShapeTable | None = None
        self.count_by(axis)

    def __len__(self) -> int:
        return len(self._asked)

    def find(self, request: Mapping[str, int], constraints: Constraints) -> int:
        """Return the number of a shape, -1 if it is new."""
        return self._number.get((tuple(sorted(request.items())), constraints), -1)

    def add(self, request: Mapping[str, int], constraints: Constraints) -> int:
        """Add a new shape; all names of ``request`` must be on the axis."""
        shape = len(self)
        asked = tuple(sorted(request.items()))
        self._number[asked, constraints] = shape
        self._asked.append(asked)
        self.constraints.data.append(constraints)
        self._count(shape)
        self._table = None
        return shape

    def count_by(self, axis: ResourceAxis) -> None:
        """Count all shapes anew, by an axis that has all their resources."""
        self._axis = axis
        nothing = (0,) * len(axis)
        self.request, self._charge = Column(np.int64, nothing), Column(np.int64, nothing)
        self._is_charge_other = False
        self.with_cards: list[int] = []
        """Shapes whose tasks are on open cards: no shape as long as no pod shares."""
        self.by_card: dict[int, DeviceDemand] = {}
        """Shapes that count differently on different nodes: those that ask for memory, where cards
        differ in size."""
        for shape in range(len(self)):
            self._count(shape)
        self._table = None

    def _count(self, shape: int) -> None:
        """Write what a shape takes of its node and what it counts in its queue."""
        constraints = self.constraints.data[shape]
        request = self._axis.vector(dict(self._asked[shape]))
        request[PODS] = 1
        if (demand := constraints.devices) is not None and demand.has_cards:
            self.with_cards.append(shape)
            if demand.memory_mib and self.card_mib[0] != self.card_mib[1]:
                self.by_card[shape] = demand
            request[GPU] += demand.least_milli(self.card_mib[1])
        charge = self._charge_of(request, constraints)
        self._is_charge_other |= charge is not request
        for column, amounts in ((self.request, request), (self._charge, charge)):
            column.grow(shape + 1)
            column.data[shape] = amounts

    def resize_cards(self, least_mib: int, most_mib: int) -> bool:
        """Take note of the sizes of cards; return whether amounts have changed."""
        old, self.card_mib = self.card_mib, (least_mib, most_mib)
        demands = (self.constraints.data[shape].devices for shape in self.with_cards)
        if old == self.card_mib or not any(it and it.memory_mib for it in demands):
            return False
        self.count_by(self._axis)
        return True

    def keep(self, rows: RowVec, label_map: RowVec) -> None:
        """Keep only these shapes, whose label sets have new numbers."""
        kept = [self.constraints.data[row] for row in rows.tolist()]
        kept = [replace(old, label_set=int(label_map[old.label_set])) for old in kept]
        self.constraints.replace(kept)
        self._asked = [self._asked[row] for row in rows.tolist()]
        pairs = zip(self._asked, kept, strict=True)
        self._number = {pair: number for number, pair in enumerate(pairs)}
        self.count_by(self._axis)

    def pin(self) -> None:
        """Keep every number for good: somebody outside the store knows it."""
        self.are_pinned = True

    def charge_for(self, request: Mapping[str, int], constraints: Constraints) -> IntVec:
        """``(R,)`` what a task of no shape here counts in its queue, of resources on the axis."""
        on_axis = {name: amount for name, amount in request.items() if name in self._axis.position}
        vector = self._axis.vector(on_axis)
        if constraints.devices is not None and constraints.devices.has_cards:
            vector[GPU] += constraints.devices.least_milli(self.card_mib[1])
        return self._charge_of(vector, constraints)

    def _charge_of(self, request: IntVec, constraints: Constraints) -> IntVec:
        """``(R,)`` what a task counts in its queue that takes so much of its node."""
        charge = self._axis.charged(request)
        if constraints.claimed_milli:
            charge = charge.copy()
            charge[GPU] += constraints.claimed_milli
        if (demand := constraints.devices) is not None:
            charge = charge.copy()
            least, most = self.card_mib
            charge[GPU] += demand.milli_gpus(least) - demand.least_milli(most)
            charge[GPU] += GPU_UNIT * demand.legacy_slices // self._axis.mig_slices_of_gpu
        return charge

    def asked_by(self, shape: int) -> dict[str, int]:
        """Return what a shape asks for, in base units by resource name, less pods."""
        return dict(self._asked[shape])

    def table(self) -> ShapeTable:
        """Freeze; the same object while no shape was added."""
        if self._table is None:
            request, charge = self.request.frozen(len(self)).T, self._charge.frozen(len(self)).T
            request, charge = np.ascontiguousarray(request), np.ascontiguousarray(charge)
            request.setflags(write=False)
            charge.setflags(write=False)
            by_card = [self.by_card.get(shape) for shape in range(len(self))]
            self._table = ShapeTable(
                request=request,
                charge=charge if self._is_charge_other else request,
                constraints=self.constraints.frozen(),
                by_card=memory_charges(by_card, *self.card_mib) if self.by_card else None,
            )
        return self._table


class LabelRows:
    """The (namespace, labels) pairs there are."""

    def __init__(self) -> None:
        """Make an empty table."""
        self._number: dict[tuple[str, frozenset[tuple[str, str]]], int] = {}
        self.namespace: ListColumn[str] = ListColumn()
        self.labels: ListColumn[Mapping[str, str]] = ListColumn()

    def intern(self, namespace: str, labels: Mapping[str, str]) -> int:
        """Return the number of a label set."""
        key = (namespace, frozenset(labels.items()))
        number = self._number.setdefault(key, len(self._number))
        if number == len(self.labels.data):
            self.namespace.data.append(namespace)
            self.labels.data.append(dict(labels))
        return number

    def keep(self, rows: RowVec) -> None:
        """Keep only these label sets."""
        self.namespace.keep(rows)
        self.labels.keep(rows)
        pairs = zip(self.namespace.data, self.labels.data, strict=True)
        self._number = {
            (namespace, frozenset(labels.items())): number
            for number, (namespace, labels) in enumerate(pairs)
        }

    def table(self) -> LabelSets:
        """Freeze."""
        return LabelSets(namespace=self.namespace.frozen(), labels=self.labels.frozen())
