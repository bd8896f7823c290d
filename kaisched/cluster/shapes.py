"""Shapes and label sets: equal demand, equal constraints and equal labels get one number."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from kaisched.cluster.columns import Block, ListColumn
from kaisched.core.axis import PODS, IntVec, ResourceAxis
from kaisched.core.constraints import Constraints
from kaisched.core.tables import LabelSets, ShapeTable


class ShapeRows:
    """The shapes there are. Requests are kept by name too, because the axis may grow."""

    def __init__(self, axis: ResourceAxis) -> None:
        """Make an empty table."""
        self._axis = axis
        self._number: dict[tuple[tuple[tuple[str, int], ...], Constraints], int] = {}
        self.request = Block(len(axis))
        self.request_of_shape: list[IntVec] = []
        """``(R,)`` of each shape on its own, contiguous: what single moves add and subtract."""
        self.constraints: ListColumn[Constraints] = ListColumn()
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
        self.request_of_shape.append(vector)
        self.constraints.data.append(constraints)
        self._number[tuple(sorted(request.items())), constraints] = shape
        self._table = None
        return shape

    def spread(self, axis: ResourceAxis, rows: IntVec) -> None:
        """Move to a wider axis."""
        self._axis = axis
        self.request.spread(len(axis), rows)
        size = len(self)
        self.request_of_shape = [self.request.data[:, shape].copy() for shape in range(size)]
        self._table = None

    def table(self) -> ShapeTable:
        """Freeze; the same object while no shape was added."""
        if self._table is None:
            self._table = ShapeTable(
                request=self.request.frozen(len(self)), constraints=self.constraints.frozen()
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

    def table(self) -> LabelSets:
        """Freeze; the same object while no label set was added."""
        if self._table is None:
            self._table = LabelSets(namespace=self.namespace.frozen(), labels=self.labels.frozen())
        return self._table


def spread_rows(old: ResourceAxis, new: ResourceAxis) -> IntVec:
    """Return where each resource of ``old`` stands on ``new``."""
    return np.array([new.position[name] for name in old.names], np.int64)
