"""Other orders in which the pods of a batch are placed: the largest first, by each resource."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from kaisched.core.axis import IntVec, RowVec
    from kaisched.framework.session.session import Session
    from kaisched.framework.session.statement import Statement

    Place = Callable[[Session, Statement, RowVec], bool]
    """Places pods on the set of nodes that is tried now."""


def in_orders(place: Place) -> Place:
    """Return what places pods in their order, and in others where these do not fit so.

    On all nodes, or on a set of nodes that says it; the caller rolls back.
    """

    def placed(session: Session, statement: Statement, tasks: RowVec) -> bool:
        mark = statement.checkpoint()
        if place(session, statement, tasks):
            return True
        nodes = session.placement.nodes
        if nodes is not None and not nodes.reorders:
            return False
        statement.rollback(mark)
        if nodes is None and not _are_counted(session, tasks):
            return False
        for some in _orders(session, tasks):
            statement.rollback(mark)
            if place(session, statement, some):
                return True
        return False

    return placed


def _are_counted(session: Session, tasks: RowVec) -> bool:
    """Tell whether there is room for the pods kind by kind: if not, no order of them would do."""
    placement = session.placement
    has_releasing = session.capacity.has_releasing
    room_of = placement.future_vacancy if has_releasing else placement.vacancy
    shapes, counts = np.unique(session.tasks.shape_of_task[tasks], return_counts=True)
    pairs = zip(shapes.tolist(), counts.tolist(), strict=True)
    return len(shapes) > 1 and all(room_of(shape).total >= count for shape, count in pairs)


def by_size(session: Session, tasks: RowVec) -> Iterator[Callable[[RowVec], int]]:
    """Yield for each resource of which pods want unequal amounts what tells how much one wants."""
    return (partial(_largest, session, it) for it in _unequal(session, tasks))


def _largest(session: Session, amounts: IntVec, tasks: RowVec) -> int:
    return int(amounts[session.tasks.shape_of_task[tasks]].max())


def _orders(session: Session, tasks: RowVec) -> Iterator[RowVec]:
    """Yield pods in other orders, each order of shapes once."""
    shapes = session.tasks.shape_of_task[tasks]
    tried = {shapes.tobytes()}
    for amounts in _unequal(session, tasks):
        at = np.argsort(-amounts[shapes], kind="stable")
        if (key := shapes[at].tobytes()) not in tried:
            tried.add(key)
            yield tasks[at]


def _unequal(session: Session, tasks: RowVec) -> Iterator[IntVec]:
    """Yield ``(S,)`` what shapes ask for of each resource of which some pods want more."""
    shapes = np.unique(session.tasks.shape_of_task[tasks])
    for amounts in session.shapes.request:
        if amounts[shapes].min() < amounts[shapes].max():
            yield amounts
