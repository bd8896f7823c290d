"""Places pods that ask for memory of a GPU where their queues would take them on some cards only.

What such a pod counts depends on the card of its node (rule V2 of docs/explanation/devices.md). The
gates are asked first with the least it could count, on the largest card. If a queue would refuse it
on the smallest one, it is asked again about each pod in turn, and, if that leaves too little for
the last ones, about all of them together: on which nodes would it take them? If these have no room
for all, each pod in turn takes the largest cards with room.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from kaisched.actions.order.gates import first_shut
from kaisched.core.axis import GPU
from kaisched.core.devices import card_mib, charges
from kaisched.framework.session.claims import NodeSet

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from kaisched.core.axis import Amounts, RowVec
    from kaisched.framework.session.session import Session
    from kaisched.framework.session.statement import Statement

    Place = Callable[[Session, Statement, RowVec], bool]
_LABEL: Final = "cards on which it stays within the bounds of its queues"


def least_ask(session: Session, tasks: RowVec | Sequence[int], ask: Amounts) -> Amounts:
    """``(R,)`` the least of what they ``ask`` for that pods could count, on the largest cards."""
    if session.shapes.by_card is None:
        return ask
    least: Amounts = session.least_charge[:, session.tasks.shape_of_task[list(tasks)]].sum(axis=1)
    return least


def is_tight(session: Session, tasks: RowVec) -> bool:
    """Tell whether a queue would refuse pods of a job on the smallest cards of the cluster."""
    if not _depends_on_cards(session, tasks):
        return False
    shapes = session.tasks.shape_of_task[tasks]
    ask = session.shapes.charge.take(shapes, axis=1).sum(axis=1)
    return bool(first_shut(session, session.action, _job_of(session, tasks), ask))


def within_bounds(place: Place) -> Place:
    """Make a way to place pods keep to the cards on which the queues of their job take them."""

    def placed(session: Session, statement: Statement, tasks: RowVec) -> bool:
        if not tasks.size or not is_tight(session, tasks):
            return place(session, statement, tasks)
        around, mark = session.placement.nodes, statement.checkpoint()
        # A bound says how many pods of the whole batch parts of the set get.
        is_bounded = around is not None and around.most is not None
        if not is_bounded and all(
            _place_on_open(session, statement, tasks[at : at + 1], place)
            for at in range(len(tasks))
        ):
            return True
        statement.rollback(mark)
        if len(tasks) == 1 and not is_bounded:
            return False
        # The first pods may have taken small cards, which left too little for the last ones.
        if _place_on_open(session, statement, tasks, place):
            return True
        statement.rollback(mark)
        return not is_bounded and all(
            _place_on_largest(session, statement, tasks[at : at + 1], place)
            for at in range(len(tasks))
        )

    return placed


def _place_on_open(session: Session, statement: Statement, tasks: RowVec, place: Place) -> bool:
    """Place pods on the nodes on which the queues of their job take all of them."""
    with session.placement.within(_open_nodes(session, tasks)):
        return place(session, statement, tasks)


def _place_on_largest(session: Session, statement: Statement, tasks: RowVec, place: Place) -> bool:
    """Place pods on the largest cards that have room, so that they count least."""
    size, mark = card_mib(session.nodes, np.arange(len(session.nodes))), statement.checkpoint()
    around = session.placement.nodes
    for mib in np.unique(size)[::-1]:
        some = NodeSet(_LABEL, size == mib)
        with session.placement.within(some if around is None else around.meet(some)):
            if _place_on_open(session, statement, tasks, place):
                return True
        statement.rollback(mark)
    return False


def is_over(session: Session, tasks: RowVec | Sequence[int]) -> bool:
    """Tell whether a queue would not have taken pods of a job where they are placed by now."""
    if not _depends_on_cards(session, tasks):
        return False
    rows = np.array(tasks, np.int64)
    ask = charges(session, rows, session.ledger.node_of_task[rows]).sum(axis=1)
    job = _job_of(session, rows)
    return bool(first_shut(session, session.action, job, ask, is_counted=True))


def _depends_on_cards(session: Session, tasks: RowVec | Sequence[int]) -> bool:
    by_card = session.shapes.by_card
    if by_card is None:
        return False
    return bool(by_card.memory_mib.take(session.tasks.shape_of_task[list(tasks)]).any())


def _job_of(session: Session, tasks: RowVec) -> int:
    return int(session.tasks.job_of_task[tasks[0]])


def _open_nodes(session: Session, tasks: RowVec) -> NodeSet:
    """Return the nodes of the present set on whose cards the queues of a job take these pods."""
    by_card = session.shapes.by_card
    assert by_card is not None
    shapes, job = session.tasks.shape_of_task[tasks], _job_of(session, tasks)
    most = session.shapes.charge.take(shapes, axis=1).sum(axis=1)
    size = card_mib(session.nodes, np.arange(len(session.nodes)))
    is_open = np.zeros(len(size), np.bool_)
    for mib in np.unique(size):
        ask = most.copy()
        ask[GPU] -= int(by_card.saved(shapes, mib).sum())
        if not first_shut(session, session.action, job, ask):
            is_open |= size == mib
    found, around = NodeSet(_LABEL, is_open), session.placement.nodes
    return found if around is None else around.meet(found)
