"""Resource type: keeps pods without GPUs away from nodes with GPUs."""
# ruff: noqa: ARG002 - a question's arguments are the same for all who answer it

from __future__ import annotations

import numpy as np

from kaisched import GPU, FloatVec, IntVec, Plugin, RowVec, Session, hookimpl


class ResourceType(Plugin):
    """Pods without GPUs to nodes without GPUs."""

    name = "resourcetype"
    default_weight = 10.0
    is_score_rising = True  # it does not depend on what is there

    @hookimpl
    def node_score(
        self, session: Session, shape: int, rows: RowVec, extra: IntVec
    ) -> FloatVec | None:
        """Answer which nodes offer no GPU, for pods that ask for none."""
        if session.shapes.charge[GPU, shape] > 0:
            return None
        offered = session.axis.charged(session.nodes.allocatable)[GPU]
        has_none: FloatVec = (offered.take(rows) == 0).astype(np.float64)
        return has_none
