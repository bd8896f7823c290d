"""Why a job finds no domain, with numbers."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from itertools import pairwise
from typing import Final

import numpy as np

from kaisched import (
    ACTIVE_STATES,
    Reason,
    RowVec,
    Session,
    SubGroup,
    TaskState,
    TopologyConstraint,
    batch_of,
    format_time,
)
from kaisched_plugins.topology import refusals
from kaisched_plugins.topology.answers import Limits, Part, Starting, end_s, out_of_use, strict_of
from kaisched_plugins.topology.choosing import Chooser, Shapes
from kaisched_plugins.topology.demands import (
    Demand,
    Pins,
    demand_of,
    name_of,
    pins_of,
    pods_of,
)
from kaisched_plugins.topology.podsets import (
    Plan,
    Roles,
    Short,
    Style,
    roles_of,
    workers_held,
)

HAS_ROOM: Final = "has room for {}"
COULD_HOLD: Final = "could hold {} even if nothing else ran"


def reason_of_pod_set(
    session: Session,
    demand: Demand,
    tasks: RowVec,
    group: SubGroup,
    shapes: Shapes,
    style: Style,
    *,
    is_empty: bool = False,
) -> Reason | None:
    """Say how much fits in the best domain, or would if nothing ran; None for several kinds."""
    roles = roles_of(session, tasks, group, shapes)
    if roles is None:
        return None
    tree, name = demand.tree, demand.constraint.topology
    if not len(tree.parent[-1]):
        return Reason(f"no node has all labels of topology {name}".rstrip())
    held = workers_held(session, tasks, group)
    room_of = session.places_when_empty if is_empty else session.places_once_released
    plan = Plan(session, demand, roles, room_of, style, is_empty=is_empty)
    short = plan.shares(held)
    if not isinstance(short, Short):
        return None
    told = _told(demand, roles, short, COULD_HOLD if is_empty else HAS_ROOM)
    if is_empty:
        down = out_of_use(session, tree, short.level, short.best)
        told = Reason(told.sentence + down, told.numbers)
    return told


def _told(demand: Demand, roles: Roles, short: Short, has: str) -> Reason:
    """Return the sentence about what is missing."""
    tree = demand.tree
    size = demand.layers[0][1] if demand.layers and not short.is_part else 1
    of_slice = f" of {size} pods" if size > 1 else ""
    some = f"its {short.wanted} {_word(size, short.wanted)}{of_slice}"
    if (size, short.wanted) == (1, 1):
        some = "its pod"
    elif short.best >= 0:
        some += " together"
    numbers: dict[str, object] = {
        "pods": roles.workers,
        "fit": short.fit,
        "wanted": short.wanted,
        "layers": [list(it) for it in short.layers],
    }
    lacks = short.wanted - short.fit
    missing = f"short by {lacks} {_word(size, lacks)}"
    if not lacks and roles.leader >= 0:
        missing = "without its leader"
    elif not lacks:
        missing = "but not for the slices inside of them"
    if short.best < 0:
        return Reason(f"there is no room for {some}: {missing}", numbers)
    best = tree.name(short.level, short.best)
    numbers["best"] = best
    if short.is_part:
        return Reason(f"pods of it run in {best}, which has no room for {some}: {missing}", numbers)
    word = tree.word(short.level)
    return Reason(f"no {word} {has.format(some)}: best is {best}, {missing}", numbers)


def _word(size: int, count: int) -> str:
    return ("slice" if size > 1 else "pod") + "s" * (count != 1)


_NO_NODES: Final[RowVec] = np.empty(0, np.int64)
_ALLOCATE: Final = "allocate"
_PENDING: Final = int(TaskState.PENDING)
_COUNTED: Final = {
    int(refusals.NO_DOMAIN): HAS_ROOM,
    int(refusals.OUT_OF_REACH): "can be freed for {}",
    int(refusals.TOO_LARGE): COULD_HOLD,
}
"""What no domain does, by refusal."""
_NAMES: Final = (refusals.NO_TOPOLOGY, refusals.NO_LEVEL, refusals.WRONG_SLICES)
"""What constraints are refused for whatever the nodes have."""


def reason_of(
    session: Session, action: str, job: int, code: int, style: Style, limits: Limits
) -> Reason | None:
    """Return why a job with a tree is refused; None where the sentence of the refusal says it all.

    On a set of nodes it is asked about the subgroups of the job.
    """
    root = session.jobs.structure[job]
    if code == refusals.TOO_LARGE:
        return _too_large(session, job, root, style, limits)
    part = limits.part(session, job, root)
    if part is not None and part.code == code and part.group.topology is not None:
        told = _faulty(session, part.group.topology, code)
        return told and Reason(_who(root, part) + told.sentence, told.numbers)
    if code == refusals.PATIENT:
        return _patient(session, action, job, root, style)
    wish = root.topology
    if wish is None or not wish.is_condition or session.node_set is not None:
        return _of_part(session, job, root, code, style, Starting(session, job))
    if code in _NAMES:
        return _faulty(session, wish, code)
    return _full(session, job, root, wish, code, style)


def _faulty(session: Session, wish: TopologyConstraint, code: int) -> Reason | None:
    """Say which names of a constraint do not exist, or do not go together."""
    return (
        _wrong_slices(session, wish) if code == refusals.WRONG_SLICES else _unknown(session, wish)
    )


def _full(
    session: Session, job: int, root: SubGroup, wish: TopologyConstraint, code: int, style: Style
) -> Reason | None:
    """Name the domain that has most room for a job, or where most could be freed."""
    demand = demand_of(session, wish)
    is_claim = code == refusals.OUT_OF_REACH
    if (code != refusals.NO_DOMAIN and not is_claim) or not isinstance(demand, Demand):
        return None
    shapes, pods = batch_of(session, job)
    tasks = pods_of(session, job, root)
    if wish.is_pod_set and not is_claim:
        told = reason_of_pod_set(session, demand, tasks, root, shapes, style)
        if told is not None:
            return told
    pins = pins_of(session, tasks)
    room_of = session.places_once_evicted if is_claim else session.places_once_released
    return _short(session, Chooser(demand, shapes, room_of, pins), demand, pods, code)


def _of_part(
    session: Session, job: int, group: SubGroup, code: int, style: Style, starting: Starting
) -> Reason | None:
    """Name the first subgroup that is refused on the nodes tried, whatever the others take."""
    for child in group.children:
        told = None
        if child.topology is not None and code == demand_of(session, child.topology):
            told = _faulty(session, child.topology, code)
        elif code == refusals.NO_DOMAIN:
            told = _part_full(session, job, child, style, starting)
        if told is not None:
            return Reason(f"subgroup {child.name}: {told.sentence}", told.numbers)
        told = _of_part(session, job, child, code, style, starting)
        if told is not None:
            return told
    return None


def _part_full(
    session: Session, job: int, group: SubGroup, style: Style, starting: Starting
) -> Reason | None:
    """Say how many pods a subgroup is short of in the domain with most room for its next ones."""
    demand = None if group.topology is None else demand_of(session, group.topology)
    if not isinstance(demand, Demand) or not demand.constraint.is_condition:
        return None
    first, tasks = starting.of(group), _NO_NODES
    if not first or demand.constraint.is_pod_set:
        tasks = pods_of(session, job, group)
    shapes = tuple(sorted(first.items())) if first else _next_of(session, group, tasks)
    if not shapes:
        return None
    if demand.constraint.is_pod_set:
        told = reason_of_pod_set(session, demand, tasks, group, shapes, style)
        if told is not None:
            return told
    if demand.required < 0:
        return None
    chooser = Chooser(demand, shapes, session.places_once_released, pins_of(session, tasks))
    if chooser.able(demand.required).any():
        return None
    return _short(session, chooser, demand, chooser.pods, int(refusals.NO_DOMAIN))


def _next_of(session: Session, group: SubGroup, tasks: RowVec) -> Shapes:
    """Return the pods that a subgroup places next beside those that run; none if not known."""
    state, podset = session.state_now[tasks], session.tasks.podset_of_task[tasks]
    waits = tasks[state == _PENDING]
    shapes = np.unique(session.tasks.shape_of_task[waits]).tolist()
    if group.min_subgroup < len(group.children) or len(shapes) != 1:
        return ()
    rows = group.podsets
    runs = np.bincount(podset[ACTIVE_STATES[state]], minlength=max(rows) + 1)[rows]
    lacks = int(np.maximum(session.podsets.minimum[rows] - runs, 0).sum())
    return ((shapes[0], min(max(lacks, 1), len(waits))),)


def _patient(
    session: Session, action: str, job: int, root: SubGroup, style: Style
) -> Reason | None:
    """Say until when a job waits for a domain of the level that it prefers, and what then."""
    strict = strict_of(session, job, root)
    demand = None if strict is None else demand_of(session, strict)
    if strict is None or root.topology is None or not isinstance(demand, Demand):
        return None
    tree, wish = demand.tree, root.topology
    until = format_time(end_s(session, job, wish))
    waits = f"it waits until {until} for one {tree.word(demand.required)}"
    if action != _ALLOCATE:
        return Reason(f"nothing is evicted for a wish: {waits}")
    full = _full(session, job, root, strict, refusals.NO_DOMAIN, style)
    if full is None:
        return None
    wider = tree.level(wish.required) if wish.required else -1
    then = f"any place in one {tree.word(wider)}" if wider >= 0 else "any place"
    return Reason(f"{full.sentence}; {waits}, then {then} will do", full.numbers)


def _too_large(
    session: Session, job: int, root: SubGroup, style: Style, limits: Limits
) -> Reason | None:
    """Name the domain that could hold most pods of a job or subgroup, and what is down in it."""
    part = limits.part(session, job, root)
    if part is None:
        demand = None if root.topology is None else demand_of(session, root.topology)
        shapes: Shapes = batch_of(session, job)[0]
    else:
        demand, shapes = part.demand, part.shapes
    if not isinstance(demand, Demand):
        return None
    pods = sum(count for _, count in shapes)
    empty = Chooser(demand, shapes, session.places_when_empty, Pins(_NO_NODES, _NO_NODES))
    told = None
    if demand.constraint.is_pod_set:
        group = root if part is None else part.group
        tasks = pods_of(session, job, group)
        told = reason_of_pod_set(session, demand, tasks, group, shapes, style, is_empty=True)
        now = reason_of_pod_set(session, demand, tasks, group, shapes, style)
        if told is not None and now is not None:
            told = Reason(told.sentence, {**told.numbers, "fit_now": now.numbers.get("fit")})
    if told is None:
        told = _short(session, empty, demand, pods, int(refusals.TOO_LARGE))
        fits = empty.fits(demand.required)
        if told is not None and fits.size:
            down = out_of_use(session, demand.tree, demand.required, int(fits.argmax()))
            told = Reason(told.sentence + down, told.numbers)
    return told and Reason(_who(root, part) + told.sentence, told.numbers)


def _who(root: SubGroup, part: Part | None) -> str:
    """Name the subgroup that a sentence is about, if it is not all of the job."""
    is_all = part is None or root.children == (part.group,)
    return "" if is_all or part is None else f"subgroup {part.group.name}: "


def _unknown(session: Session, wish: TopologyConstraint) -> Reason:
    """Say which topology or level does not exist, with the nearest right name."""
    every = session.nodes.topologies
    name = name_of(session, wish)
    levels = every.get(name, ())
    known = [key for level in levels for key in level if key]
    if wish.is_pod_set:
        asked = [wish.required, wish.preferred, *(level for level, _ in wish.slices)]
        some = [key for levels in every.values() for level in levels for key in level if key]
        missing = next((it for it in asked if it and it not in some), "")
        if missing:
            return Reason(f"no Topology has a level {missing}{_near(missing, some)}")
        return Reason(f"no Topology has all of the levels {', '.join(filter(None, asked))}")
    if not wish.topology:
        return Reason(f"it requires the level {wish.required}, but names no topology")
    if wish.topology not in every:
        return Reason(f"there is no topology {wish.topology}{_near(wish.topology, every)}")
    return Reason(
        f"topology {wish.topology} has no level {wish.required}{_near(wish.required, known)}"
    )


def _wrong_slices(session: Session, wish: TopologyConstraint) -> Reason | None:
    """Say which level of slices is not inside the one before."""
    demand = demand_of(session, wish)
    if isinstance(demand, Demand):
        return Reason("its pods are of several kinds: slices are of equal pods")
    asked = [wish.required or wish.preferred, *(level for level, _ in wish.slices)]
    order = [key for level in session.nodes.topologies[name_of(session, wish)] for key in level]
    for outer, inner in pairwise(asked):
        if outer and order.index(inner) < order.index(outer):
            return Reason(f"slices at level {inner} cannot be inside of level {outer}")
    return None


def _no_node(session: Session, demand: Demand) -> str:
    """Say that no node takes part in the topology of a constraint."""
    name = name_of(session, demand.constraint)
    if not name:
        return f"no node has the label {demand.constraint.required}"
    return f"no node has all labels of topology {name}"


def _short(
    session: Session, chooser: Chooser, demand: Demand, pods: int, code: int
) -> Reason | None:
    """Name the domain that has most room, or would have it, and how many pods it is short of."""
    tree, level = demand.tree, demand.required
    allowed = chooser.allowed(level).nonzero()[0]
    word, some = tree.word(level), "its pod" if pods == 1 else f"its {pods} pods together"
    if not allowed.size:
        return Reason(_no_node(session, demand))
    fits = chooser.fits(level)
    best = int(allowed[np.argmax(fits[allowed])])
    fit = int(fits[best])
    least = "at least " if _is_bound(session, chooser.shapes, code) else ""
    name, short = tree.name(level, best), f"{least}{pods - fit} pod{'s' * (pods - fit != 1)}"
    numbers = {"pods": pods, "fit": fit, "domains": len(allowed), "best": name}
    if fit == pods and code != refusals.NO_DOMAIN:
        return None  # there is room by now
    if fit == pods:
        told = f"{name} has room for {some} counted one by one, but not next to each other"
        return Reason(told, numbers)
    if len(allowed) < len(tree.parent[level]):
        lacks = "has no room" if code == refusals.NO_DOMAIN else "cannot be freed"
        told = f"pods of it run in {name}, which {lacks} for {some}: short by {short}"
    else:
        told = f"no {word} {_COUNTED[code].format(some)}: best is {name}, short by {short}"
    return Reason(told, numbers)


def _is_bound(session: Session, shapes: Shapes, code: int) -> bool:
    """Tell whether fewer pods may fit than were counted: kinds alone, no cards and no devices."""
    asked = [session.shapes.constraints[shape] for shape, _ in shapes]
    has_devices = any(it.devices is not None or it.claims for it in asked)
    return len(asked) > 1 or (has_devices and code != refusals.NO_DOMAIN)


def _near(name: str, known: Iterable[str]) -> str:
    close = get_close_matches(name, list(known), 1)
    return f"; did you mean {close[0]}?" if close else ""
