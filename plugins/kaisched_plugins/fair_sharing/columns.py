"""Questions about many queues at once, answered from sums: no queue of the tree lends in part.

Without lending limits what is held at a queue is what is held below it, added up, so that positions
may be foreseen. A share is then two doubles: the nearest to the quotient, and the nearest to what
it lacks. Whole numbers below 2^53 are doubles, and of those a quotient and its remainder are exact
to the last place; equal quotients give equal pairs, and the pairs have the order of the quotients.
Larger numbers are divided one by one, without a bound.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from kaisched import UNLIMITED, Amounts, BoolVec, FloatVec, IntVec, RowVec
from kaisched_plugins.fair_sharing.quotas import Quotas

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
