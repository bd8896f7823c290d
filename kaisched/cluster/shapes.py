"""Shapes and label sets: equal demand, equal constraints and equal labels get one number."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from kaisched.cluster.columns import Block, ListColumn
from kaisched.core.axis import GPU, GPU_UNIT, PODS, IntVec, ResourceAxis, RowVec
from kaisched.core.constraints import Constraints
from kaisched.core.devices import DeviceDemand, MemoryCharges, memory_charges
from kaisched.core.tables import LabelSets, ShapeTable


class ShapeRows:
    """The shapes there are. Requests are kept by name too, because the axis may grow."""

    def __init__(self, axis: ResourceAxis) -> None:
        """Make an empty table."""
        self._axis = axis
        self._number: dict[tuple[tuple[tuple[str, int], ...], Constraints], int] = {}
        self.request = Block(len(axis))
        self.request_of_shape: list[tuple[int, ...]] = []
        """Each shape on its own, one amount a resource: what single moves add."""
        self.refund_of_shape: list[tuple[int, ...]] = []
        """The same less than zero: what they take away."""
        self.charge = self.request
        """What tasks count in their queues; of its own only once a shape's charge differs."""
        self.charge_of_shape = self.request_of_shape
        self.credit_of_shape = self.refund_of_shape
        self.constraints: ListColumn[Constraints] = ListColumn()
        self.with_cards: list[int] = []
        """Shapes whose tasks are on open cards: no shape as long as no pod shares."""
        self.card_mib = (0, 0)
        """MiB of the smallest and of the largest card; 0 for none whose size is known."""
        self.by_card: dict[int, DeviceDemand] = {}
        """Shapes that count differently on different nodes: those that ask for memory, where cards
        differ in size."""
        self.are_pinned = False
        """Somebody outside the store keeps numbers of shapes, so none may change."""
        self._table: ShapeTable | None = None

    def __len__(self) -> int:
        return len(self.request_of_shape)

    def find(self, request: Mapping[str, int], constraints: Constraints) -> int:
        """Return the number of a shape, -1 if it is new."""
        return self._number.get((tuple(sorted(request.items())), constraints), -1)

    def add(self, request: Mapping[str, int], constraints: Constraints) -> int:
        """Add a new shape; all names of ``request`` must be on the axis."""
        shape = len(self.request_of_shape)
        vector = self._axis.vector(dict(request))
        vector[PODS] = 1
        self._count_share(vector, shape, constraints)
        self.request.grow(shape + 1)
        self.request.data[:, shape] = vector
        amounts = tuple(vector.tolist())
        self.request_of_shape.append(amounts)
        self.refund_of_shape.append(_negative(amounts))
        self._add_charge(shape, vector, constraints)
        self.constraints.data.append(constraints)
        self._number[tuple(sorted(request.items())), constraints] = shape
        self._table = None
        return shape

    def _count_share(self, request: IntVec, shape: int, constraints: Constraints) -> None:
        """Add what a share counts in the amounts of its node, and note the shape."""
        if constraints.devices is not None and constraints.devices.has_cards:
            self._note_cards(shape, constraints.devices)
            request[GPU] += constraints.devices.least_milli(self.card_mib[1])

    def _note_cards(self, shape: int, demand: DeviceDemand) -> None:
        self.with_cards.append(shape)
        if demand.memory_mib and self.card_mib[0] != self.card_mib[1]:
            self.by_card[shape] = demand

    def _find_cards(self) -> None:
        """Note all shapes whose tasks are on open cards, anew."""
        self.with_cards, self.by_card = [], {}
        for shape, constraints in enumerate(self.constraints.data):
            if constraints.devices is not None and constraints.devices.has_cards:
                self._note_cards(shape, constraints.devices)

    def saved(self, shape: int, card_mib: int) -> int:
        """Return what a shape counts less on such cards than on the smallest of the cluster.

        In thousandths of a GPU; a card whose size is not known counts as the smallest.
        """
        demand, (least, most) = self.by_card[shape], self.card_mib
        return demand.milli_gpus(least) - demand.milli_gpus(min(max(card_mib, least), most))

    def resize_cards(self, least_mib: int, most_mib: int) -> bool:
        """Take note of the sizes of cards; return whether amounts have changed."""
        old, self.card_mib = self.card_mib, (least_mib, most_mib)
        memory = [it for it in self.with_cards if self._devices(it).memory_mib]
        if old == self.card_mib or not memory:
            return False
        request = self.request.own()
        for shape in memory:
            demand = self._devices(shape)
            request[GPU, shape] += demand.least_milli(most_mib) - demand.least_milli(old[1])
        self._find_cards()
        self._list_requests(len(self))
        self._table = None
        return True

    def _devices(self, shape: int) -> DeviceDemand:
        devices = self.constraints.data[shape].devices
        assert devices is not None
        return devices

    def _add_charge(self, shape: int, request: IntVec, constraints: Constraints) -> None:
        """Note what a new shape counts in its queue."""
        charge = self._charge_of(request, constraints)
        if self.charge is self.request and charge is request:
            return
        amounts = tuple(charge.tolist())
        if self.charge is self.request:
            self.charge = Block(len(amounts))
            self.charge.replace(self.request.data.copy())
            self.charge_of_shape = self.request_of_shape[:shape]
            self.credit_of_shape = self.refund_of_shape[:shape]
        self.charge.grow(shape + 1)
        self.charge.data[:, shape] = amounts
        self.charge_of_shape.append(amounts)
        self.credit_of_shape.append(_negative(amounts))

    def keep(self, rows: RowVec, label_map: RowVec) -> None:
        """Keep only these shapes, whose label sets have new numbers."""
        self.request.replace(self.request.data[:, rows].copy())
        self.constraints.replace(
            [
                replace(old, label_set=int(label_map[old.label_set]))
                for old in (self.constraints.data[row] for row in rows.tolist())
            ]
        )
        self._list_requests(len(rows))
        self._number = {
            (self._asked(request, constraints), constraints): number
            for number, (request, constraints) in enumerate(
                zip(self.request_of_shape, self.constraints.data, strict=True)
            )
        }
        self._find_cards()
        self._table = None

    def pin(self) -> None:
        """Keep every number for good: somebody outside the store knows it."""
        self.are_pinned = True

    def spread(self, axis: ResourceAxis, rows: IntVec) -> None:
        """Move to a wider axis."""
        self._axis = axis
        self.request.spread(len(axis), rows)
        size = len(self)
        self._list_requests(size)
        self._table = None

    def _list_requests(self, size: int) -> None:
        columns = self.request.data[:, :size].T.tolist()
        self.request_of_shape = [tuple(column) for column in columns]
        self.refund_of_shape = [_negative(request) for request in self.request_of_shape]
        self.charge = self.request
        self.charge_of_shape = self.request_of_shape
        self.credit_of_shape = self.refund_of_shape
        for shape, constraints in enumerate(self.constraints.data[:size]):
            self._add_charge(shape, self.request.data[:, shape], constraints)

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
        return dict(self._asked(self.request_of_shape[shape], self.constraints.data[shape]))

    def _asked(
        self, request: tuple[int, ...], constraints: Constraints
    ) -> tuple[tuple[str, int], ...]:
        """Return what a shape asks for by name, without what its share counts."""
        amounts = list(request)
        if constraints.devices is not None:
            amounts[GPU] -= constraints.devices.least_milli(self.card_mib[1])
        named = zip(self._axis.names, amounts, strict=True)
        return tuple(sorted((name, amount) for name, amount in named if amount and name != "pods"))

    def _memory_charges(self) -> MemoryCharges | None:
        if not self.by_card:
            return None
        return memory_charges([self.by_card.get(it) for it in range(len(self))], *self.card_mib)

    def table(self) -> ShapeTable:
        """Freeze; the same object while no shape was added."""
        if self._table is None:
            self._table = ShapeTable(
                request=self.request.frozen(len(self)),
                charge=self.charge.frozen(len(self)),
                constraints=self.constraints.frozen(),
                by_card=self._memory_charges(),
            )
        return self._table


class LabelRows:
    """The (namespace, labels) pairs there are."""

    def __init__(self) -> None:
        """Make an empty table."""
        self._number: dict[tuple[str, frozenset[tuple[str, str]]], int] = {}
        self.namespace: ListColumn[str] = ListColumn()
        self.labels: ListColumn[Mapping[str, str]] = ListColumn()
        self._table: LabelSets | None = None

    def intern(self, namespace: str, labels: Mapping[str, str]) -> int:
        """Return the number of a label set."""
        key = (namespace, frozenset(labels.items()))
        number = self._number.get(key)
        if number is None:
            number = self._number[key] = len(self._number)
            self.namespace.data.append(namespace)
            self.labels.data.append(dict(labels))
            self._table = None
        return number

    def keep(self, rows: RowVec) -> None:
        """Keep only these label sets."""
        self.namespace.keep(rows)
        self.labels.keep(rows)
        self._number = {
            (namespace, frozenset(labels.items())): number
            for number, (namespace, labels) in enumerate(
                zip(self.namespace.data, self.labels.data, strict=True)
            )
        }
        self._table = None

    def table(self) -> LabelSets:
        """Freeze; the same object while no label set was added."""
        if self._table is None:
            self._table = LabelSets(namespace=self.namespace.frozen(), labels=self.labels.frozen())
        return self._table


def _negative(request: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(-amount for amount in request)


def spread_rows(old: ResourceAxis, new: ResourceAxis) -> IntVec:
    """Return where each resource of ``old`` stands on ``new``."""
    return np.array([new.position[name] for name in old.names], np.int64)
