"""What the domains of topologies could hold if nothing ran at all (C7)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from kaisched import IntVec, Session, SubGroup, TaskState
from kaisched_plugins.topology.choosing import MOST_PODS, Shapes
from kaisched_plugins.topology.demands import Demand, demand_of, pods_of
from kaisched_plugins.topology.domains import Tree

_PENDING = int(TaskState.PENDING)


class Part(NamedTuple):
    """A subgroup that has to start with its job, with what must be in one domain."""

    group: SubGroup
    demand: Demand
    shapes: Shapes


class Limits:
    """The bounds of one cycle, each found out once: neither moves nor promises change them."""

    def __init__(self) -> None:
        """Know none yet."""
        self._sums: dict[tuple[Tree, int], list[IntVec]] = {}
        self._asked: dict[tuple[Tree, int, tuple[tuple[int, int], ...]], bool] = {}
        self._part_of_job: dict[int, Part | None] = {}

    def is_known(self, demand: Demand, shapes: Shapes) -> bool:
        """Tell whether a batch was found to be larger than every domain of its level."""
        return self._asked.get((demand.tree, demand.required, tuple(shapes)), False)

    def is_too_large(self, session: Session, demand: Demand, shapes: Shapes) -> bool:
        """Tell whether no domain of the required level could ever hold a batch.

        It is compared kind by kind, so a batch of several kinds may be too large without being told
        so; never the other way round.
        """
        key = demand.tree, demand.required, tuple(shapes)
        if key not in self._asked:
            self._asked[key] = demand.required >= 0 and not self._fits(session, demand, shapes)
        return self._asked[key]

    def part(self, session: Session, job: int, root: SubGroup) -> Part | None:
        """Return the first subgroup that a job needs to start and no domain could ever hold."""
        if job not in self._part_of_job:
            parts = _parts(session, job, root)
            large = (it for it in parts if self.is_too_large(session, it.demand, it.shapes))
            self._part_of_job[job] = next(large, None)
        return self._part_of_job[job]

    def _fits(self, session: Session, demand: Demand, shapes: Shapes) -> bool:
        able = np.ones(len(demand.tree.parent[demand.required]), np.bool_)
        for shape, count in shapes:
            key = demand.tree, shape
            if key not in self._sums:
                room = np.minimum(session.places_when_empty(shape), MOST_PODS)
                self._sums[key] = demand.tree.sums(room)
            able &= self._sums[key][demand.required] >= count
        return bool(able.any())


def _parts(session: Session, job: int, group: SubGroup) -> Iterator[Part]:
    """Yield the subgroups of equal pods, none of which runs, that a group needs to start."""
    if group.min_subgroup < len(group.children):
        return
    for child in group.children:
        yield from _parts(session, job, child)
        demand = None if child.topology is None else demand_of(session, child.topology)
        if child.podset < 0 or not isinstance(demand, Demand) or demand.required < 0:
            continue
        tasks = pods_of(session, job, child)
        need = int(session.podsets.minimum[child.podset])
        shapes = np.unique(session.tasks.shape_of_task[tasks])
        if len(shapes) == 1 and need and (session.state_now[tasks] == _PENDING).all():
            yield Part(child, demand, ((int(shapes[0]), need),))
