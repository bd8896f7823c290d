"""Tells by amounts which pods could not move to make room for a claim, in whatever order.

Most plans to move pods fail in a full cluster: the claim takes the room that the moved pods need.
The count costs a small part of an attempt to place all of them. It proves failure only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from kaisched.framework.session.capacity import room_of

if TYPE_CHECKING:
    from kaisched.actions.eviction.plan import Demand
    from kaisched.actions.eviction.search import Search
    from kaisched.core.axis import Amounts, BoolVec
    from kaisched.framework.session.session import Session
    from kaisched.framework.session.units import Unit


def without_place(
    session: Session, search: Search, demand: Demand, units: list[Unit]
) -> list[Unit]:
    """Return units that find no place while the whole claim has room; none where that is open.

    All units have left their nodes. A pod of a unit may then be on a node, its own or another, only
    if the claim still has room enough there and elsewhere.
    """
    if len(demand.shapes) > 1 or not _decide_amounts(session):
        return []
    shape, count = demand.shapes[0]
    future = search.future(shape)
    shape_of_task, requests = session.tasks.shape_of_task, session.shapes.request
    shapes = {int(shape_of_task[task]) for unit in units for task in unit.tasks}
    if not all(search.future(it).is_plain for it in (shape, *shapes)):
        return []
    tasks = np.array([task for unit in units for task in unit.tasks], np.int64)
    nodes = session.ledger.node_of_task[tasks]
    free = session.capacity.free()
    np.add.at(free.T, nodes, requests.T[shape_of_task[tasks]])
    room = room_of(free, requests[:, shape], future.allowed)
    to_spare = int(room.sum()) - count

    def has_place(moved: int) -> bool:
        request = requests[:, moved, None]
        fits: BoolVec = np.logical_and.reduce(free >= request, axis=0)
        allowed = search.future(moved).allowed
        if allowed is not None:
            fits = fits & allowed
            fits[nodes] = True  # a pod may stay where it could not start
        left: Amounts = free - request
        lost = room - room_of(left, requests[:, shape], future.allowed)
        return bool((fits & (lost <= to_spare)).any())

    lacking = {moved for moved in shapes if not has_place(moved)}
    return [unit for unit in units if any(int(shape_of_task[it]) in lacking for it in unit.tasks)]


def _decide_amounts(session: Session) -> bool:
    """Tell whether pods that may go to a node need nothing but amounts there."""
    return (
        session.capacity.cards is None
        and session.devices is None
        and session.placement.nodes is None
        and session.ask.node_sets(session) is None
    )
