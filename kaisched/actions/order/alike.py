"""Candidates that fail together: equal pods, of one queue, on the same sets of nodes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from kaisched.framework.session.node_sets import node_sets, shapes_of

if TYPE_CHECKING:
    from kaisched.actions.order.candidates import Candidates
    from kaisched.core.axis import BoolVec, RowVec
    from kaisched.framework.session.node_sets import NodeSets
    from kaisched.framework.session.session import Session


def sets_of(session: Session, action: str, candidates: Candidates, at: int) -> NodeSets | None:
    """Return the sets of nodes of one candidate; None if it may be placed on all nodes."""
    if session.ask.node_sets(session) is None:
        return None
    ask = candidates.asks(session, np.array([at]))[:, 0]
    job = int(candidates.job[at])
    batch = candidates.batches.get(job)
    one = [(int(candidates.shape[at]), int(candidates.size[at]))]
    shapes = one if batch is None else shapes_of(session, batch)
    return node_sets(session, action, job, ask, shapes)


def alike(session: Session, action: str, candidates: Candidates, at: int, among: BoolVec) -> RowVec:
    """Return the candidates that ask for at least as many equal pods on the same sets of nodes.

    Where one candidate finds no room, the others find none. ``among`` ``(C,)`` are those compared.
    """
    if candidates.shape[at] < 0:
        return np.empty(0, np.int64)
    same = (
        among
        & (candidates.queue == candidates.queue[at])
        & (candidates.shape == candidates.shape[at])
        & (candidates.size >= candidates.size[at])
    )
    rows: RowVec = same.nonzero()[0]
    if session.ask.node_sets(session) is None:
        return rows
    own = sets_of(session, action, candidates, at)
    kept = [
        row for row in rows.tolist() if _are_like(own, sets_of(session, action, candidates, row))
    ]
    return np.array(kept, np.int64)


def _are_like(own: NodeSets | None, others: NodeSets | None) -> bool:
    return own is others if own is None or others is None else own.is_like(others)
