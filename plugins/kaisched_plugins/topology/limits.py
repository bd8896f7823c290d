"""What the domains of topologies could hold if nothing ran at all (C7)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from kaisched import IntVec, Session, SubGroup, TaskState
from kaisched_plugins.topology import refusals
from kaisched_plugins.topology.choosing import MOST_PODS, Shapes
from kaisched_plugins.topology.demands import Demand, demand_of, is_divided
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


def _parts(session: Session, job: int, root: SubGroup) -> Iterator[Part]:
    """Yield the subgroups with a condition, no pod of which runs, that a job needs to start."""
    if not is_divided(root):
        return
    starting = Starting(session, job)
    for group in _needed(root):
        demand = None if group.topology is None else demand_of(session, group.topology)
        if demand is None or (isinstance(demand, Demand) and demand.required < 0):
            continue
        pods = starting.of(group)
        if pods:
            yield Part(group, demand, tuple(sorted(pods.items())))


def _needed(group: SubGroup) -> Iterator[SubGroup]:
    """Yield the subgroups without which a group does not start, the innermost first."""
    if group.min_subgroup < len(group.children):
        return
    for child in group.children:
        yield from _needed(child)
        yield child


class Starting:
    """The pods of a job that start together, counted once for all of its subgroups."""

    def __init__(self, session: Session, job: int) -> None:
        """Count the pods of each pod set by shape."""
        tasks = np.array(session.jobs.tasks[job], np.int64)
        podset = session.tasks.podset_of_task[tasks].tolist()
        shape = session.tasks.shape_of_task[tasks].tolist()
        waits = (session.state_now[tasks] == _PENDING).tolist()
        self._minimum = session.podsets.minimum
        self._shapes: dict[int, Counter[int]] = {}
        self._begun = {at for at, is_waiting in zip(podset, waits, strict=True) if not is_waiting}
        for at, one in zip(podset, shape, strict=True):
            self._shapes.setdefault(at, Counter())[one] += 1

    def of(self, group: SubGroup) -> Counter[int] | None:
        """Count the pods of a subgroup by shape; None if they are not known or some have begun."""
        if not group.children:
            return self._of_podset(group.podset)
        if group.min_subgroup < len(group.children):
            return None
        found: Counter[int] = Counter()
        for child in group.children:
            more = self.of(child)
            if more is None:
                return None
            found += more
        return found

    def _of_podset(self, podset: int) -> Counter[int] | None:
        need, pods = int(self._minimum[podset]), self._shapes.get(podset, Counter())
        if not need or not pods:
            return Counter()
        if podset in self._begun or (len(pods) > 1 and need < pods.total()):
            return None
        return Counter({next(iter(pods)): need}) if len(pods) == 1 else Counter(pods)


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
