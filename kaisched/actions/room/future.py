"""How many pods of a shape would fit on each node once room being released is free.

The counts are kept per shape for the length of an action and updated for the nodes that changed. So
a claim in a cluster of thousands of nodes pays only for the few that it touches.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from kaisched.core.refusals import freeable_codes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kaisched.core.axis import BoolVec, CodeVec, IntVec
    from kaisched.framework.session.session import Session


class Future:
    """Future room for pods of one shape by node: by amounts, and by filters no eviction cures."""

    asked: Sequence[tuple[int, int]]
    """(resource, amount) of what one pod asks for."""
    allowed: BoolVec | None
    """``(N,)`` nodes that are not ruled out for good; None for all."""
    room: IntVec
    total: int
    is_plain: bool
    """True when ``room`` and ``allowed`` are exact for any set of victims; else placing decides."""

    def __init__(self, session: Session, shape: int) -> None:
        """Compute the room of every node."""
        self._session = session
        self.shape = shape
        capacity = session.capacity
        self.asked = capacity.asked(shape)
        plan = session.placement.plan(shape)
        self._codes: CodeVec | None = plan.codes
        # An eviction may take away the pods that a pod affinity requires.
        # Without victims, amounts say only at most what cards have room for.
        self.is_plain = not (
            plan.cap is not None
            or session.shapes.constraints[shape].pod_affinity
            or session.shapes.constraints[shape].spread
            or capacity.is_by_card(shape)
        )
        self.allowed = None
        if plan.codes is not None:
            curable = np.isin(plan.codes, freeable_codes())
            self.is_plain = self.is_plain and not curable.any()
            self.allowed = (plan.codes == 0) | curable
        self._seen = len(capacity.touched)
        self.room = capacity.room(shape, self.allowed)
        self.total = int(self.room.sum())

    @property
    def is_current(self) -> bool:
        """Whether plugins rule out the same nodes as when the room was computed."""
        return self._session.placement.plan(self.shape).codes is self._codes

    def catch_up(self) -> None:
        """Update the nodes that have changed since the last call."""
        capacity = self._session.capacity
        rows = set(capacity.touched[self._seen :])
        self._seen = len(capacity.touched)
        for node in rows:
            if self.allowed is None or self.allowed[node]:
                room = capacity.pods_on(node, self.shape)
                self.total += room - int(self.room[node])
                self.room[node] = room
