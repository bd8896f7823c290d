"""Which waiting jobs quotas cover: every queue on their path stays within its quota with them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from kaisched.core.axis import PODS
from kaisched.units import UNLIMITED

if TYPE_CHECKING:
    from kaisched.actions.order.candidates import Candidates
    from kaisched.core.axis import Amounts, BoolVec, RowVec
    from kaisched.framework.session.session import Session

_FOUND: Final = "quotas"


def are_covered(
    session: Session, candidates: Candidates, at: RowVec, *, is_sum: bool = False
) -> BoolVec:
    """Tell, ``(K,)``, which candidates quotas cover on top of what their queues hold now.

    Each by itself, or with ``is_sum`` one after the other.
    """
    ask = candidates.least_asks(session, at)
    if is_sum:
        ask = ask.cumsum(axis=1)
    paths = session.queues.tree.path_of_leaf[candidates.queue[at]]
    room = np.maximum(_quotas(session) - session.held_now, 0)
    covered = np.ones(len(at), np.bool_)
    for queue in paths.T:
        is_within = np.logical_and.reduce(ask <= room.take(queue, axis=1, mode="clip"), axis=0)
        covered &= is_within | (queue < 0)
    return covered


def _quotas(session: Session) -> Amounts:
    """``(R, Q)`` the quotas that count: none of pod slots, nor of queues that do not divide."""
    quotas: Amounts | None = session.found.get(_FOUND)
    if quotas is None:
        told, tree = session.ask.quotas(session), session.queues.tree
        quotas = np.array(session.queues.deserved if told is None else told)
        quotas[PODS] = UNLIMITED
        if session.fair_tree is not tree:
            quotas[:, ~tree.is_leaf] = UNLIMITED
        session.found[_FOUND] = quotas
    return quotas
