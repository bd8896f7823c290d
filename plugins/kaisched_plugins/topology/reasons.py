"""Why a job finds no domain, with numbers."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

import numpy as np

from kaisched import Reason, Session, batch_of
from kaisched_plugins.topology import refusals
from kaisched_plugins.topology.choosing import Chooser, Pins
from kaisched_plugins.topology.demands import Demand, demand_of, nodes_held, nodes_promised, pods_of


def reason_of(session: Session, job: int, code: int) -> Reason | None:
    """Return why a job is refused; None where the sentence of the refusal says it all."""
    root = session.jobs.structure.get(job)
    wish = None if root is None else root.topology
    if root is None or wish is None:
        return None
    levels = session.nodes.topologies.get(wish.topology, ())
    if code == refusals.NO_TOPOLOGY:
        if not wish.topology:
            return Reason(f"it requires the level {wish.required}, but names no topology")
        near = _near(wish.topology, session.nodes.topologies)
        return Reason(f"there is no topology {wish.topology}{near}")
    if code == refusals.NO_LEVEL:
        names = [name for level in levels for name in level if name]
        near = _near(wish.required, names)
        return Reason(f"topology {wish.topology} has no level {wish.required}{near}")
    demand = demand_of(session, wish)
    if code != refusals.NO_DOMAIN or not isinstance(demand, Demand):
        return None
    shapes, pods = batch_of(session, job)
    tasks = pods_of(session, job, root)
    pins = Pins(nodes_held(session, tasks), nodes_promised(session, tasks))
    return _short(Chooser(demand, shapes, session.places_once_released, pins), demand, pods)


def _short(chooser: Chooser, demand: Demand, pods: int) -> Reason:
    """Name the domain that has most room, and how many pods it is short of."""
    tree, level = demand.tree, demand.required
    allowed = chooser.allowed(level).nonzero()[0]
    word, some = tree.word(level), "its pod" if pods == 1 else f"its {pods} pods together"
    if not allowed.size:
        return Reason(f"no node has all labels of topology {demand.constraint.topology}")
    best = int(allowed[np.argmax(chooser.capacity[level][allowed])])
    fit = int(min(chooser.capacity[level][best], pods))
    name, short = tree.name(level, best), f"{pods - fit} pod{'s' * (pods - fit != 1)}"
    numbers = {"pods": pods, "fit": fit, "domains": len(allowed), "best": name}
    if fit == pods:
        told = f"{name} has room for {some} counted one by one, but not next to each other"
        return Reason(told, numbers)
    if len(allowed) < len(tree.parent[level]):
        return Reason(
            f"pods of it run in {name}, which has no room for {some}: short by {short}", numbers
        )
    return Reason(f"no {word} has room for {some}: best is {name}, short by {short}", numbers)


def _near(name: str, known: Iterable[str]) -> str:
    close = get_close_matches(name, list(known), 1)
    return f"; did you mean {close[0]}?" if close else ""
