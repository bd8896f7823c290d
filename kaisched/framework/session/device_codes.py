"""Refuses nodes for what claims on devices find there."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from kaisched.core.refusals import Refusal

if TYPE_CHECKING:
    from kaisched.core.axis import BoolVec, CodeVec, IntVec


def refuse(refused: CodeVec, where: BoolVec, refusal: Refusal) -> None:
    """Refuse nodes that are not refused already."""
    refused[where & (refused == 0)] = int(refusal)


def leave_one(refused: CodeVec, now: IntVec, later: IntVec) -> None:
    """Leave one node to pods that share a claim which has no devices yet: all go there.

    That with most room for them now, or else later.
    """
    for code, room in ((0, now), (int(Refusal.DEVICES_LEAVING), later)):
        found = np.flatnonzero(refused == code)
        if found.size:
            best = found[room[found].argmax()]
            refused[np.isin(refused, (0, int(Refusal.DEVICES_LEAVING)))] = int(Refusal.DEVICES)
            refused[best] = code
            return
