"""Quiet nodes first: prefer nodes that carry a label."""

from __future__ import annotations

import numpy as np

from kaisched import Arguments, FloatVec, IntVec, Plugin, RowVec, Session, hookimpl


class QuietNodesArguments(Arguments):
    """What a shard may say about this plugin."""

    label: str = "example.com/quiet"


class QuietNodes(Plugin):
    """Prefers nodes that carry a label, whatever its value."""

    name = "quiet-nodes"
    default_weight = 20.0
    is_score_rising = True
    Arguments = QuietNodesArguments

    @hookimpl
    def node_score(
        self,
        session: Session,
        shape: int,  # noqa: ARG002
        rows: RowVec,
        extra: IntVec,  # noqa: ARG002
    ) -> FloatVec:
        """Answer 1 for a quiet node and 0 for any other, all of them at once."""
        value, _ = session.nodes.statics.label_column(self.arguments.label)
        return (value[rows] >= 0).astype(np.float64)
