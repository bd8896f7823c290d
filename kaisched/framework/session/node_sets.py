"""The sets of nodes on which plugins let a job be placed, asked for one job at a time."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kaisched.core.axis import Amounts, RowVec
    from kaisched.core.tables import SubGroup
    from kaisched.framework.session.claims import NodeSets
    from kaisched.framework.session.session import Session

    Shapes = Sequence[tuple[int, int]]
    """(shape, pods) of the pods that are placed together."""


def node_sets(
    session: Session, action: str, job: int, ask: Amounts, shapes: Shapes
) -> NodeSets | None:
    """Return the sets to try for a job, the best first; None if it may be placed on all nodes."""
    asker = session.ask.node_sets(session)
    if asker is None:
        return None
    with session.placement.within(None):
        return asker(session, action, job, ask, shapes)


def subgroup_sets(session: Session, job: int, group: SubGroup, shapes: Shapes) -> NodeSets | None:
    """Return the sets to try for a subgroup, within the set of nodes that is tried now.

    None if the subgroup may be placed wherever the groups that hold it may.
    """
    asker = session.ask.subgroup_sets(session)
    sets = None if asker is None else asker(session, job, group, shapes)
    around = session.placement.nodes
    if sets is None or around is None:
        return sets
    return sets.within(around)


def shapes_of(session: Session, tasks: RowVec) -> Shapes:
    """Return (shape, pods) of some pods, in the order of their first pods."""
    return list(Counter(session.tasks.shape_of_task[tasks].tolist()).items())
