"""Quotas of a tree: what each queue has of its own, what it may lend, and what it could ever have.

Columns ``(F, Q)``: a row for each resource, or for each pair of flavor and resource where there are
flavors. Rules F1 to F3 of docs/explanation/fair-sharing.md. All of it rests on the queues alone, so
that it is worked out once for as long as no queue changes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property

import numpy as np

from kaisched import UNLIMITED, Amounts, BoolVec, RowVec

Row = list[int]
"""Amounts of one queue, one number for each row of the columns."""


@dataclass(frozen=True, eq=False)
class Quotas:
    """What queues may have. The parent of a queue stands before it."""

    parent: RowVec
    """``(Q,)`` row of the parent, -1 for a root."""
    nominal: Amounts
    borrowing_limit: Amounts
    """UNLIMITED for none."""
    lending_limit: Amounts
    """UNLIMITED for none: then all is lent."""
    weight: Sequence[Fraction]
    resource: RowVec
    """``(F,)`` number of the resource of each row; of equal shares the lower number is named."""
    is_member: BoolVec | None = None
    """``(Q,)`` True for queues that count as one with the queue above; None for none."""

    def __len__(self) -> int:
        """Return Q."""
        return len(self.parent)

    @cached_property
    def _levels(self) -> list[RowVec]:
        """Return the rows of each depth, roots first."""
        depth = np.zeros(len(self), np.int64)
        for row, above in enumerate(self.parent.tolist()):
            if above >= 0:
                depth[row] = depth[above] + 1
        return [np.flatnonzero(depth == level) for level in range(int(depth.max(initial=-1)) + 1)]

    @cached_property
    def subtree(self) -> Amounts:
        """Quota of each queue with what those below it lend."""
        subtree = self.nominal.copy()
        for rows in self._levels[:0:-1]:
            part = subtree[:, rows]
            lent = part - unlent(part, self.lending_limit[:, rows])
            for at, above in enumerate(self.parent[rows].tolist()):
                subtree[:, above] = added(subtree[:, above], lent[:, at])
        return subtree

    @cached_property
    def local(self) -> Amounts:
        """The part of its quota that a queue never lends."""
        local = unlent(self.subtree, self.lending_limit)
        local[:, self.parent < 0] = 0
        return local

    @cached_property
    def potential(self) -> Amounts:
        """What a queue could have if nothing were used."""
        potential = self.subtree.copy()
        for rows in self._levels[1:]:
            most = added(self.subtree[:, rows], self.borrowing_limit[:, rows])
            above = potential[:, self.parent[rows]]
            potential[:, rows] = np.minimum(added(self.local[:, rows], above), most)
        return potential

    @cached_property
    def cap(self) -> Amounts:
        """The most that may be counted at a queue; a root borrows from nobody."""
        cap = added(self.subtree, self.borrowing_limit)
        roots = self.parent < 0
        cap[:, roots] = self.subtree[:, roots]
        return cap

    @cached_property
    def lendable(self) -> Amounts:
        """``(resources, Q)`` what a share is measured against: the parent's potential, all flavors.

        Zero for a root.
        """
        count = int(self.resource.max(initial=-1)) + 1
        lendable = np.zeros((count, len(self)), np.int64)
        below = self.parent >= 0
        above = self.potential[:, self.parent[below]]
        for row, resource in enumerate(self.resource.tolist()):
            lendable[resource, below] = added(lendable[resource, below], above[row])
        return lendable

    @cached_property
    def height(self) -> RowVec:
        """``(Q,)`` how far the furthest leaf below each queue is; 0 for a leaf, and for a pool."""
        height = np.zeros(len(self), np.int64)
        for level in self._levels[:0:-1]:
            rows = level if self.is_member is None else level[~self.is_member[level]]
            np.maximum.at(height, self.parent[rows], height[rows] + 1)
        return height

    @cached_property
    def weight_columns(self) -> tuple[RowVec, RowVec]:
        """Numerators and denominators of the weights, ``(Q,)``."""
        numerators = [each.numerator for each in self.weight]
        return np.array(numerators, np.int64), np.array(
            [each.denominator for each in self.weight], np.int64
        )

    def weighted(self, weight: Sequence[Fraction]) -> Quotas:
        """Return the same quotas with other weights; all that rests on quotas alone is kept."""
        made = replace(self, weight=weight)
        for name in ("subtree", "local", "potential", "cap", "lendable", "height"):
            made.__dict__[name] = getattr(self, name)
        return made

    @cached_property
    def lends_in_part(self) -> bool:
        """Whether any queue keeps a part of its quota to itself, so that amounts do not add up."""
        return bool(self.local.any())

    @cached_property
    def rows(self) -> Rows:
        """The same as lists of numbers without a bound, for walks along paths."""
        return Rows(self)


class Rows:
    """Quotas by queue, as lists: a step along a path is a few additions, not a call each."""

    def __init__(self, quotas: Quotas) -> None:
        """Turn the columns into rows."""
        self.parent: list[int] = quotas.parent.tolist()
        self.resource: list[int] = quotas.resource.tolist()
        self.nominal: list[Row] = quotas.nominal.T.tolist()
        self.subtree: list[Row] = quotas.subtree.T.tolist()
        self.local: list[Row] = quotas.local.T.tolist()
        self.potential: list[Row] = quotas.potential.T.tolist()
        self.cap: list[Row] = quotas.cap.T.tolist()
        self.lendable: list[Row] = quotas.lendable.T.tolist()
        self.has_several = len(set(self.resource)) > 1
        """Whether more than one resource is shared out."""
        self.weight = [(each.numerator, each.denominator) for each in quotas.weight]
        self.children: list[list[int]] = [[] for _ in self.parent]
        for row, above in enumerate(self.parent):
            if above >= 0:
                self.children[above].append(row)
        self.height: list[int] = quotas.height.tolist()

    def path(self, queue: int) -> list[int]:
        """Return the queue, its parent, and so on up to the root."""
        path = []
        while queue >= 0:
            path.append(queue)
            queue = self.parent[queue]
        return path


def added(one: Amounts, other: Amounts) -> Amounts:
    """Add amounts up to UNLIMITED: two that are at most that overflow 64 bits together."""
    return np.where(one >= UNLIMITED - other, UNLIMITED, one + np.minimum(other, UNLIMITED - one))


def unlent(subtree: Amounts, lending_limit: Amounts) -> Amounts:
    """Return what of a quota is not lent."""
    kept: Amounts = np.maximum(subtree - lending_limit, 0)
    return kept
