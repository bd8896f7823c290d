"""Past usage of queues that share one quota in the order of usage: the sums behind F31 to F33.

The history is an average of what was held, recent times weighing more. What was started lately is
hardly in it yet, so it counts at once as much as the history will hold of it a little later.
Columns are ``(R, K)``: a row for each resource, in whatever unit the caller counts.
"""

from __future__ import annotations

import math

import numpy as np

from kaisched import Amounts, FloatVec, RowVec


def part_of_history(span_s: FloatVec, half_life_s: float, window_s: float) -> FloatVec:
    """Return ``(K,)`` how much of the whole history the last seconds are.

    Without a half-life every second of the window weighs the same.
    """
    span_s = np.maximum(span_s, 0.0)
    if half_life_s > 0:
        return -np.expm1(span_s * (-math.log(2) / half_life_s))
    return np.minimum(span_s / window_s, 1.0)


def whole_history_s(half_life_s: float, window_s: float) -> float:
    """Return the seconds that a full history weighs, old ones weighing less."""
    return half_life_s / math.log(2) if half_life_s > 0 else window_s


def penalties(queue: RowVec, amounts: Amounts | FloatVec, part: FloatVec, count: int) -> FloatVec:
    """Return ``(R, count)`` what counts against each queue for work that was started lately.

    Args:
        queue: ``(K,)`` the queue of each job; a job has one entry.
        amounts: ``(R, K)`` what each job holds.
        part: ``(K,)`` the part of it that the history does not have yet.
        count: the number of queues.

    """
    total = np.zeros((len(amounts), count))
    for row, held in zip(total, amounts, strict=True):
        np.add.at(row, queue, held * part)
    return total


def scores(
    consumed: FloatVec, penalty: FloatVec, resource_weight: FloatVec, weight: FloatVec
) -> FloatVec:
    """Return ``(K,)`` the usage by which queues are compared, the lowest first.

    A queue whose weight is 0 or less comes last: its usage is infinite.

    Args:
        consumed: ``(R, K)`` the average of what each queue held.
        penalty: ``(R, K)`` what counts on top, see :func:`penalties`.
        resource_weight: ``(R,)``.
        weight: ``(K,)`` of the queues.

    """
    total = np.zeros(len(weight))
    # Row by row: a product of matrices may add up in another order on another processor.
    for row, factor in enumerate(resource_weight.tolist()):
        total += factor * (consumed[row] + penalty[row])
    has_weight = weight > 0
    return np.where(has_weight, total / np.where(has_weight, weight, 1.0), np.inf)
