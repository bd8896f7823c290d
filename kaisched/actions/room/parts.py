"""Places the subgroups of a structured job, each on a set of nodes of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from kaisched.framework.session.node_sets import shapes_of, subgroup_sets

if TYPE_CHECKING:
    from collections.abc import Callable

    from kaisched.core.axis import RowVec
    from kaisched.core.tables import SubGroup
    from kaisched.framework.session.claims import NodeSet, NodeSets
    from kaisched.framework.session.session import Session
    from kaisched.framework.session.statement import Statement

    Place = Callable[[Session, Statement, RowVec], bool]
    """Places pods on the set of nodes that is tried now."""


def has_parts(session: Session, job: int) -> bool:
    """Tell whether subgroups of a job, or all of it, may have sets when they are placed."""
    is_structured = session.jobs.structure.get(job) is not None
    return is_structured and session.ask.subgroup_sets(session) is not None


def place_parts(
    session: Session, statement: Statement, tasks: RowVec, place: Place, steps: int = 0
) -> bool:
    """Place pods of one job, those of each subgroup on the first of its sets that has room.

    If a subgroup finds none, and ``steps`` are given, other choices are tried: subgroups with most
    pods first, the next set of an earlier subgroup where a later one finds no place. At most so
    many sets are tried.
    """
    job = int(session.tasks.job_of_task[tasks[0]])
    if not has_parts(session, job):
        return place(session, statement, tasks)
    root, mark = session.jobs.structure[job], statement.checkpoint()
    if _Parts(session, statement, job, place).put_part(root, tasks):
        return True
    statement.rollback(mark)
    return steps > 0 and _Search(session, statement, job, place, steps).find(root, tasks)


def is_bound_in_parts(session: Session, job: int, tasks: RowVec) -> bool:
    """Tell whether some of these pods have sets of nodes of their subgroups."""
    return has_parts(session, job) and bool(_bound_parts(session, job, tasks))


def are_within(session: Session, job: int, tasks: RowVec, nodes: RowVec) -> bool:
    """Tell whether these nodes of pods are in one set of nodes of each subgroup."""
    return not has_parts(session, job) or all(
        any(each.nodes[nodes[np.isin(tasks, some)]].all() for each in sets)
        for some, sets in _bound_parts(session, job, tasks)
    )


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
        self, session: Session, statement: Statement, job: int, place: Place, steps: int
    ) -> None:
        super().__init__(session, statement, job, place)
        self._steps = steps

    def find(self, root: SubGroup, tasks: RowVec) -> bool:
        """Place all pods; nothing is placed on failure."""
        around = self._session.placement.nodes
        items = self._below(root, tasks, around)
        if not items:  # there is nothing to choose
            return False
        is_bound = self._sets(root, tasks) is not None
        return self._rest([_Item(root, tasks, around)] if is_bound else items)

    def _below(self, group: SubGroup, tasks: RowVec, around: NodeSet | None) -> list[_Item]:
        """Return the subgroups of a group, those with most pods first."""
        parts = sorted(self._bound_parts(group, tasks), key=lambda part: -len(part[1]))
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


def leaves(group: SubGroup) -> list[int]:
    """Return the pod sets of a group."""
    if group.podset >= 0:
        return [group.podset]
    return [podset for child in group.children for podset in leaves(child)]
