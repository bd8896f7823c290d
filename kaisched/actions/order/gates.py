"""Whether the queues on a job's path accept a request, and whether their quotas cover it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from kaisched.core.axis import PODS
from kaisched.units import UNLIMITED

if TYPE_CHECKING:
    from kaisched.actions.order.candidates import Candidates
    from kaisched.core.axis import Amounts, BoolVec, RowVec
    from kaisched.framework.session.session import Session


# Whether the queues on a job's path accept a request, with what they have allocated now.


def first_shut(
    session: Session, action: str, job: int, ask: Amounts, *, is_counted: bool = False
) -> int:
    """Return the first refusal from a job's leaf queue to the root, or 0; ``ask`` is ``(R,)``.

    ``is_counted`` says that the queues hold ``ask`` by now, as the pods have been placed.
    """
    if not session.ask.has_queue_gates:
        return 0
    row, column, ledger = np.array([job]), ask[:, None], session.ledger
    for queue in session.queues.tree.path(int(session.jobs.queue_of_job[job])).tolist():
        here = [queue]
        held, strict = ledger.held[:, here], ledger.held_non_preemptible[:, here]
        if is_counted:
            held -= column
            strict -= column * (not session.jobs.is_preemptible[job])
        codes = session.ask.queue_gate(
            session,
            action,
            np.array(here),
            row,
            column,
            held,
            strict,
        )
        if codes is not None and codes[0]:
            return int(codes[0])
    return 0


# Which waiting jobs quotas cover, at every level.
#
# A leaf queue's quota covers a job if the queue stays within it. A queue above has room for the
# job in its quota beside what the quotas below it cover of the running work: what others below
# hold beyond their own quotas is no reason to keep a job from what is deserved.

_QUOTAS: Final = "quotas"


def are_covered(session: Session, candidates: Candidates, at: RowVec) -> BoolVec:
    """Tell, ``(K,)``, which candidates quotas cover, each on top of what is allocated now."""
    ask = candidates.least_asks(session, at)
    paths = session.queues.tree.path_of_leaf[candidates.queue[at]]
    room = _quota_left(session)
    covered = np.ones(len(at), np.bool_)
    for queue in paths.T:
        is_within = np.logical_and.reduce(ask <= room.take(queue, axis=1, mode="clip"), axis=0)
        covered &= is_within | (queue < 0)
    return covered


def _quota_left(session: Session) -> Amounts:
    """``(R, Q)`` what quotas leave beside the work that they cover."""
    quotas, tree = _quotas(session), session.queues.tree
    used = np.where(tree.is_leaf, session.held_now, 0)
    for rows in tree.levels[:0:-1]:
        covered = np.minimum(used, quotas).take(rows, axis=1)
        np.add.at(used.T, tree.parent_of_queue.take(rows), covered.T)
    return np.maximum(quotas - used, 0)


def _quotas(session: Session) -> Amounts:
    """``(R, Q)`` the quotas that count: none of pod slots, nor of queues that do not divide."""
    quotas: Amounts | None = session.found.get(_QUOTAS)
    if quotas is None:
        told, tree = session.ask.quotas(session), session.queues.tree
        quotas = np.array(session.queues.deserved if told is None else told)
        quotas[PODS] = UNLIMITED
        if session.fair_tree is not tree:
            quotas[:, ~tree.is_leaf] = UNLIMITED
        session.found[_QUOTAS] = quotas
    return quotas
