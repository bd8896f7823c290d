"""Places a batch of unequal pods that fits in no order of them, by trying all choices of nodes.

With a constraint, which leaves fewer nodes to choose from, plain ways of placing may find a choice
that they miss on all nodes. So on all nodes all choices are tried, as far as the steps go.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

import numpy as np

from kaisched.actions.room.by_card import is_tight
from kaisched.actions.room.parts import may_go_anywhere
from kaisched.core.packing import Bin, pack
from kaisched.framework.session.node_sets import shapes_of
from kaisched.framework.session.order import as_neighbours

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kaisched.core.axis import IntVec, RowVec
    from kaisched.framework.session.session import Session
    from kaisched.framework.session.statement import Statement

    Chosen = Mapping[int, RowVec]
    """By shape, a node for each of its pods."""

STEPS: Final = 256
"""How often a pod is put on a node at most to place one batch."""


def place_packed(
    session: Session, statement: Statement, tasks: RowVec, *, is_later: bool = False
) -> bool:
    """Place pods that may go to any node on idle room, or else on what will be released, too.

    Not equal pods: counting has told whether they fit. And only where there is a Topology:
    elsewhere pods are placed as ever. Nothing is placed on failure.
    """
    if len(tasks) > STEPS or not session.nodes.topologies:
        return False
    shapes = session.tasks.shape_of_task[tasks]
    if shapes.min() == shapes.max() or not may_go_anywhere(session, tasks):
        return False
    if is_tight(session, tasks):
        return False
    mark = statement.checkpoint()
    for later in (False, True) if is_later else (False,):
        chosen = _chosen(session, tasks, is_later=later)
        if chosen is not None and _put(session, statement, tasks, chosen, is_later=later):
            return True
        statement.rollback(mark)
    return False


def _chosen(session: Session, tasks: RowVec, *, is_later: bool) -> Chosen | None:
    """Choose nodes; None if there is too little kind by kind, or no choice is found."""
    capacity, placement = session.capacity, session.placement
    room_of = placement.future_vacancy if is_later else placement.vacancy
    shapes, counts = (np.array(each) for each in zip(*shapes_of(session, tasks), strict=True))
    room = np.stack([room_of(shape).room for shape in shapes.tolist()])
    if (room.sum(axis=1) < counts).any():
        return None
    rows = np.flatnonzero(room.any(axis=0))
    request = session.shapes.request[:, shapes]
    asked = request.any(axis=1)
    free = capacity.free()[:, rows] if is_later else capacity.unpromised(rows)
    bins, kept = _bins(np.maximum(free[asked], 0), room[:, rows], len(tasks))
    found = pack(bins, request[asked].T.tolist(), counts.tolist(), STEPS)
    if found is None:
        return None
    return {shape: rows[kept[it]] for shape, it in zip(shapes.tolist(), found, strict=True)}


def _bins(free: IntVec, room: IntVec, most: int) -> tuple[Sequence[Bin], RowVec]:
    """Return nodes as bins, and which they are; of equal nodes no more than there are pods."""
    bins, kept, known = [], [], Counter[Bin]()
    for at, (has, takes) in enumerate(zip(free.T.tolist(), room.T.tolist(), strict=True)):
        known[each := Bin(tuple(takes), tuple(has))] += 1
        if known[each] <= most:
            bins.append(each)
            kept.append(at)
    return bins, np.array(kept)


def _put(
    session: Session, statement: Statement, tasks: RowVec, chosen: Chosen, *, is_later: bool
) -> bool:
    """Place pods on the nodes chosen; False where a plugin or a card says no after all."""
    placement, shapes = session.placement, session.tasks.shape_of_task[tasks]
    for shape, nodes in chosen.items():
        pairs = as_neighbours(session, tasks[shapes == shape], nodes, placement.neighbours)
        for task, node in zip(*(each.tolist() for each in pairs), strict=True):
            if placement.vacancy(shape).room[node] > 0:
                statement.allocate(task, node)
            elif is_later and placement.future_vacancy(shape).room[node] > 0:
                statement.pipeline(task, node)
            else:
                return False
    return True
