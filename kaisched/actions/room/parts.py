"""Places the subgroups of a structured job, each on a set of nodes of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from kaisched.actions.room.orders import by_size, in_orders
from kaisched.framework.session.node_sets import shapes_of, subgroup_sets
from kaisched.framework.session.units import leaves

if TYPE_CHECKING:
    from collections.abc import Callable

    from kaisched.actions.room.orders import Place
    from kaisched.core.axis import RowVec
    from kaisched.core.tables import SubGroup
    from kaisched.framework.session.node_sets import NodeSet, NodeSets
    from kaisched.framework.session.session import Session
    from kaisched.framework.session.statement import Statement

    Size = Callable[[RowVec], int]
    """How large the pods of a subgroup are."""


def has_parts(session: Session, job: int) -> bool:
    """Tell whether subgroups of a job, or all of it, may have sets when they are placed."""
    is_structured = session.jobs.structure.get(job) is not None
    return is_structured and session.ask.subgroup_sets(session) is not None


class Budget:
    """How many sets of nodes of subgroups may still be tried to place one batch."""

    def __init__(self, left: int) -> None:
        self.left = left

    @property
    def share(self) -> int:
        """What one search may use: half of it, so that the next set of the job gets some too."""
        return (self.left + 1) // 2


def place_parts(
    session: Session,
    statement: Statement,
    tasks: RowVec,
    place: Place,
    budget: Budget | None = None,
) -> bool:
    """Place pods of one job, those of each subgroup on the first of its sets that has room.

    If pods of several shapes find none, they are tried in other orders, where the set of nodes says
    so. With a budget other choices are tried too: subgroups with most pods first, or with the
    largest, and the next set of an earlier subgroup where a later one finds no place.
    """
    job = int(session.tasks.job_of_task[tasks[0]])
    if len(tasks) > 1:
        place = in_orders(place)
    if not has_parts(session, job):
        return place(session, statement, tasks)
    root, mark = session.jobs.structure[job], statement.checkpoint()
    if _Parts(session, statement, job, place).put_part(root, tasks):
        return True
    statement.rollback(mark)
    if budget is None:
        return False
    return _Search(session, statement, job, place, budget).find(root, tasks)


def is_bound_in_parts(session: Session, job: int, tasks: RowVec) -> bool:
    """Tell whether some of these pods have sets of nodes of their subgroups."""
    return has_parts(session, job) and bool(_bound_parts(session, job, tasks))


def are_within(session: Session, job: int, tasks: RowVec, nodes: RowVec) -> bool:
    """Tell whether these nodes of pods are in one set of nodes of each subgroup."""
    return not has_parts(session, job) or all(
        any(each.nodes[nodes[np.isin(tasks, some)]].all() for each in sets)
        for some, sets in _bound_parts(session, job, tasks)
    )


def may_go_anywhere(session: Session, tasks: RowVec) -> bool:
    """Tell whether pods of a job may go to any node: none of them is bound, unless by a wish."""
    job = int(session.tasks.job_of_task[tasks[0]])
    if not _is_everywhere(session.placement.nodes):
        return False
    return not has_parts(session, job) or all(
        len(sets) and _is_everywhere(sets[-1]) for _, sets in _bound_parts(session, job, tasks)
    )


def _is_everywhere(nodes: NodeSet | None) -> bool:
    return nodes is None or (nodes.most is None and bool(nodes.nodes.all()))


def _bound_parts(session: Session, job: int, tasks: RowVec) -> list[tuple[RowVec, NodeSets]]:
    """Return the pods of each subgroup that has sets of nodes of its own, with the sets."""
    found: list[tuple[RowVec, NodeSets]] = []
    left = [(session.jobs.structure[job], tasks)]
    while left:
        group, some = left.pop()
        sets = subgroup_sets(session, job, group, shapes_of(session, some))
        if sets is not None:
            found.append((some, sets))
        left += _parts(session, group, some)
    return found


class _Parts:
    """One attempt to place a batch of a structured job."""

    def __init__(self, session: Session, statement: Statement, job: int, place: Place) -> None:
        self._session = session
        self._statement = statement
        self._job = job
        self._place = place

    def put(self, group: SubGroup, tasks: RowVec) -> bool:
        """Place the pods of a group on the set that is tried now, and its subgroups within it."""
        parts = self._bound_parts(group, tasks)
        if not parts:
            return self._place(self._session, self._statement, tasks)
        return all(self.put_part(child, some) for child, some in parts)

    def put_part(self, group: SubGroup, tasks: RowVec) -> bool:
        """Place a subgroup on the first of its sets where all of it fits."""
        session = self._session
        sets = self._sets(group, tasks)
        if sets is None:
            return self.put(group, tasks)
        for nodes in sets:
            mark = self._statement.checkpoint()
            with session.placement.within(nodes):
                if self.put(group, tasks):
                    return True
            self._statement.rollback(mark)
        return False

    def _sets(self, group: SubGroup, tasks: RowVec) -> NodeSets | None:
        return subgroup_sets(self._session, self._job, group, shapes_of(self._session, tasks))

    def _bound_parts(self, group: SubGroup, tasks: RowVec) -> list[tuple[SubGroup, RowVec]]:
        """Return the subgroups with some of the pods; none if nothing below has sets of its own."""
        parts = _parts(self._session, group, tasks)
        return parts if any(self._is_bound(child, some) for child, some in parts) else []

    def _is_bound(self, group: SubGroup, tasks: RowVec) -> bool:
        """Tell whether a subgroup has sets of its own, or one below it."""
        if self._sets(group, tasks) is not None:
            return True
        return any(
            self._is_bound(child, some) for child, some in _parts(self._session, group, tasks)
        )


def _parts(session: Session, group: SubGroup, tasks: RowVec) -> list[tuple[SubGroup, RowVec]]:
    """Return the subgroups with some of the pods, in the order of their first pods."""
    podset = session.tasks.podset_of_task[tasks]
    found: list[tuple[int, SubGroup, RowVec]] = []
    for child in group.children:
        at = np.flatnonzero(np.isin(podset, leaves(child)))
        if at.size:
            found.append((int(at[0]), child, tasks[at]))
    found.sort(key=lambda part: part[0])
    return [(child, some) for _, child, some in found]


class _Item(NamedTuple):
    """A subgroup to place, and the set of nodes around it."""

    group: SubGroup
    tasks: RowVec
    around: NodeSet | None


class _Search(_Parts):
    """Tries the choices of subgroups in turn, until all of them fit."""

    def __init__(
        self, session: Session, statement: Statement, job: int, place: Place, budget: Budget
    ) -> None:
        super().__init__(session, statement, job, place)
        self._budget = budget
        self._steps = budget.share
        self._size: Size = len

    def find(self, root: SubGroup, tasks: RowVec) -> bool:
        """Place all pods, subgroups in one order after the other; nothing is placed on failure."""
        around = self._session.placement.nodes
        if not self._below(root, tasks, around):  # there is nothing to choose
            return False
        is_bound = self._sets(root, tasks) is not None
        steps, is_found = self._steps, False
        for size in (len, *by_size(self._session, tasks)):
            self._size = size
            items = [_Item(root, tasks, around)] if is_bound else self._below(root, tasks, around)
            if is_found := self._rest(items):
                break
        self._budget.left -= steps - max(self._steps, 0)
        return is_found

    def _below(self, group: SubGroup, tasks: RowVec, around: NodeSet | None) -> list[_Item]:
        """Return the subgroups of a group, the largest first."""
        parts = sorted(self._bound_parts(group, tasks), key=lambda part: -self._size(part[1]))
        return [_Item(child, some, around) for child, some in parts]

    def _rest(self, items: list[_Item]) -> bool:
        """Place the first subgroup somewhere so that the others fit too."""
        if not items:
            return True
        (group, tasks, around), others = items[0], items[1:]
        placement = self._session.placement
        with placement.within(around):
            sets = self._sets(group, tasks)
        for nodes in (around,) if sets is None else sets:
            self._steps -= 1
            if self._steps < 0:
                return False
            mark = self._statement.checkpoint()
            with placement.within(nodes):
                below = self._below(group, tasks, nodes)
                is_open = bool(below) or self._place(self._session, self._statement, tasks)
            if is_open and self._rest(below + others):
                return True
            self._statement.rollback(mark)
        return False
