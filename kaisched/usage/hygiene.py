"""Cleans decayed sums for decisions: no invalid values, no float noise (rules U1 and U7)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from kaisched.core.usage import PARTS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kaisched.core.axis import BoolVec, FloatVec, IntVec

MOST_USAGE: Final = 2.0
"""Usage above twice the capacity is a mix-up of units: the whole resource is distrusted.

Slightly above 1 is possible: nodes may vanish under pods that still hold them.
"""


def _sound(used: FloatVec, capacity: FloatVec) -> IntVec | None:
    """Return the parts if all are valid, as nearly always; takes a third of the time."""
    # NaN is neither above nor below anything.
    if not (used.size and used.min() >= 0 and 0 < capacity.min() <= capacity.max() < np.inf):
        return None
    share = used / capacity[:, None]
    return _parts(share) if share.max() <= MOST_USAGE else None


def _parts(share: FloatVec) -> IntVec:
    return np.rint(share * PARTS).astype(np.int64)


def quantise(
    used: FloatVec, capacity: FloatVec, queues: Sequence[str], resources: Sequence[str]
) -> tuple[IntVec, BoolVec, tuple[str, ...]]:
    """Return parts ``(R, Q)``, distrusted resources ``(R,)``, and the reasons.

    Args:
        used: ``(R, Q)`` decayed amounts times seconds.
        capacity: ``(R,)`` likewise.
        queues: names, for the reasons.
        resources: names, for the reasons.

    A value that is no finite number of at least 0, or a queue above :data:`MOST_USAGE`, makes the
    whole resource distrusted: its parts are 0.

    """
    if (sound := _sound(used, capacity)) is not None:
        return sound, np.zeros(len(capacity), np.bool_), ()
    is_number = np.isfinite(used) & (used >= 0)
    has_capacity = np.isfinite(capacity) & (capacity > 0)
    share = np.divide(
        np.where(is_number, used, 0.0),
        np.where(has_capacity, capacity, 1.0)[:, None],
    )
    bad_capacity = ~has_capacity & ((used != 0).any(axis=1) | (capacity != 0))
    absurd = (share > MOST_USAGE) & has_capacity[:, None]
    unbelievable = bad_capacity | ~is_number.all(axis=1) | absurd.any(axis=1)
    reasons = []
    for row in np.flatnonzero(unbelievable).tolist():
        name = resources[row]
        if bad_capacity[row]:
            reasons.append(f"{name}: used, but its capacity is {capacity[row]:g}")
        elif not is_number[row].all():
            queue = queues[int(np.argmin(is_number[row]))]
            reasons.append(f"{name}: the usage of queue {queue} is no number")
        else:
            worst = int(np.argmax(share[row]))
            reasons.append(
                f"{name}: queue {queues[worst]} used {share[row, worst]:.3g} times the capacity;"
                " do both count in the same unit?"
            )
    believed = has_capacity & ~unbelievable
    return _parts(np.where(believed[:, None], share, 0.0)), unbelievable, tuple(reasons)
