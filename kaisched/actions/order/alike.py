"""Candidates that fail together: equal pods, of one queue, on the same sets of nodes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from kaisched.framework.session.node_sets import keys_of, node_sets

if TYPE_CHECKING:
    from kaisched.actions.order.candidates import Candidates
    from kaisched.core.axis import BoolVec, RowVec
    from kaisched.framework.session.claims import NodeSet
    from kaisched.framework.session.session import Session


def sets_of(session: Session, action: str, candidates: Candidates, at: int) -> list[NodeSet] | None:
    """Return the sets of nodes of one candidate; None if it may be placed on all nodes."""
    if session.ask.node_sets(session) is None:
        return None
    ask = candidates.asks(session, np.array([at]))[:, 0]
    return node_sets(session, action, int(candidates.job[at]), ask)


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
    own = keys_of(sets_of(session, action, candidates, at))
    kept = [
        row for row in rows.tolist() if keys_of(sets_of(session, action, candidates, row)) == own
    ]
    return np.array(kept, np.int64)
