"""How many pods of a shape would fit on each node once what is being released is free.

Kept per shape for the length of an action and brought up to date for the rows that moved, so that a
claim in a cluster of thousands of nodes pays for the few it touches.
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
    """Pods of one shape by node, by amounts and by what no eviction can cure."""

    __slots__ = (
        "_codes",
        "_seen",
        "_session",
        "allowed",
        "asked",
        "is_plain",
        "room",
        "shape",
        "total",
    )

    asked: Sequence[tuple[int, int]]
    """(resource, amount) of what one pod asks for."""
    allowed: BoolVec | None
    """``(N,)`` nodes that are not ruled out for good; None for all."""
    room: IntVec
    total: int
    is_plain: bool
    """True when amounts and ``allowed`` say it all, whoever is evicted; else plugins decide."""

    def __init__(self, session: Session, shape: int) -> None:
        """Work out every node."""
        self._session = session
        self.shape = shape
        capacity = session.capacity
        self.asked = capacity.asked(shape)
        plan = session.placement.plan(shape)
        self._codes: CodeVec | None = plan.codes
        # Who wants to be near others may lose what it wants to be near by an eviction.
        self.is_plain = plan.cap is None and not session.shapes.constraints[shape].pod_affinity
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
        """Whether plugins rule out the same nodes as when this was worked out."""
        return self._session.placement.plan(self.shape).codes is self._codes

    def catch_up(self) -> None:
        """Take in what has moved since the last look."""
        capacity = self._session.capacity
        rows = set(capacity.touched[self._seen :])
        self._seen = len(capacity.touched)
        for node in rows:
            if self.allowed is None or self.allowed[node]:
                room = capacity.on(node).pods(self.asked)
                self.total += room - int(self.room[node])
                self.room[node] = room
