"""Node availability: prefers nodes on which a pod can start at once."""

from __future__ import annotations

import numpy as np

from kaisched import FloatVec, IntVec, Plugin, RowVec, Session, hookimpl


class NodeAvailability(Plugin):
    """Nodes with room now before nodes whose room is still being released."""

    name = "nodeavailability"
    default_weight = 1000.0
    is_score_rising = True  # it stays 1 as long as the pods fit

    @hookimpl
    def node_score(self, session: Session, shape: int, rows: RowVec, extra: IntVec) -> FloatVec:
        """Answer whether one more pod fits idle with ``extra`` of its shape already there."""
        fits: FloatVec = (session.room(shape).take(rows) > extra).astype(np.float64)
        return fits
