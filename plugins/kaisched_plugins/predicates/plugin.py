"""The conditions that pods and nodes set on each other, amounts aside."""

from __future__ import annotations

from kaisched import CodeVec, Plugin, RowVec, Session, hookimpl
from kaisched_plugins.predicates.statics import StaticMasks

_MASKS = "predicates.masks"


class Predicates(Plugin):
    """Readiness, cordon, pressure, taints, node selector and affinity, ports, pod affinity."""

    name = "predicates"

    @hookimpl
    def node_filter(self, session: Session, shape: int, rows: RowVec) -> CodeVec | None:
        """Refuse nodes on which pods of the shape may not run."""
        masks: StaticMasks | None = session.hints.get(_MASKS)
        if masks is None or masks.statics is not session.nodes.statics:
            masks = session.hints[_MASKS] = StaticMasks(session.nodes.statics)
        codes = masks.codes(session.shapes.constraints[shape])
        return None if codes is None else codes.take(rows)
