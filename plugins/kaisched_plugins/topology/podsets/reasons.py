"""Why a pod set finds no place, with numbers."""

from __future__ import annotations

from typing import Final

from kaisched import Reason, RowVec, Session, SubGroup
from kaisched_plugins.topology.demands import Demand
from kaisched_plugins.topology.limits import out_of_use
from kaisched_plugins.topology.podsets.filling import Short, Style
from kaisched_plugins.topology.podsets.plan import Plan, Roles, Shapes, roles_of, workers_held

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
