"""A tree of quotas: what queues own and lend, what they hold, and the shares that follow.

Rules F1 to F7 of docs/explanation/fair-sharing.md.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Final, NamedTuple

import numpy as np

from kaisched import UNLIMITED, Amounts, BoolVec, FloatVec, IntVec, RowVec

# Quotas of a tree: what each queue has of its own, what it may lend, and what it could ever have.
#
# Columns ``(F, Q)``: a row for each resource, or for each pair of flavor and resource where there
# are flavors. Rules F1 to F3 of docs/explanation/fair-sharing.md. All of it rests on the queues
# alone, so that it is worked out once for as long as no queue changes.


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
            more = np.zeros(subtree.shape, object)  # numbers without a bound
            np.add.at(more.T, self.parent[rows], lent.T.astype(object))
            subtree = np.minimum(subtree + more, UNLIMITED).astype(np.int64)
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
        self.quota = quotas.subtree
        """The same as columns."""
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


# The share of a queue: what it borrows of what can be lent, in its dominant resource, by weight.
#
# Rules F5 to F7 of docs/explanation/fair-sharing.md. Shares are compared exactly. A quotient is a
# whole number of parts so fine that no two quotients of amounts and weights have the same, and so
# that its nearest double, and the nearest to what that lacks, are those of the quotient itself.
# Numbers of Python have no bound: nothing overflows, however large amounts and weights are.


_FINE: Final = 512
"""Quotients are counted in parts of 2 to the power of minus so much; numbers have 128 bits."""


def quotient(part: int, of: int) -> int:
    """Return a quotient as it is compared."""
    return (part << _FINE) // of


class Share(NamedTuple):
    """A share as it is compared: infinite ones last, by their quotient before the weight."""

    is_infinite: bool
    exact: int
    """As :func:`quotient` returns it."""

    @property
    def near(self) -> float:
        """The nearest double."""
        return self.exact / (1 << _FINE)

    def doubles(self) -> tuple[float, float]:
        """Return the nearest double, and the nearest to what it lacks."""
        near = self.near
        return near, (self.exact - int(math.ldexp(near, _FINE))) / (1 << _FINE)

    def text(self) -> str:
        """Return it for people, as a multiple of what can be lent."""
        return "infinite" if self.is_infinite else f"{self.near:.4g}"


NOTHING = Share(False, 0)


@dataclass(frozen=True, slots=True)
class Terms:
    """A share with what it is made of."""

    share: Share
    is_borrowing: bool
    resource: int = -1
    """The dominant resource; -1 while the share is nothing."""
    borrowed: int = 0
    lendable: int = 0


WITHIN = Terms(NOTHING, is_borrowing=False)


def terms_of(rows: Rows, queue: int, used: Row) -> Terms:
    """Return the share of a queue that has ``used``; a root borrows from nobody."""
    if rows.parent[queue] < 0:
        return WITHIN
    over: dict[int, int] = {}
    for at, (has, quota) in enumerate(zip(used, rows.subtree[queue], strict=True)):
        if has > quota:
            resource = rows.resource[at]
            over[resource] = over.get(resource, 0) + has - quota
    if not over:
        return WITHIN
    best, part, of = -1, 0, 1
    lendable = rows.lendable[queue]
    for resource in sorted(over):
        if lendable[resource] > 0 and over[resource] * of > part * lendable[resource]:
            best, part, of = resource, over[resource], lendable[resource]
    numerator, denominator = rows.weight[queue]
    if not numerator:
        share = Share(True, quotient(part, of))
    else:
        share = Share(False, quotient(part * denominator, of * numerator))
    return Terms(share, True, best, part, of if best >= 0 else 0)


# What queues hold: counted along paths, so that an addition costs the depth of the tree.
#
# What a queue holds of the part of its quota that it never lends is not counted above it, so that
# amounts higher up are no plain sums (rule F2 of docs/explanation/fair-sharing.md).


Ask = Sequence[tuple[int, int]]
"""Rows with amounts above 0."""


class Holdings:
    """Amounts at every level of a tree, and the shares that follow from them."""

    def __init__(self, quotas: Quotas, leaves: Amounts) -> None:
        """Count what leaves hold, ``(F, Q)``; what stands at inner queues is counted there too."""
        rows = quotas.rows
        self.rows: Rows = rows
        self.used: list[Row] = leaves.T.tolist()
        self._terms: list[Terms | None] = [None] * len(self.used)
        self._origin: Holdings | None = None
        """What this is a copy of: a queue that holds the same there has the same share."""
        for queue in range(len(self.used) - 1, -1, -1):
            above = rows.parent[queue]
            if above >= 0:
                upper = self.used[above]
                local = rows.local[queue]
                for at, amount in enumerate(self.used[queue]):
                    if amount > local[at]:
                        upper[at] += amount - local[at]

    def copy(self) -> Holdings:
        """Return the same amounts, to be changed by themselves."""
        made = Holdings.__new__(Holdings)
        made.rows = self.rows
        made.used = list(self.used)
        made._terms = list(self._terms)  # noqa: SLF001 - of its own kind
        made._origin = self  # noqa: SLF001
        return made

    def add(self, queue: int, ask: Ask) -> None:
        """Count more at a queue and above it."""
        parent, local, used = self.rows.parent, self.rows.local, self.used
        for at, amount in ask:
            node, more = queue, amount
            while node >= 0:
                own = used[node] = used[node].copy()  # rows are shared with copies
                self._terms[node] = None
                free = local[node][at] - own[at]
                own[at] += more
                if free > 0:
                    more -= free
                if more <= 0:
                    break
                node = parent[node]

    def take(self, queue: int, ask: Ask) -> None:
        """Count less at a queue and above it: the inverse of :meth:`add`."""
        parent, local, used = self.rows.parent, self.rows.local, self.used
        for at, amount in ask:
            node, less = queue, amount
            while node >= 0:
                own = used[node] = used[node].copy()
                self._terms[node] = None
                beyond = own[at] - local[node][at]
                own[at] -= less
                less = min(less, beyond)
                if less <= 0:
                    break
                node = parent[node]

    def available(self, queue: int, at: int) -> int:
        """Return how much more a queue may have of a row; negative where quota was cut.

        What a queue above holds too much, after a cut, counts against all below it, even against
        what they never lend: so does Kueue.
        """
        rows, used = self.rows, self.used
        path = rows.path(queue)
        root = path.pop()
        free = rows.subtree[root][at] - used[root][at]
        for node in reversed(path):
            local, has = rows.local[node][at], used[node][at]
            room = rows.cap[node][at] - max(has, local)
            free = max(0, local - has) + min(free, room)
        return free

    def fits(self, queue: int, ask: Ask) -> bool:
        """Tell whether a queue may have so much more."""
        return all(amount <= self.available(queue, at) for at, amount in ask)

    def is_within(self, queue: int, at: Iterable[int]) -> bool:
        """Tell whether a queue holds no more than its quota of some rows."""
        return not self.is_over(queue, at)

    def stays_within(self, queue: int, ask: Ask) -> bool:
        """Tell whether a queue would hold no more than its quota of what is asked for, with it."""
        used, quota = self.used[queue], self.rows.subtree[queue]
        return all(used[at] + amount <= quota[at] for at, amount in ask)

    def is_over(self, queue: int, at: Iterable[int]) -> bool:
        """Tell whether a queue holds more than its quota of any of some rows."""
        used, quota = self.used[queue], self.rows.subtree[queue]
        return any(used[row] > quota[row] for row in at)

    def over(self, at: Iterable[int]) -> BoolVec:
        """Tell, ``(Q,)``, which queues hold more than their quota of any of some rows."""
        found = np.zeros(len(self.used), np.bool_)
        for row in at:
            found |= np.array([own[row] for own in self.used], np.int64) > self.rows.quota[row]
        return found

    def terms(self, queue: int) -> Terms:
        """Return the share of a queue as of now."""
        known = self._terms[queue]
        if known is None:
            used, origin = self.used[queue], self._origin
            if origin is not None and origin.used[queue] is used:  # rows are replaced, not changed
                known = origin.terms(queue)
            else:
                known = terms_of(self.rows, queue, used)
            self._terms[queue] = known
        return known

    def shares(self, queues: Iterable[int]) -> list[Share]:
        """Return the shares of some queues as of now."""
        return [(self._terms[queue] or self.terms(queue)).share for queue in queues]

    def borrowers(self, queues: Iterable[int]) -> list[tuple[Share, int]]:
        """Return those of some queues that borrow, with their shares."""
        every = ((self._terms[queue] or self.terms(queue), queue) for queue in queues)
        return [(terms.share, queue) for terms, queue in every if terms.is_borrowing]

    def terms_with(self, queue: int, ask: Ask) -> list[Terms]:
        """Return the shares on a queue's path, the queue first, with so much more."""
        self.add(queue, ask)
        found = [self.terms(node) for node in self.rows.path(queue)]
        self.take(queue, ask)
        return found


# Questions about many queues at once, answered from sums: no queue of the tree lends in part.
#
# Without lending limits what is held at a queue is what is held below it, added up, so that
# positions may be foreseen. A share is then two doubles: the nearest to the quotient, and the
# nearest to what it lacks. Whole numbers below 2^53 are doubles, and of those a quotient and its
# remainder are exact to the last place; equal quotients give equal pairs, and the pairs have the
# order of the quotients. Larger numbers are divided one by one, without a bound.


_EXACT = 1 << 53
_SPLIT = float((1 << 27) + 1)
Keys = tuple[IntVec, IntVec, FloatVec, FloatVec]


def order_keys(quotas: Quotas, queue: RowVec, held: Amounts, ask: Amounts) -> Keys:
    """Return key columns ``(K,)``: who borrows what is asked for, infinite shares, and the share.

    ``held`` is ``(F, K)``; the ask counts as held.
    """
    over = np.maximum(held + ask - quotas.subtree[:, queue], 0)
    over[:, quotas.parent[queue] < 0] = 0
    borrows = ((over > 0) & (ask > 0)).any(axis=0)
    is_over = over.any(axis=0)
    near, rest = np.zeros(len(queue)), np.zeros(len(queue))
    is_infinite = np.zeros(len(queue), np.int64)
    at = np.flatnonzero(is_over)
    if at.size:
        parts = by_resource(quotas, over[:, at])
        near[at], rest[at], infinite = _shares(quotas, queue[at], parts)
        is_infinite[at] = infinite
    return borrows.astype(np.int64), is_infinite, near, rest


def by_resource(quotas: Quotas, over: Amounts) -> Amounts:
    """``(resources, K)`` sums of amounts ``(F, K)`` over the rows of each resource."""
    count = len(quotas.lendable)
    if count == len(over):
        return over
    parts = np.zeros((count, over.shape[1]), np.int64)
    np.add.at(parts, quotas.resource, over)
    return parts


def _shares(quotas: Quotas, queue: RowVec, parts: Amounts) -> tuple[FloatVec, FloatVec, BoolVec]:
    """Return the shares of queues that borrow, and whether the weight makes them infinite."""
    lendable = quotas.lendable[:, queue]
    numerator, denominator = quotas.weight_columns
    up, down = numerator[queue], denominator[queue]
    is_infinite = up == 0
    up = np.where(is_infinite, 1, up)
    down = np.where(is_infinite, 1, down)
    near, rest = np.zeros(len(queue)), np.zeros(len(queue))
    for part, of in zip(parts, lendable, strict=True):
        is_some = (part > 0) & (of > 0)
        if not is_some.any():
            continue
        some = np.flatnonzero(is_some)
        high, low = _quotients(part[some], down[some], of[some], up[some])
        better = (high > near[some]) | ((high == near[some]) & (low > rest[some]))
        near[some[better]], rest[some[better]] = high[better], low[better]
    return near, rest, is_infinite


def _quotients(
    part: IntVec, part_by: IntVec, of: IntVec, of_by: IntVec
) -> tuple[FloatVec, FloatVec]:
    """Return ``part * part_by / (of * of_by)`` as two doubles."""
    # Bounds by doubles, with a margin for their rounding, before anything is multiplied.
    fits = (part.astype(float) * part_by < _EXACT / 2) & (of.astype(float) * of_by < _EXACT / 2)
    high, low = np.zeros(len(part)), np.zeros(len(part))
    if fits.any():
        above, below = (
            (part[fits] * part_by[fits]).astype(float),
            (of[fits] * of_by[fits]).astype(float),
        )
        high[fits] = above / below
        low[fits] = _remainder(above, high[fits], below) / below
    for at in np.flatnonzero(~fits).tolist():
        exact = Fraction(int(part[at]) * int(part_by[at]), int(of[at]) * int(of_by[at]))
        high[at] = exact.numerator / exact.denominator
        left = exact - Fraction(float(high[at]))
        low[at] = left.numerator / left.denominator
    return high, low


def _remainder(above: FloatVec, quotient: FloatVec, below: FloatVec) -> FloatVec:
    """Return ``above - quotient * below`` without an error: the product as a sum of two doubles."""
    product = quotient * below
    big, small = _halves(quotient)
    wide, narrow = _halves(below)
    error = ((big * wide - product) + big * narrow + small * wide) + small * narrow
    left: FloatVec = (above - product) - error
    return left


def _halves(number: FloatVec) -> tuple[FloatVec, FloatVec]:
    scaled = number * _SPLIT
    high = scaled - (scaled - number)
    return high, number - high


def is_beyond(bound: Amounts, held: Amounts, ask: Amounts) -> BoolVec:
    """Tell, ``(K,)``, where held and asked together pass a bound of something that is asked for."""
    room = np.where(bound >= UNLIMITED, UNLIMITED, bound - held)
    beyond: BoolVec = np.logical_or.reduce((ask > 0) & (ask > room), axis=0)
    return beyond
