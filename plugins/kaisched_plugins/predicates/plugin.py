"""Predicates: which nodes may take a pod at all, and how many equal pods."""

from __future__ import annotations

import numpy as np

from kaisched import CodeVec, IntVec, Plugin, Refusal, RowVec, Session, hookimpl
from kaisched_plugins.predicates.neighbours import Neighbours, PodTerms
from kaisched_plugins.predicates.statics import StaticMasks


class Predicates(Plugin):
    """Checks the constraints between pods and nodes, except amounts."""

    name = "predicates"

    @hookimpl
    def session_open(self, session: Session) -> object:
        """Return the index of pods' constraints on other pods; nothing is counted yet."""
        return Neighbours(PodTerms.of(session))

    @hookimpl
    def node_filter(self, session: Session, shape: int, rows: RowVec) -> CodeVec | None:
        """Refuse nodes on which pods of the shape may not run."""
        constraints = session.shapes.constraints[shape]
        masks = StaticMasks.of(session)
        codes = masks.codes(constraints)
        neighbours: Neighbours = session.state[self.name]
        if constraints.has_pod_terms or neighbours.terms.holders:
            codes = neighbours.codes(session, shape, codes)
        if constraints.unbound:
            codes = neighbours.volumes.codes(masks, shape, constraints.unbound, codes)
        if neighbours.terms.mig_by_annotation:
            codes = neighbours.beside_mig(session, shape, codes)
        return None if codes is None else codes.take(rows)

    @hookimpl
    def node_room(self, session: Session, shape: int, rows: RowVec) -> IntVec | None:
        """Answer one pod for each node if a port or anti-affinity to itself allows no second."""
        neighbours: Neighbours = session.state[self.name]
        terms = neighbours.terms
        if not terms.port_shapes and not terms.self_averse:
            return None
        room = neighbours.room(session, shape)
        return None if room is None else room.take(rows)

    @hookimpl
    def node_domains(self, session: Session, shape: int) -> IntVec | None:
        """Return the domains in one of which all pods of a group with affinity to itself start."""
        neighbours: Neighbours = session.state[self.name]
        return neighbours.domains(session, shape)

    @hookimpl
    def node_reason(self, session: Session, shape: int, code: int) -> str | None:
        """Return the spread constraints that refuse nodes, with the counts of their domains."""
        if code != Refusal.TOPOLOGY_SPREAD:
            return None
        neighbours: Neighbours = session.state[self.name]
        tallies, _ = neighbours.spread(session, shape, session.shapes.constraints[shape].spread)
        over = [it for it in tallies if it.is_over.any()] or tallies
        return "; ".join(it.sentence for it in over)

    def is_silent(self, session: Session, question: str) -> bool:
        """Promise it about moves while no pod has host ports or terms about other pods."""
        neighbours: Neighbours = session.state[self.name]
        return question == "on_moves" and not neighbours.terms.are_any

    @hookimpl
    def on_moves(
        self, session: Session, task: RowVec, node: RowVec, sign: int
    ) -> tuple[RowVec, RowVec] | None:
        """Return the shapes whose answers depended on the nodes of these tasks."""
        neighbours: Neighbours = session.state[self.name]
        shapes = neighbours.stale(session, task)
        shapes += neighbours.volumes.stale(session, StaticMasks.of(session), (task, node), sign)
        return (np.array(shapes, np.int64), node) if shapes else None
