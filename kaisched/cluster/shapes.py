"""Shapes and label sets: equal demand, equal constraints and equal labels get one number."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from kaisched.cluster.columns import Block, ListColumn
from kaisched.core.axis import GPU, GPU_UNIT, PODS, IntVec, ResourceAxis, RowVec
from kaisched.core.constraints import Constraints
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

    def _add_charge(self, shape: int, request: IntVec, constraints: Constraints) -> None:
        """Note what a new shape counts in its queue."""
        charge = charge_of(self._axis, request, constraints)
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
            (_items(self._axis, request), constraints): number
            for number, (request, constraints) in enumerate(
                zip(self.request_of_shape, self.constraints.data, strict=True)
            )
        }
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

    def table(self) -> ShapeTable:
        """Freeze; the same object while no shape was added."""
        if self._table is None:
            self._table = ShapeTable(
                request=self.request.frozen(len(self)),
                charge=self.charge.frozen(len(self)),
                constraints=self.constraints.frozen(),
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


def charge_of(axis: ResourceAxis, request: IntVec, constraints: Constraints) -> IntVec:
    """``(R,)`` what a task counts in its queue that asks for so much."""
    charge = axis.charged(request)
    if constraints.devices is not None:
        charge = charge.copy()
        charge[GPU] += GPU_UNIT * constraints.devices.legacy_slices // axis.mig_slices_of_gpu
    return charge


def _negative(request: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(-amount for amount in request)


def _items(axis: ResourceAxis, request: tuple[int, ...]) -> tuple[tuple[str, int], ...]:
    named = zip(axis.names, request, strict=True)
    return tuple(sorted((name, amount) for name, amount in named if amount and name != "pods"))


def spread_rows(old: ResourceAxis, new: ResourceAxis) -> IntVec:
    """Return where each resource of ``old`` stands on ``new``."""
    return np.array([new.position[name] for name in old.names], np.int64)
