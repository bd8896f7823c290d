"""Why a job finds no domain, with numbers."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from itertools import pairwise

import numpy as np

from kaisched import Reason, Session, TopologyConstraint, batch_of
from kaisched_plugins.topology import refusals
from kaisched_plugins.topology.choosing import Chooser
from kaisched_plugins.topology.demands import (
    Demand,
    demand_of,
    name_of,
    pins_of,
    pods_of,
)
from kaisched_plugins.topology.podsets.filling import Style
from kaisched_plugins.topology.podsets.reasons import reason_of_pod_set


def reason_of(session: Session, job: int, code: int, style: Style) -> Reason | None:
    """Return why a job is refused; None where the sentence of the refusal says it all."""
    root = session.jobs.structure.get(job)
    wish = None if root is None else root.topology
    if root is None or wish is None:
        return None
    if code in (refusals.NO_TOPOLOGY, refusals.NO_LEVEL):
        return _unknown(session, wish)
    if code == refusals.WRONG_SLICES:
        return _wrong_slices(session, wish)
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
    chooser = Chooser(demand, shapes, room_of, pins)
    return _short(session, chooser, demand, pods, is_claim=is_claim)


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
    session: Session, chooser: Chooser, demand: Demand, pods: int, *, is_claim: bool
) -> Reason | None:
    """Name the domain that has most room, or would have it, and how many pods it is short of."""
    tree, level = demand.tree, demand.required
    allowed = chooser.allowed(level).nonzero()[0]
    word, some = tree.word(level), "its pod" if pods == 1 else f"its {pods} pods together"
    if not allowed.size:
        return Reason(_no_node(session, demand))
    best = int(allowed[np.argmax(chooser.capacity[level][allowed])])
    fit = int(min(chooser.capacity[level][best], pods))
    name, short = tree.name(level, best), f"{pods - fit} pod{'s' * (pods - fit != 1)}"
    numbers = {"pods": pods, "fit": fit, "domains": len(allowed), "best": name}
    if fit == pods and is_claim:
        return None  # there is room by now
    if fit == pods:
        told = f"{name} has room for {some} counted one by one, but not next to each other"
        return Reason(told, numbers)
    if len(allowed) < len(tree.parent[level]):
        lacks = "cannot be freed" if is_claim else "has no room"
        told = f"pods of it run in {name}, which {lacks} for {some}: short by {short}"
    else:
        has = "can be freed" if is_claim else "has room"
        told = f"no {word} {has} for {some}: best is {name}, short by {short}"
    return Reason(told, numbers)


def _near(name: str, known: Iterable[str]) -> str:
    close = get_close_matches(name, list(known), 1)
    return f"; did you mean {close[0]}?" if close else ""
