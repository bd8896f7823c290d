"""The sets of nodes for jobs and subgroups in one cycle, remembered while nothing moves."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from kaisched import LazyNodeSets, NodeSet, Session, SubGroup
from kaisched_plugins.topology import refusals
from kaisched_plugins.topology.choosing import LAST, Chooser, Pins
from kaisched_plugins.topology.demands import (
    Demand,
    demand_of,
    nodes_held,
    nodes_promised,
    pods_of,
)
from kaisched_plugins.topology.podsets.answers import Batch, everywhere, sets_within
from kaisched_plugins.topology.podsets.filling import Style
from kaisched_plugins.topology.podsets.plan import roles_of, workers_held

_ALLOCATE = "allocate"
_LABELLED, _ALL = -1, -2
"""In place of a level: all nodes with all labels, and all nodes."""
_WITHIN = ""
"""In place of an action, for a subgroup: its group has chosen, and counts room once released."""

Sets = Sequence[NodeSet] | int | None


class Answers:
    """Answers of one cycle."""

    def __init__(self, style: Style) -> None:
        """Know none yet."""
        self._style = style
        self._moves = -1
        self._known: dict[tuple[object, ...], Sets] = {}

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
        pins = Pins(nodes_held(session, tasks), nodes_promised(session, tasks))
        if group.topology.is_pod_set:
            roles = roles_of(session, tasks, group, shapes)
            if roles is not None and action in (_ALLOCATE, _WITHIN):
                held = workers_held(session, tasks, group)
                return self._of_pod_set(session, action, demand, Batch(roles, pins, held))
            if roles is None and demand.layers:
                return refusals.WRONG_SLICES
            if action == _WITHIN and group is session.jobs.structure.get(job):
                return None  # its pods are of many kinds: its level has been chosen
        around = session.node_set
        key = (
            group.topology,
            action in (_ALLOCATE, _WITHIN),
            tuple(shapes),
            None if around is None else around.key,
            pins.held.tobytes(),
            pins.promised.tobytes(),
        )
        if key not in self._known:
            self._known[key] = _found(session, action, demand, shapes, pins)
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


class Choices(LazyNodeSets):
    """Domains in the order in which they are tried; with -1 for a level, all of them together."""

    def __init__(
        self, entries: Sequence[tuple[Chooser, int, int]], nodes: int, *, are_peers: bool = False
    ) -> None:
        super().__init__(len(entries))
        self._entries = entries
        self._nodes = nodes
        self._are_peers = are_peers

    def make(self, at: int) -> NodeSet:
        """Make the set of nodes of a domain; level -1 stands for all labelled nodes, -2 for all."""
        chooser, level, domain = self._entries[at]
        if level >= 0:
            return chooser.set_of(level, domain, peers=self._are_peers)
        members, order = chooser.tree.is_member, chooser.order(-1, 0)
        if level == _LABELLED:
            return NodeSet("all labelled nodes", members, order=order)
        order = np.where(members, 0, LAST) if order is None else order
        return NodeSet("all nodes", np.ones(self._nodes, np.bool_), order=order)


def _found(
    session: Session, action: str, demand: Demand, shapes: Sequence[tuple[int, int]], pins: Pins
) -> Sets:
    later = Chooser(demand, shapes, session.places_once_released, pins)
    nodes = len(session.nodes)
    if action in (_ALLOCATE, _WITHIN):
        now = Chooser(demand, shapes, session.places, pins)
        entries = _for_room(demand, now, later)
        return Choices(entries, nodes) if entries else refusals.NO_DOMAIN
    if demand.required < 0:
        return Choices([(later, _ALL, 0)], nodes)
    reach = Chooser(demand, shapes, session.places_once_evicted, pins)
    domains = reach.candidates(demand.required)
    if not domains:
        return refusals.OUT_OF_REACH
    return Choices([(later, demand.required, it) for it in domains], nodes, are_peers=True)


def _for_room(demand: Demand, now: Chooser, later: Chooser) -> list[tuple[Chooser, int, int]]:
    """Return the domains with room, idle before being released, level by level (C1, C4)."""
    found: list[tuple[Chooser, int, int]] = []
    is_same = np.array_equal(now.capacity[-1], later.capacity[-1])
    for level in range(demand.preferred, max(demand.required, 0) - 1, -1):
        idle = now.candidates(level)
        found += [(now, level, domain) for domain in idle]
        if not is_same:
            known = set(idle)
            found += [(later, level, it) for it in later.candidates(level) if it not in known]
    if demand.required < 0:
        found += [(now, _LABELLED, 0), (later, _ALL, 0)]
    return found
