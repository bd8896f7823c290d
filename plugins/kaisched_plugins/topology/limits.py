"""What the domains of topologies could hold if nothing ran at all (C7)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from kaisched import IntVec, Session, SubGroup, TaskState
from kaisched_plugins.topology import refusals
from kaisched_plugins.topology.choosing import MOST_PODS, Shapes
from kaisched_plugins.topology.demands import Demand, demand_of, pods_of
from kaisched_plugins.topology.domains import Tree

_PENDING = int(TaskState.PENDING)


class Part(NamedTuple):
    """A subgroup that has to start with its job and cannot, with what must be in one domain."""

    group: SubGroup
    demand: Demand | int
    """Or the refusal for a name in it that does not exist."""
    shapes: Shapes

    @property
    def code(self) -> int:
        """Why it cannot start."""
        return self.demand if isinstance(self.demand, int) else refusals.TOO_LARGE


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
        """Return the first subgroup that a job needs to start and that can never start."""
        if job not in self._part_of_job:
            parts = _parts(session, job, root)
            self._part_of_job[job] = next(
                (it for it in parts if self._is_hopeless(session, it)), None
            )
        return self._part_of_job[job]

    def _is_hopeless(self, session: Session, part: Part) -> bool:
        demand = part.demand
        return isinstance(demand, int) or self.is_too_large(session, demand, part.shapes)

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
    """Yield the subgroups with a condition, no pod of which runs, that a group needs to start."""
    if group.min_subgroup < len(group.children):
        return
    for child in group.children:
        yield from _parts(session, job, child)
        demand = None if child.topology is None else demand_of(session, child.topology)
        if demand is None or (isinstance(demand, Demand) and demand.required < 0):
            continue
        needs = starting(session, job, child)
        if needs:
            yield Part(child, demand, tuple(sorted(needs.items())))


def starting(session: Session, job: int, group: SubGroup) -> Counter[int] | None:
    """Count the pods that start together in a subgroup, by shape; None if that is not known."""
    found: Counter[int] = Counter()
    if group.children:
        if group.min_subgroup < len(group.children):
            return None
        for child in group.children:
            more = starting(session, job, child)
            if more is None:
                return None
            found += more
        return found
    tasks = pods_of(session, job, group)
    need = int(session.podsets.minimum[group.podset])
    if not need:
        return found
    shapes, counts = np.unique(session.tasks.shape_of_task[tasks], return_counts=True)
    if not (session.state_now[tasks] == _PENDING).all() or (len(shapes) > 1 and need < len(tasks)):
        return None
    if len(shapes) == 1:
        counts[0] = need
    return Counter(dict(zip(shapes.tolist(), counts.tolist(), strict=True)))


def out_of_use(session: Session, tree: Tree, level: int, domain: int) -> str:
    """Say how many nodes cannot be used now: of a domain, or else of others; of all with -1."""
    statics = session.nodes.statics
    is_down = (~statics.is_ready | statics.is_unschedulable) & tree.is_member
    inside = is_down if domain < 0 else is_down & tree.mask(level, domain)
    down = int(inside.sum() or is_down.sum())
    if not down:
        return ""
    whose = "in all" if domain < 0 else "of it" if inside.any() else "of others"
    return (
        f"; {down} node{'s' * (down != 1)} {whose} {'is' if down == 1 else 'are'} down or cordoned"
    )
