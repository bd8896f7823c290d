"""The sets of nodes for a batch of a pod set: each node with how many pods it gets."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from kaisched import NodeSet, RowVec, Session
from kaisched_plugins.topology import refusals
from kaisched_plugins.topology.demands import Demand, Pins
from kaisched_plugins.topology.podsets.filling import Share, Short, Style
from kaisched_plugins.topology.podsets.plan import Plan, Roles


class Batch(NamedTuple):
    """Pods of a pod set that are placed together."""

    roles: Roles
    pins: Pins
    held: RowVec
    """The nodes on which its workers run, pod by pod."""


def sets_within(
    session: Session, demand: Demand, batch: Batch, style: Style
) -> Sequence[NodeSet] | int:
    """Return the plans for idle room and for room being released, or a refusal.

    Where earlier cycles have promised nodes to all pods these come first.
    """
    roles, found = batch.roles, list(_promised(demand, batch))
    rooms = [session.places]
    if not np.array_equal(session.places(roles.shape), session.places_once_released(roles.shape)):
        rooms.append(session.places_once_released)
    for room_of in rooms:
        plan = Plan(session, demand, roles, room_of, style)
        shares = plan.shares(batch.held)
        if not isinstance(shares, Short):
            found.append(_set_of(demand, roles, shares))
    if not demand.constraint.is_condition:
        found.append(everywhere(session))
    return found or refusals.NO_DOMAIN


def everywhere(session: Session) -> NodeSet:
    """Return the set of all nodes."""
    return NodeSet("all nodes", np.ones(len(session.nodes), np.bool_))


def _promised(demand: Demand, batch: Batch) -> Sequence[NodeSet]:
    """Return the promised nodes if they are those of the whole batch, in one required domain."""
    roles, nodes = batch.roles, batch.pins.promised
    if len(nodes) != roles.workers + (roles.leader >= 0):
        return ()
    of_node = demand.tree.domain_of_node
    domains = of_node[-1][nodes]
    if domains.min() < 0:
        return ()
    if demand.required >= 0:
        around = of_node[demand.required][np.concatenate((nodes, batch.pins.held))]
        if np.unique(around).size > 1:
            return ()
    shares = [Share(domain, pods) for domain, pods in sorted(Counter(domains.tolist()).items())]
    found = _set_of(demand, roles, shares)
    shapes = {roles.shape, roles.leader} - {-1}
    counts = {rank: share.pods for rank, share in enumerate(shares)}
    most = dict.fromkeys(shapes, counts)
    return (NodeSet("the promised nodes", found.nodes, order=found.order, most=most),)


def _set_of(demand: Demand, roles: Roles, shares: Sequence[Share]) -> NodeSet:
    """Return the nodes of the domains that get pods, that of the leader first."""
    ranked = sorted(shares, key=lambda it: not it.leads)
    rank = np.full(len(demand.tree.parent[-1]) + 1, -1)
    most: dict[int, Counter[int]] = {roles.shape: Counter()}
    for at, share in enumerate(ranked):
        at = int(rank[share.domain]) if rank[share.domain] >= 0 else at  # noqa: PLW2901
        rank[share.domain] = at
        most[roles.shape][at] += share.pods
        if share.leads:
            most.setdefault(roles.leader, Counter())[at] += 1
    order = rank[demand.tree.domain_of_node[-1]]
    name, near = demand.tree.around(rank[:-1] >= 0), demand.tree.domain_of_node[-1]
    return NodeSet(name, order >= 0, order=order, most=most, neighbours=near)
