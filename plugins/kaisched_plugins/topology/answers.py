"""The sets of nodes for jobs and subgroups in one cycle, remembered while nothing moves."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from kaisched import NodeSet, RowVec, Session, SubGroup
from kaisched_plugins.topology import refusals
from kaisched_plugins.topology.choices import ALL, LABELLED, ONE, Choices, Stage
from kaisched_plugins.topology.choosing import Chooser, Shapes
from kaisched_plugins.topology.demands import (
    Demand,
    Pins,
    demand_of,
    is_divided,
    pins_of,
    pods_of,
)
from kaisched_plugins.topology.few import sums_of
from kaisched_plugins.topology.limits import Limits
from kaisched_plugins.topology.patience import Awaited, end_s, strict_of
from kaisched_plugins.topology.podsets.answers import Batch, everywhere, sets_within
from kaisched_plugins.topology.podsets.filling import Style
from kaisched_plugins.topology.podsets.plan import roles_of, workers_held

_ALLOCATE = "allocate"
_WITHIN = ""
"""In place of an action, for a subgroup: its group has chosen, and counts room once released."""

_FOR_ROOM = (refusals.NO_DOMAIN, refusals.OUT_OF_REACH)
"""What may turn out to be for good."""

Sets = Sequence[NodeSet] | int | None


class Answers:
    """Answers of one cycle."""

    def __init__(self, style: Style) -> None:
        """Know none yet."""
        self._style = style
        self._moves = -1
        self._known: dict[tuple[object, ...], Sets] = {}
        self.limits = Limits()

    def sets(
        self,
        session: Session,
        action: str,
        job: int,
        group: SubGroup,
        shapes: Sequence[tuple[int, int]],
    ) -> Sets:
        """Return the sets of nodes for a batch of a job or of one of its subgroups."""
        if session.moves != self._moves:
            self._moves = session.moves
            self._known.clear()
        assert group.topology is not None  # else nobody asks
        demand = demand_of(session, group.topology)
        if not isinstance(demand, Demand):
            return demand
        tasks = pods_of(session, job, group)
        pins = pins_of(session, tasks)
        strict = None
        if group.topology.patience_s:
            strict = self._patient(session, job, group, shapes, demand.required, pins)
        if strict is not None:
            return self._patient_sets(session, action, job, group, strict, shapes, tasks, pins)
        is_bounded = action != _WITHIN and not pins.held.size
        if is_bounded and self.limits.is_known(demand, shapes):
            return refusals.TOO_LARGE  # before anything is counted or searched for it
        found = self._counted(session, action, job, group, demand, shapes, tasks, pins)
        is_full = isinstance(found, int) and found in _FOR_ROOM
        if is_full and is_bounded and self.limits.is_too_large(session, demand, shapes):
            return refusals.TOO_LARGE
        return found

    def _patient(
        self,
        session: Session,
        job: int,
        group: SubGroup,
        shapes: Shapes,
        required: int,
        pins: Pins,
    ) -> Demand | None:
        """Return what a job demands while it is patient; None if it is not.

        It is not if the level that it prefers is not inside of that which it requires, so that it
        wishes for nothing more, nor if no domain of the level could ever hold it: it would wait in
        vain. Nor if it is promised room outside of one domain, as after a move: it would lose it.
        """
        wish = strict_of(session, job, group)
        demand = None if wish is None else demand_of(session, wish)
        if not isinstance(demand, Demand) or demand.required <= required:
            return None
        promised = np.unique(demand.tree.domain_of_node[demand.required][pins.promised])
        if promised.size > 1 or -1 in promised:
            return None
        return None if self.limits.is_too_large(session, demand, shapes) else demand

    def _patient_sets(
        self,
        session: Session,
        action: str,
        job: int,
        group: SubGroup,
        demand: Demand,
        shapes: Shapes,
        tasks: RowVec,
        pins: Pins,
    ) -> Sets:
        """Return the sets for a patient job; nothing is evicted for it."""
        if action not in (_ALLOCATE, _WITHIN):
            return refusals.PATIENT
        found = self._counted(session, action, job, group, demand, shapes, tasks, pins)
        if isinstance(found, int) or found is None or demand.constraint.is_pod_set:
            return refusals.PATIENT if found in _FOR_ROOM else found
        assert group.topology is not None
        return Awaited(found, end_s(session, job, group.topology))

    def _counted(
        self,
        session: Session,
        action: str,
        job: int,
        group: SubGroup,
        demand: Demand,
        shapes: Shapes,
        tasks: RowVec,
        pins: Pins,
    ) -> Sets:
        """Return the sets of nodes with room for a batch as of now, or that could be given room."""
        if demand.constraint.is_pod_set:
            roles = roles_of(session, tasks, group, shapes)
            if roles is not None and action in (_ALLOCATE, _WITHIN):
                held = workers_held(session, tasks, group)
                return self._of_pod_set(session, action, demand, Batch(roles, pins, held))
            if roles is None and demand.layers:
                return refusals.WRONG_SLICES
            if action == _WITHIN and group is session.jobs.structure.get(job):
                return None  # its pods are of many kinds: its level has been chosen
        around = session.node_set
        is_uneven = action == _ALLOCATE and (len(shapes) > 1 or is_divided(group))
        key = (
            demand.constraint,
            action in (_ALLOCATE, _WITHIN),
            is_uneven,
            tuple(shapes),
            None if around is None else around.key,
            pins.held.tobytes(),
            pins.promised.tobytes(),
        )
        if key not in self._known:
            self._known[key] = _found(session, action, demand, shapes, pins, is_uneven=is_uneven)
        return self._known[key]

    def _of_pod_set(self, session: Session, action: str, demand: Demand, batch: Batch) -> Sets:
        """Return the plans for a batch of a pod set; for a job as such, whether there is one."""
        around = session.node_set
        key = (
            demand.constraint,
            action,
            batch.roles,
            None if around is None else around.key,
            batch.pins.held.tobytes(),
            batch.pins.promised.tobytes(),
            batch.held.tobytes(),
        )
        if key not in self._known:
            found: Sets = sets_within(session, demand, batch, self._style)
            if action == _ALLOCATE and not isinstance(found, int):
                found = (everywhere(session),)
            self._known[key] = found
        return self._known[key]


def _found(
    session: Session, action: str, demand: Demand, shapes: Shapes, pins: Pins, *, is_uneven: bool
) -> Sets:
    nodes = len(session.nodes)
    if action in (_ALLOCATE, _WITHIN):
        stages = _for_room(demand, *_choosers(session, demand, shapes, pins))
        if is_uneven and not pins.held.size:
            stages = [_with_few(session, demand, shapes, stage) for stage in stages]
        choices = Choices(stages, nodes)
        return choices if len(choices) else refusals.NO_DOMAIN
    later = Chooser(demand, shapes, session.places_once_released, pins)
    if demand.required < 0:
        return Choices([Stage(later, ALL, ONE, later)], nodes)
    reach = Chooser(demand, shapes, session.places_once_evicted, pins)
    able = reach.able(demand.required)
    if not able.any():
        return refusals.OUT_OF_REACH
    return Choices([Stage(reach, demand.required, able, later)], nodes, are_peers=True)


def _choosers(
    session: Session, demand: Demand, shapes: Shapes, pins: Pins
) -> tuple[Chooser, Chooser]:
    """Return the choosers by idle room and by room once released: one where that is the same."""
    idle = {shape: session.places(shape) for shape, _ in shapes}
    if not session.is_releasing:
        now = Chooser(demand, shapes, idle.__getitem__, pins)
        return now, now
    released = {shape: session.places_once_released(shape) for shape, _ in shapes}
    later = Chooser(demand, shapes, released.__getitem__, pins)
    if all(np.array_equal(idle[shape], released[shape]) for shape in idle):
        return later, later
    return Chooser(demand, shapes, idle.__getitem__, pins), later


def _with_few(session: Session, demand: Demand, shapes: Shapes, stage: Stage) -> Stage:
    """Return a stage that tries few of the preferred domains before all inside one of its own."""
    if stage.level == ALL or stage.level >= demand.preferred or not stage.able.any():
        return stage
    return stage._replace(sums=sums_of(session, stage.filler, shapes))


def _for_room(demand: Demand, now: Chooser, later: Chooser) -> list[Stage]:
    """Return the domains with room, idle before being released, level by level (C1, C4)."""
    found: list[Stage] = []
    for level in range(demand.preferred, max(demand.required, 0) - 1, -1):
        idle = now.able(level)
        found.append(Stage(now, level, idle, now))
        if later is not now:
            found.append(Stage(later, level, later.able(level) & ~idle, later))
    if demand.required < 0:
        found += [Stage(now, LABELLED, ONE, now), Stage(later, ALL, ONE, later)]
    return found
