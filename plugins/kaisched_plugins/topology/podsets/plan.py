"""Plans a pod set: who leads, what runs already, and what is left to be placed (K1, K6)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from kaisched import ACTIVE_STATES, BoolVec, IntVec, RowVec, Session, SubGroup, TaskState
from kaisched_plugins.topology.demands import Demand, leader_of, without_leader
from kaisched_plugins.topology.podsets.counts import Ask, counted
from kaisched_plugins.topology.podsets.even import even_shares
from kaisched_plugins.topology.podsets.filling import Filler, Share, Short, Style

Shapes = Sequence[tuple[int, int]]
_MOST = 1 << 20
_PENDING = int(TaskState.PENDING)
_PAIR = 2


class Roles(NamedTuple):
    """The pods of a batch by what they do."""

    shape: int
    """Of the workers, which are equal."""
    workers: int
    leader: int = -1
    """The shape of the leader; -1 where there is none to be placed."""


def roles_of(session: Session, tasks: RowVec, group: SubGroup, shapes: Shapes) -> Roles | None:
    """Return who leads a batch; None if its pods are of more than two kinds.

    Of two pod sets the one with a single pod leads; in one pod set a pod that is unlike all others.
    """
    leader = leader_of(session.tasks.podset_of_task, tasks, group)
    counts = dict(shapes)
    if leader is not None and session.state_now[leader] == _PENDING:
        shape = int(session.tasks.shape_of_task[leader])
        if counts.get(shape):
            counts[shape] -= 1
            left = [(it, pods) for it, pods in counts.items() if pods]
            if len(left) == 1:
                return Roles(*left[0], shape)
            return Roles(shape, 1) if not left else None
    if len(shapes) == 1:
        return Roles(*shapes[0])
    if len(shapes) != _PAIR or min(counts.values()) > 1:
        return None
    single = next(it for it, pods in shapes if pods == 1)
    other = next(it for it, _ in shapes if it != single)
    return Roles(other, counts[other], single)


def workers_held(session: Session, tasks: RowVec, group: SubGroup) -> RowVec:
    """Return the nodes of workers that run, pod by pod."""
    some = without_leader(session.tasks.podset_of_task, tasks, group)
    node = session.node_of_task_now[some]
    held: RowVec = node[ACTIVE_STATES[session.state_now[some]] & (node >= 0)]
    return held


class Plan:
    """A plan for one batch of a pod set on the room that there is."""

    def __init__(
        self,
        session: Session,
        demand: Demand,
        roles: Roles,
        room_of: Callable[[int], IntVec],
        style: Style,
        *,
        is_empty: bool = False,
    ) -> None:
        """Count the room on each node, now or, where ``room_of`` says so, if nothing ran."""
        self._demand = demand
        self._tree = demand.tree
        self._roles = roles
        self._style = style
        self._room = np.minimum(room_of(roles.shape), _MOST)
        self._beside = None
        if roles.leader >= 0:
            leads = room_of(roles.leader)
            self._beside = _beside(session, roles, self._room, leads, is_empty=is_empty)

    def shares(self, held: RowVec) -> list[Share] | Short:
        """Return what each domain of the last level gets, given where pods run already."""
        allowed = self._allowed(held)
        found: list[Share] = []
        left = self._roles.workers
        for ask, nodes in self._completing(held, left):
            some = self._filled(ask, nodes & allowed)
            if isinstance(some, Short):
                return some._replace(is_part=True)
            found += some
            left -= ask.pods
            self._take(some)
        if left or self._roles.leader >= 0:
            rest = self._filled(self._ask(left), allowed)
            if isinstance(rest, Short):
                is_bound = held.size > 0 and self._demand.required >= 0
                return rest._replace(is_part=is_bound and not self._demand.layers)
            found += rest
        return found

    def _ask(self, pods: int) -> Ask:
        required, preferred = self._demand.required, self._demand.preferred
        layers, leads = self._demand.layers, self._roles.leader >= 0
        is_free = preferred < 0
        level = (0 if layers else len(self._tree.levels) - 1) if is_free else preferred
        return Ask(pods, level, required >= 0, is_free, layers, leads)

    def _filled(self, ask: Ask, nodes: BoolVec) -> list[Share] | Short:
        beside = None
        if ask.has_leader and self._beside is not None:
            beside = np.where(nodes, self._beside, -1)
        counts = counted(self._tree, ask, np.where(nodes, self._room, 0), beside)
        filler = Filler(self._tree, ask, counts, self._style)
        even = even_shares(filler) if self._style.even_shares else None
        return filler.found() if even is None else even

    def _allowed(self, held: RowVec) -> BoolVec:
        """``(N,)`` the nodes that pods which run leave to others of a required level (P1)."""
        required, of_node = self._demand.required, self._tree.domain_of_node
        domains = of_node[max(required, 0)][held]
        domains = domains[domains >= 0]
        if required < 0 or not domains.size:
            return np.ones(len(self._room), np.bool_)
        return np.isin(of_node[required], domains)

    def _completing(self, held: RowVec, pods: int) -> list[tuple[Ask, BoolVec]]:
        """Return what completes slices of which pods run, each with the nodes of its domain (K6).

        Those of the innermost layer that lacks pods; whole slices inside of them where they can be.
        """
        layers = self._demand.layers
        for at in range(len(layers) - 1, -1, -1):
            level, size = layers[at]
            of_node = self._tree.domain_of_node[level]
            there = np.bincount(of_node[held][of_node[held] >= 0], minlength=1)
            found: list[tuple[Ask, BoolVec]] = []
            for domain in np.flatnonzero(-there % size).tolist():
                count = min(int(-there[domain] % size), pods)
                pods -= count
                inner = tuple(it for it in layers[at + 1 :] if not count % it[1])
                ask = Ask(count, level, is_required=True, layers=inner)
                found += [(ask, of_node == domain)] * bool(count)
            if found:
                return found
        return []

    def _take(self, shares: Sequence[Share]) -> None:
        """Count the pods of shares as placed, the first nodes of a domain first."""
        room = self._room.copy()
        for share in shares:
            rows = np.flatnonzero(self._tree.domain_of_node[-1] == share.domain)
            ends = np.cumsum(room[rows])
            room[rows] = np.minimum(room[rows], np.maximum(ends - share.pods, 0))
        self._room = room


def _beside(
    session: Session, roles: Roles, room: IntVec, leads: IntVec, *, is_empty: bool
) -> IntVec:
    """``(N,)`` how many workers fit beside the leader; -1 where that does not fit."""
    request = session.shapes.request
    rows = np.arange(len(room))
    left = room
    for resource in np.flatnonzero(request[:, roles.shape]).tolist():
        free = session.nodes.allocatable[resource] if is_empty else session.free(resource, rows)
        free = free - request[resource, roles.leader]
        left = np.minimum(left, free // request[resource, roles.shape])
    return np.where(leads > 0, np.maximum(left, 0), -1)
