"""How many pods of a shape fit on each node, now or later, whoever asks for them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

import numpy as np

from kaisched.core.refusals import freeable_codes, lasting_codes
from kaisched.core.states import ACTIVE_STATES
from kaisched.framework.session.capacity import Capacity, Holding, room_of

if TYPE_CHECKING:
    from kaisched.core.axis import Amounts, BoolVec, IntVec
    from kaisched.framework.session.placement import Placement
    from kaisched.framework.session.view import SessionView

_EVICTABLE: Final = "places.evictable"
_IN_ALL: Final = "places.in_all"


class Placing(Protocol):
    """What is needed of a session."""

    @property
    def placement(self) -> Placement:
        """Where pods may go, as of now."""
        ...

    @property
    def capacity(self) -> Capacity:
        """What the nodes have room for, as of now."""
        ...


def places(session: Placing, shape: int) -> IntVec:
    """``(N,)`` pods of a shape that fit now, by amounts, filters and bounds.

    Pods that share a claim fit on one node only; each counts as if it were that one.
    """
    plan, room, _, _ = session.placement.vacancy(shape)
    if plan.one_of is None:
        return room
    found: IntVec = session.placement.amounts_room(shape) * (plan.one_of == 0)
    return found if plan.cap is None else np.minimum(found, plan.cap)


def places_once_released(session: Placing, shape: int) -> IntVec:
    """``(N,)`` pods of a shape that fit once room being released is free."""
    if not session.capacity.has_releasing:
        return places(session, shape)
    plan = session.placement.plan(shape)
    return session.placement.future(plan, plan.one_of)


def places_once_evicted(session: Placing, view: SessionView, shape: int) -> IntVec:
    """``(N,)`` pods of a shape that would fit if no preemptible pod ran any more: a bound."""
    plan = session.placement.plan(shape)
    allowed: BoolVec | None = None
    if plan.codes is not None:
        allowed = (plan.codes == 0) | np.isin(plan.codes, freeable_codes())
    return session.capacity.room(shape, allowed, _evictable(view))


def places_when_empty(session: Placing, view: SessionView, shape: int) -> IntVec:
    """``(N,)`` pods of a shape that would fit by amounts if nothing ran at all: a bound.

    It must never be too low: who is above it is not tried until nodes change. So cards, devices and
    bounds of plugins are left out, and a node is out only for a reason that no other work lifts.
    """
    codes = session.placement.plan(shape).codes
    allowed = None if codes is None else ~np.isin(codes, lasting_codes())
    return room_of(view.nodes.allocatable, view.shapes.request[:, shape], allowed)


class _InAll(NamedTuple):
    """Places on all nodes by shape, and the nodes that they were counted on."""

    generation: int
    statics: object
    allocatable: Amounts
    places: dict[int, int]

    def holds(self, session: SessionView) -> bool:
        nodes = session.nodes
        return (
            self.generation == session.generation
            and self.statics is nodes.statics
            and np.array_equal(self.allocatable, nodes.allocatable)
        )


def places_in_all(session: Placing, view: SessionView, shape: int) -> int:
    """Return how many pods of a shape would fit on all nodes if nothing ran at all: a bound.

    It is kept from cycle to cycle while the nodes are the same.
    """
    known: dict[int, int] | None = view.found.get(_IN_ALL)
    if known is None:
        hint: _InAll | None = view.hints.get(_IN_ALL)
        if hint is None or not hint.holds(view):
            nodes = view.nodes
            hint = _InAll(view.generation, nodes.statics, nodes.allocatable, {})
        known, view.hints[_IN_ALL] = hint.places, hint
        view.found[_IN_ALL] = known
    if shape not in known:
        with session.placement.within(None):
            rooms = places_when_empty(session, view, shape)
        if (cards := session.capacity.cards) is not None:
            rooms = rooms * cards.could_take(shape)
        known[shape] = int(rooms.sum())
    return known[shape]


def _evictable(session: SessionView) -> Holding:
    """Return what the running pods of preemptible jobs hold."""
    known: tuple[int, Holding] | None = session.found.get(_EVICTABLE)
    if known is not None and known[0] == session.moves:
        return known[1]
    job = session.tasks.job_of_task
    runs = ACTIVE_STATES[session.state_now] & (session.node_of_task_now >= 0) & (job >= 0)
    runs &= session.jobs.is_preemptible[job]
    tasks = runs.nonzero()[0]
    held = session.shapes.request.take(session.tasks.shape_of_task[tasks], axis=1)
    holding = Holding(session.node_of_task_now[tasks], held)
    session.found[_EVICTABLE] = session.moves, holding
    return holding
