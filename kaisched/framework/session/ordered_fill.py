"""Fills a set of nodes in its own order, within its own bounds."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from kaisched.framework.session.shape_plan import Vacancy

if TYPE_CHECKING:
    from collections.abc import Callable

    from kaisched.core.axis import IntVec, RowVec
    from kaisched.framework.session.claims import NodeSet


def choose_within(
    nodes: NodeSet, vacancy: Vacancy, count: int, choose: Callable[[Vacancy, int], RowVec]
) -> RowVec | None:
    """Return a node row for each of some equal pods; None where the bounds leave too little room.

    ``choose`` chooses among nodes that are equal in the order of the set.
    """
    order = nodes.order
    if order is None:
        return choose(vacancy, count)
    most = None if nodes.most is None else nodes.most.get(vacancy.plan.shape, {})
    chosen: list[RowVec] = []
    for rank in np.unique(order[vacancy.room > 0]).tolist():
        room: IntVec = np.where(order == rank, vacancy.room, 0)
        some = Vacancy(vacancy.plan, room, int(room.sum()), None)
        take = min(count, some.total, count if most is None else most.get(rank, 0))
        if take:
            chosen.append(choose(some, take))
        count -= take
        if not count:
            return np.concatenate(chosen)
    return None
