"""The sets of nodes for jobs and subgroups in one cycle."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from kaisched import (
    IntVec,
    LazyNodeSets,
    NodeSet,
    RowVec,
    Session,
    SubGroup,
    TaskState,
    TopologyConstraint,
    format_time,
)
from kaisched_plugins.topology import refusals
from kaisched_plugins.topology.choosing import (
    ALL,
    LABELLED,
    MOST_PODS,
    ONE,
    Choices,
    Chooser,
    Shapes,
    Stage,
    sums_of,
)
from kaisched_plugins.topology.demands import (
    Demand,
    Pins,
    Tree,
    demand_of,
    is_divided,
    pins_of,
    pods_of,
)
from kaisched_plugins.topology.podsets import (
    Batch,
    Roles,
    Style,
    everywhere,
    roles_of,
    sets_within,
    workers_held,
)

# What the domains of topologies could hold if nothing ran at all (C7).


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


# Patience: for some time the preferred level of a job that waits counts as required (W1 to W4).


class Awaited(LazyNodeSets):
    """The domains for one of which a job waits, with names that say so where it finds no place."""

    def __init__(self, sets: Sequence[NodeSet], until_s: float) -> None:
        """Take the domains, and until when the job is patient."""
        super().__init__(len(sets))
        self._sets, self._until_s = sets, until_s

    def make(self, at: int) -> NodeSet:
        """Return the domain at a position."""
        one = self._sets[at]
        until = format_time(self._until_s)
        return replace(one, label=f"{one.label}, for which it waits until {until}")


def strict_of(session: Session, job: int, group: SubGroup) -> TopologyConstraint | None:
    """Return the constraint of a patient job as it counts now; None if it is not patient.

    That of a subgroup stays a wish, and so does that of a job of which pods run.
    """
    wish, jobs = group.topology, session.jobs
    if wish is None or not wish.preferred or group is not jobs.structure.get(job):
        return None
    runs = jobs.active[job] > 0 or session.job_active_now[job] > 0
    if runs or session.now_s >= end_s(session, job, wish):
        return None
    return wish._replace(required=wish.preferred)


def end_s(session: Session, job: int, wish: TopologyConstraint) -> float:
    """Return until when a job is patient, from its creation or last eviction on."""
    jobs = session.jobs
    since_s = np.fmax(jobs.created_s[job], jobs.last_evicted_s[job])  # never evicted is NaN
    return float(since_s) + wish.patience_s


_ALLOCATE = "allocate"
_WITHIN = ""
"""In place of an action, for a subgroup: its group has chosen, and counts room once released."""

_FOR_ROOM = (refusals.NO_DOMAIN, refusals.OUT_OF_REACH)
"""What may turn out to be for good."""

Sets = Sequence[NodeSet] | int | None


class _Asked(NamedTuple):
    """What sets of nodes are asked for: a batch of a job or of one of its subgroups."""

    session: Session
    action: str
    job: int
    group: SubGroup
    shapes: Shapes
    tasks: RowVec
    """All pods of the group."""
    pins: Pins

    @property
    def is_for_room(self) -> bool:
        """Whether the batch needs room that is there, and not room that could be made."""
        return self.action in (_ALLOCATE, _WITHIN)

    @property
    def is_of_job(self) -> bool:
        """Whether the batch is that of a whole job."""
        return self.group is self.session.jobs.structure.get(self.job)

    def key(self, demand: Demand, *others: object) -> tuple[object, ...]:
        """Return what the answer depends on besides moves."""
        around = self.session.node_set
        held, promised = (nodes.tobytes() for nodes in self.pins)
        return demand.constraint, None if around is None else around.key, held, promised, *others


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
        asked = _Asked(session, action, job, group, shapes, tasks, pins_of(session, tasks))
        strict = self._patient(asked, demand.required) if group.topology.patience_s else None
        if strict is not None:
            return self._patient_sets(asked, strict)
        is_bounded = action != _WITHIN and not asked.pins.held.size
        if is_bounded and self.limits.is_known(demand, shapes):
            return refusals.TOO_LARGE  # before anything is counted or searched for it
        found = self._counted(asked, demand)
        is_full = isinstance(found, int) and found in _FOR_ROOM
        if is_full and is_bounded and self.limits.is_too_large(session, demand, shapes):
            return refusals.TOO_LARGE
        return found

    def _patient(self, asked: _Asked, required: int) -> Demand | None:
        """Return what a job demands while it is patient; None if it is not.

        It is not if the level that it prefers is not inside of that which it requires, so that it
        wishes for nothing more, nor if no domain of the level could ever hold it: it would wait in
        vain. Nor if it is promised room outside of one domain, as after a move: it would lose it.
        """
        wish = strict_of(asked.session, asked.job, asked.group)
        demand = None if wish is None else demand_of(asked.session, wish)
        if not isinstance(demand, Demand) or demand.required <= required:
            return None
        promised = np.unique(demand.tree.domain_of_node[demand.required][asked.pins.promised])
        if promised.size > 1 or -1 in promised:
            return None
        is_vain = self.limits.is_too_large(asked.session, demand, asked.shapes)
        return None if is_vain else demand

    def _patient_sets(self, asked: _Asked, demand: Demand) -> Sets:
        """Return the sets for a patient job; nothing is evicted for it."""
        if not asked.is_for_room:
            return refusals.PATIENT
        found = self._counted(asked, demand)
        if isinstance(found, int) or found is None or demand.constraint.is_pod_set:
            return refusals.PATIENT if found in _FOR_ROOM else found
        assert asked.group.topology is not None
        return Awaited(found, end_s(asked.session, asked.job, asked.group.topology))

    def _counted(self, asked: _Asked, demand: Demand) -> Sets:
        """Return the sets of nodes with room for a batch as of now, or that could be given room."""
        if demand.constraint.is_pod_set:
            roles = roles_of(asked.session, asked.tasks, asked.group, asked.shapes)
            if roles is not None and asked.is_for_room:
                return self._of_pod_set(asked, demand, roles)
            if roles is None and demand.layers:
                return refusals.WRONG_SLICES
            if asked.action == _WITHIN and asked.is_of_job:
                return None  # its pods are of many kinds: its level has been chosen
        is_uneven = asked.action == _ALLOCATE and (len(asked.shapes) > 1 or is_divided(asked.group))
        key = asked.key(demand, asked.is_for_room, is_uneven, tuple(asked.shapes))
        if key not in self._known:
            self._known[key] = _found(asked, demand, is_uneven=is_uneven)
        return self._known[key]

    def _of_pod_set(self, asked: _Asked, demand: Demand, roles: Roles) -> Sets:
        """Return the plans for a batch of a pod set; for a job as such, whether there is one."""
        session, held = asked.session, workers_held(asked.session, asked.tasks, asked.group)
        key = asked.key(demand, asked.action, roles, held.tobytes())
        if key not in self._known:
            batch = Batch(roles, asked.pins, held)
            found: Sets = sets_within(session, demand, batch, self._style)
            if asked.action == _ALLOCATE and not isinstance(found, int):
                found = (everywhere(session),)
            self._known[key] = found
        return self._known[key]


def _found(asked: _Asked, demand: Demand, *, is_uneven: bool) -> Sets:
    session, shapes, pins = asked.session, asked.shapes, asked.pins
    nodes = len(session.nodes)
    if asked.is_for_room:
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
