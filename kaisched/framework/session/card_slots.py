"""Pod slots that cards take: one that is opened gets a reservation pod, which has a slot too.

So a pod that opens cards needs a slot for itself and one for each of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    from kaisched.core.axis import IntVec

ENOUGH: Final = 1 << 40
"""More slots for pods than any node has."""


def pods_by_slots(
    on_open: IntVec, whole: IntVec, per_card: IntVec, slots: IntVec, *, is_spread: bool
) -> IntVec:
    """``(K,)`` pods with a share of one card that fit, placed one by one into the free slots.

    ``on_open`` fit on open cards and ``per_card`` on each of ``whole`` cards that can be opened.
    Packed, open cards come first; spread, cards are opened as long as there is a slot for both.
    """
    slots = np.maximum(slots, 0)
    if is_spread:
        opened = np.where(per_card > 0, np.minimum(whole, slots // 2), 0)
        rest = np.minimum(slots - 2 * opened, on_open + opened * (per_card - 1))
        pods: IntVec = opened + rest
        return pods
    fits: IntVec = np.minimum(on_open, slots)
    slots = slots - fits
    full = np.minimum(whole, slots // (per_card + 1))
    fits += full * per_card
    fits += np.maximum(slots - full * (per_card + 1) - 1, 0) * (full < whole)
    return fits
