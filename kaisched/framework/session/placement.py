"""Finds nodes for pods of a shape, one or many at once, and counts how many fit on each.

For each shape and cycle there is a mask of allowed nodes, with room and score of each node. Moves
update only the rows that they change. A batch of identical pods gets exactly the nodes of a choice
one by one (highest score, then the lower node row). Where scores allow it, the batch is placed at
once.
"""

from __future__ import annotations

import weakref
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from kaisched.core.devices import changed_cards
from kaisched.core.refusals import PASSING, Refusal
from kaisched.framework.session.capacity import Capacity, divisors, pods_in
from kaisched.framework.session.cards import ON_OPEN_CARD
from kaisched.framework.session.filling import (
    FreeCapacity,
    Mask,
    ShapePlan,
    choose_by_score,
    choose_shares,
    choose_within,
    next_share,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator

    from kaisched.core.axis import Amounts, CodeVec, FloatVec, IntVec, RowVec
    from kaisched.core.devices import CardTable
    from kaisched.core.snapshot import Snapshot
    from kaisched.framework.session.capacity import Capacity
    from kaisched.framework.session.cards import Scores
    from kaisched.framework.session.node_sets import NodeSet
    from kaisched.framework.session.session import Session

_UNKNOWN: Final = -1
_NO_ROWS: Final[RowVec] = np.zeros(0, np.int64)
_FEW: Final = 8
"""So many rows of cards are faster as plain numbers, one by one."""
_SPARE: Final = 256
"""With more shapes than this, the table checks whether most of them are still asked about."""
_HINT = "free_capacity"
_OUTSIDE = np.int16(Refusal.OUTSIDE_NODE_SET)
_ELSEWHERE = np.int16(Refusal.POD_AFFINITY)
_SCARCE = 64
"""With more room than this, no check is made whether all of it is on one node."""
_EMPTY: Final = "capacity.empty"


class CapacityTable:
    """Free capacity ``(S', N)`` for the shapes asked about, from amounts alone."""

    def __init__(self, snapshot: Snapshot) -> None:
        """Start with no shapes."""
        self._statics = snapshot.nodes.statics
        self._generation = snapshot.generation
        self._resources = len(snapshot.axis)
        count = len(snapshot.nodes)
        self.rows: RowVec = np.arange(count)
        self.none: IntVec = np.zeros(count, np.int64)
        self.rows.setflags(write=False)
        self.none.setflags(write=False)
        """``(N,)`` every node row, and nothing on each of them: for questions about all nodes."""
        self.slot_of_shape: dict[int, int] = {}
        self._shapes: list[int] = []
        """The shape of each slot."""
        self._cards: CardTable | None = None
        """The cards that the room was computed with."""
        self._slots: IntVec = np.zeros(0, np.int64)
        """The same as a column, for many shapes at once."""
        self._missing = 0
        """How many shapes of that column have no slot yet."""
        self.room: IntVec = np.zeros((0, count), np.int64)
        self.total: IntVec = np.zeros(0, np.int64)
        """``(S',)`` pods that fit over all nodes."""
        self._divisor: Amounts = np.ones((self._resources, 0), np.int64)
        self._bonus: Amounts = np.zeros((self._resources, 0), np.int64)
        self._version: IntVec = np.full(count, _UNKNOWN, np.int64)
        self._seen: list[int] = []
        """Per slot, how much of the capacity's touched rows it has taken in."""
        self._touched: list[int] = []
        self.turn = 0
        """Counts sessions: a record that is read late must not see the amounts of a later one."""
        self._asked: set[int] = set()
        """The slots asked about since the last session began."""

    def serves(self, snapshot: Snapshot) -> bool:
        """Tell whether this table is about the same nodes and shape numbers."""
        return (
            self._statics is snapshot.nodes.statics
            and self._generation == snapshot.generation
            and self._resources == len(snapshot.axis)
            and not self._is_bloated()
        )

    def _is_bloated(self) -> bool:
        """Tell whether the table is large and little of it is used.

        A user who makes ever new shapes would otherwise have all of them updated for ever. If no
        shape was asked about, the cluster was full, and the whole table was used.
        """
        return len(self.slot_of_shape) > _SPARE and 0 < 4 * len(self._asked) < len(
            self.slot_of_shape
        )

    def begin(self, snapshot: Snapshot, capacity: Capacity) -> None:
        """Update rows that changed since the last cycle, its tentative moves included."""
        self.turn += 1
        self._asked = set()
        nodes = snapshot.nodes
        if self._cards is not nodes.cards:
            self._version[changed_cards(self._cards, nodes.cards)] = _UNKNOWN
            self._cards = nodes.cards
        if self._touched:
            self._version[self._touched] = _UNKNOWN
            self._seen = [0] * len(self._seen)
        self._touched = capacity.touched
        changed = (self._version != nodes.version).nonzero()[0]
        if changed.size:
            self._version = nodes.version.copy()
            self._refresh(changed, capacity)

    def is_full(self, shapes: int) -> bool:
        """Tell whether all of so many shapes have been asked about and none of them has room."""
        return len(self.slot_of_shape) == shapes and not np.count_nonzero(self.total)

    def catch_up(self, slot: int, capacity: Capacity) -> None:
        """Update one shape with the moves since its last update."""
        touched = self._touched = capacity.touched
        seen = self._seen[slot]
        if len(touched) == seen:
            return
        self._seen[slot] = len(touched)
        room = self.room[slot]
        nodes = set(touched[seen:])
        if len(nodes) <= (1 if self._cards is None else _FEW):
            for node in nodes:
                fits = capacity.pods_now(self._shapes[slot], node)
                self.total[slot] += fits - room[node]
                room[node] = fits
            return
        rows = np.array(sorted(nodes), np.int64)
        free = capacity.unpromised(rows)
        fresh = pods_in(free, self._divisor[:, slot, None], self._bonus[:, slot, None])
        fresh = capacity.limited_now(self._shapes[slot], rows, fresh)
        self.total[slot] += fresh.sum() - room[rows].sum()
        room[rows] = fresh

    def slots(self, shapes: RowVec, snapshot: Snapshot, capacity: Capacity) -> RowVec:
        """``(K,)`` slots of shapes; shapes that were not asked about before are added."""
        self._reach(snapshot.shapes.request.shape[1])
        slots = self._slots[shapes]
        if self._missing and slots.size and np.minimum.reduce(slots) < 0:
            self.add(np.unique(shapes[slots < 0]).tolist(), snapshot, capacity)
            slots = self._slots[shapes]
        if len(self.slot_of_shape) > _SPARE:
            self._asked.update(slots.tolist())
        if capacity.touched:
            for slot in np.unique(slots).tolist():
                self.catch_up(slot, capacity)
        return slots

    def add(self, shapes: list[int], snapshot: Snapshot, capacity: Capacity) -> None:
        """Add shapes that were not asked about before."""
        new = [shape for shape in shapes if shape not in self.slot_of_shape]
        if not new:
            return
        first = len(self.slot_of_shape)
        self._reach(max(new) + 1)
        self._missing -= len(new)
        for offset, shape in enumerate(new):
            self.slot_of_shape[shape] = self._slots[shape] = first + offset
            self._shapes.append(shape)
        divisor, bonus = divisors(snapshot.shapes.request[:, new])
        self._divisor = np.concatenate((self._divisor, divisor), axis=1)
        self._bonus = np.concatenate((self._bonus, bonus), axis=1)
        self._touched = capacity.touched  # the amounts below are tentative in these rows
        free = capacity.unpromised(self.rows)
        # One shape at a time: (R, S', N) at once would not fit a cache, nor 600 MB.
        added = np.stack(
            [
                capacity.limited_now(
                    shape, self.rows, pods_in(free, divisor[:, i, None], bonus[:, i, None])
                )
                for i, shape in enumerate(new)
            ]
        )
        self.room = np.concatenate((self.room, added))
        self.total = np.concatenate((self.total, added.sum(axis=1)))
        self._seen.extend([len(capacity.touched)] * len(new))

    def _reach(self, count: int) -> None:
        """Make the column of slots long enough for ``count`` shapes."""
        missing = count - len(self._slots)
        if missing > 0:
            more = np.full(missing, _UNKNOWN, np.int64)
            self._slots = np.concatenate((self._slots, more))
            self._missing += missing

    def _refresh(self, rows: RowVec, capacity: Capacity) -> None:
        if not self.slot_of_shape:
            return
        free = capacity.unpromised(rows)
        quotient = free[:, None, :] // self._divisor[:, :, None]
        quotient += self._bonus[:, :, None]
        fresh = np.minimum.reduce(quotient, axis=0)
        np.maximum(fresh, 0, out=fresh)
        if self._cards is not None:
            for slot, shape in enumerate(self._shapes):
                fresh[slot] = capacity.limited_now(shape, rows, fresh[slot])
        self.total += np.add.reduce(fresh - self.room.take(rows, axis=1), axis=1)
        self.room[:, rows] = fresh


class Placement:
    """Finds nodes for the pods of a session."""

    def __init__(self, session: Session) -> None:
        """Reuse the table of earlier cycles if it is still about the same nodes."""
        # A weak reference: a cycle of references would keep all columns of a cycle until the next
        # garbage collection, and fresh memory costs more than memory that was just released.
        self._of = weakref.ref(session)
        self._ask, self._devices = session.ask, session.devices
        table = session.hints.get(_HINT)
        if not (isinstance(table, CapacityTable) and table.serves(session.snapshot)):
            table = session.hints[_HINT] = CapacityTable(session.snapshot)
        self._capacity: Capacity = session.capacity
        self._has_cards = session.capacity.cards is not None
        table.begin(session.snapshot, self._capacity)
        self._shared: CapacityTable = table
        self._rows, self._none, self._turn = table.rows, table.none, table.turn
        self.highest_score = self._ask.highest_score
        self._plans: dict[int, ShapePlan] = {}
        """Plans for all nodes."""
        self._plans_within: dict[tuple[object, ...], dict[int, ShapePlan]] = {}
        """Plans for sets of nodes."""
        self._here = self._plans
        """The plans of the set that is tried now."""
        self.news = 0
        """How often moves made filters stale."""
        self.nodes: NodeSet | None = None
        """The set of nodes that is tried now; None for all nodes."""

    @property
    def _session(self) -> Session:
        session = self._of()
        assert session is not None
        return session

    @contextmanager
    def within(self, nodes: NodeSet | None) -> Iterator[None]:
        """Place pods on nodes of a set only while the context lasts; on all nodes with None."""
        before = self.nodes, self._here
        self.nodes = nodes
        self._here = self._plans if nodes is None else self._plans_within.setdefault(nodes.key, {})
        try:
            yield
        finally:
            self.nodes, self._here = before

    @property
    def neighbours(self) -> IntVec | None:
        """Which nodes are near each other in the set that is tried now, if that says it."""
        return None if self.nodes is None else self.nodes.neighbours

    # -- room ----------------------------------------------------------------------------------

    def upper_bound(self, shapes: RowVec) -> IntVec:
        """``(K,)`` pods of each shape that amounts allow, room being released included.

        Of pods with shares of several cards as many as fit in the best order of cards.
        """
        capacity = self._capacity
        total: IntVec
        if capacity.has_releasing:
            distinct, which = np.unique(shapes, return_inverse=True)
            future = [capacity.room(shape).sum() for shape in distinct.tolist()]
            total = np.array(future, np.int64)[which]
        else:
            table = self._current()
            slots = table.slots(shapes, self._session.snapshot, capacity)
            total = table.total.take(slots)
        if (cards := capacity.cards) is not None:
            for shape in np.unique(shapes).tolist():
                if cards.take_on(shape, _NO_ROWS)[0] > 1:
                    total = np.where(shapes == shape, np.maximum(total, cards.most(shape)), total)
        return total

    @property
    def is_full(self) -> bool:
        """Whether a quick check shows that no pod of any shape fits now or once all is released."""
        session = self._session
        if self._capacity.has_releasing or session.has_moved:
            return False
        return self._current().is_full(session.shapes.request.shape[1])

    def amounts_room(self, shape: int) -> IntVec:
        """``(N,)`` pods of the shape that the idle amounts allow now, whatever plugins say."""
        slot = self._slot(shape)
        room: IntVec = self._current().room[slot]
        return room

    def plan(self, shape: int) -> ShapePlan:
        """Return the shape's plan, after asking its filter."""
        plan = self._planned(shape)
        if plan.judged < 0:
            self._judge(plan)
        elif self._devices is not None:
            self._refresh(plan)
        return plan

    def filtered(self, shape: int) -> CodeVec | None:
        """``(N,)`` what the plugins' filters alone answer: devices and bounds are left out."""
        return self._planned(shape).filtered

    def _planned(self, shape: int) -> ShapePlan:
        plan = self._here.get(shape)
        if plan is None:
            plan = self._here[shape] = self._made(shape)
        return plan

    def _made(self, shape: int) -> ShapePlan:
        """Return the shape's plan for the set of nodes that is tried: others are refused."""
        if self.nodes is None:
            self._filter(plan := ShapePlan(shape))
            return plan
        nodes = self.nodes.nodes
        with self.within(None):
            whole = self.plan(shape)
        plan = ShapePlan(shape, whole)
        filtered = 0 if whole.filtered is None else whole.filtered
        plan.filtered = plan.codes = np.where(nodes, filtered, _OUTSIDE)
        return plan

    def _filter(self, plan: ShapePlan) -> None:
        """Ask where pods of a shape may go."""
        codes = self._ask.node_filter(self._session, plan.shape, self._rows)
        plan.filtered = plan.codes = codes if codes is not None and codes.any() else None

    def _judge(self, plan: ShapePlan) -> None:
        """Add what bounds and devices say to what the plugins' filters have answered."""
        self._judge_within(plan, self._bound(plan))

    def _bound(self, plan: ShapePlan) -> IntVec | None:
        """``(N,)`` the plugins' bound on pods of a shape; None without one."""
        if not self._ask.has_node_room:
            return None
        return self._ask.node_room(self._session, plan.shape, self._rows)

    def _judge_within(self, plan: ShapePlan, bound: IntVec | None) -> None:
        plan.bound = plan.cap = bound
        plan.judged = len(self._capacity.touched)
        plan.one_of = None
        if self._devices is not None:
            self._devices.judge(plan, self._capacity)
        if self._session.shapes.constraints[plan.shape].pod_affinity:
            self._leave_one_domain(plan)

    def _leave_one_domain(self, plan: ShapePlan) -> None:
        """Leave to pods that have to be in one domain the one where most of them fit.

        One answer places a whole batch.
        """
        domain = self._ask.node_domains(self._session, plan.shape)
        if domain is None:
            return
        codes = np.zeros(len(domain), np.int16) if plan.codes is None else plan.codes
        is_open = codes == 0
        may_open = (is_open | np.isin(codes, PASSING)) & (domain >= 0)
        now, later = self.amounts_room(plan.shape) * is_open, self._capacity.room(plan.shape)
        for room, cap in ((now, plan.cap), (later, plan.cap_once_released)):
            fits = room if cap is None else np.minimum(room, cap)
            total = np.bincount(domain[may_open], weights=fits[may_open])
            if total.any():
                is_other = may_open & (domain != int(total.argmax()))
                plan.one_of = codes if plan.one_of is None else plan.one_of
                plan.codes = np.where(is_other, _ELSEWHERE, codes)
                return

    def _refresh(self, plan: ShapePlan) -> None:
        """Judge anew if devices have changed hands since, or if there were moves with a bound."""
        devices, touched = self._devices, len(self._capacity.touched)
        has_moved = plan.cap is not None and plan.judged < touched
        if not has_moved and (devices is None or not devices.are_newer(plan)):
            return
        bound = self._bound(plan)
        is_plain = bound is None and plan.bound is None and plan.one_of is None
        if is_plain and devices is not None and devices.judge_moved(plan):
            plan.judged = touched  # only nodes with a move: the mask is kept up with those
            return
        self._judge_within(plan, bound)
        plan.mask = Mask()

    def free_capacity(self, shape: int) -> FreeCapacity:
        """Return where pods of the shape fit now, by amounts, filters and plugins' bounds."""
        plan = self.plan(shape)
        slot = self._slot(shape)
        room: IntVec = self._shared.room[slot]
        if plan.codes is None and plan.cap is None:
            return FreeCapacity(plan, room, int(self._shared.total[slot]), plan.mask)
        self._refresh(plan)
        if plan.cap is not None:
            room = np.minimum(room, plan.cap)
        if plan.codes is not None:
            room = room * (plan.codes == 0)
        return FreeCapacity(plan, room, int(room.sum()), plan.mask)

    def future(self, plan: ShapePlan, codes: CodeVec | None = None) -> IntVec:
        """``(N,)`` pods that fit once room being released is free; by other codes, if given."""
        self._refresh(plan)
        codes = plan.codes if codes is None else codes
        allowed = None if codes is None else (codes == 0) | np.isin(codes, PASSING)
        room = self._capacity.room(plan.shape, allowed)
        cap = plan.cap_once_released
        return room if cap is None else np.minimum(room, cap)

    def future_capacity(self, shape: int) -> FreeCapacity:
        """Return where pods of the shape fit once room being released is free."""
        plan = self.plan(shape)
        room = self.future(plan)
        return FreeCapacity(plan, room, int(room.sum()), None)

    # -- choosing --------------------------------------------------------------------------------

    def choose(self, free: FreeCapacity, count: int) -> RowVec | None:
        """Return a node row for each of ``count`` identical pods, or None where room is lacking.

        Nothing is changed: the caller places the pods through a statement. ``free`` must be
        current. Where the set of nodes that is tried now has an order, that decides before scores.
        """
        if free.total < count:
            return None
        rows: RowVec | None
        if self.nodes is None:
            rows = self._choose(free, count)
        else:
            rows = choose_within(self.nodes, free, count, self._choose)
        if count == 1 or self._devices is None or rows is None:
            return rows
        return self._devices.in_order(free.plan.shape, rows)

    def _choose(self, free: FreeCapacity, count: int) -> RowVec:
        """Return a node row for each of some identical pods, which have room, by scores alone."""
        plan, room, total, _ = free
        cards = self._capacity.cards_for(plan.shape) if self._has_cards else None
        if cards is not None and not cards.spread.nodes:
            return choose_shares(self, self._capacity, cards, free, count)
        if total <= _SCARCE:
            open_rows: RowVec = room.nonzero()[0]
            if open_rows.size == 1:  # no choice, no scores: the rule in a full cluster
                return open_rows if count == 1 else np.repeat(open_rows, count)
        masked = self._masked(free)
        if count == 1:
            return np.array([int(masked.argmax())])
        scorer, scores_rise = self.scorer(plan.shape), self._ask.scores_rise
        return choose_by_score(masked, room, count, scorer, scores_rise=scores_rise)

    def next_share(self, shape: int) -> int | None:
        """Return the node that :meth:`choose` would for one pod with a share, counting no room.

        None if the kept mask does not tell, or may not: with the last room more ends than a choice.
        """
        plan = self._plans.get(shape) if self.nodes is None else None
        if plan is None or plan.mask.shares is None or plan.cap is not None:
            return None
        return next_share(self, self._capacity, plan, plan.mask.shares)

    def best_future(self, shape: int, barred: Collection[int] = ()) -> tuple[int, bool] | None:
        """Return (node row, fits now) for one pod, counting room being released, or None.

        Node rows in ``barred`` are left out.
        """
        plan, room, _, _ = self.free_capacity(shape)
        future = self.future(plan)
        score = np.where(future > 0, self.scores(plan), -1.0)
        if (cards := self._capacity.cards_for(shape)) is not None:
            score += ON_OPEN_CARD * (cards.is_on_open_later(shape) & (future > 0))
        if barred:
            score[list(barred)] = -1.0
        if plan.codes is not None and ((room > 0) & (score >= 0)).any():
            # Scores do not know that a node with idle room is not open yet.
            score[np.isin(plan.codes, PASSING)] = -1.0
        order = None if self.nodes is None else self.nodes.order
        if order is not None and (score >= 0).any():
            score[order > order[score >= 0].min()] = -1.0
        best = int(score.argmax()) if score.size else -1
        if best < 0 or score[best] < 0:
            return None
        return best, bool(room[best] > 0)

    def choose_future(self, shape: int, count: int) -> RowVec | None:
        """Return a node row for each of ``count`` identical pods, counting room being released.

        Return None when there is too little room. Nothing is changed, as in :meth:`choose`.
        """
        return self.choose(self.future_capacity(shape), count)

    @property
    def _moved(self) -> Callable[..., tuple[RowVec, RowVec] | None] | None:
        """What notifies plugins of moves; None if none is to be notified in this cycle."""
        return self._ask.speaking(self._session, "on_moves")

    @property
    def listens(self) -> bool:
        """Whether devices or plugins are to be notified of moves."""
        return self._devices is not None or self._moved is not None

    def record_moves(self, tasks: RowVec, nodes: RowVec, sign: int) -> None:
        """Report moves to the plugins, and ask again filters and scores that they name as stale."""
        if self._devices is not None:
            self._devices.note_all(tasks, nodes, self._session.ledger.state, sign)
            while self._devices.handed_on:
                task, key, more = self._devices.handed_on.pop(0)
                node, request, charge = self._devices.counted(key)
                self._session.ledger.count_claim(task, charge, more)
                self._capacity.keep(node, request * more)
        notify = self._moved
        stale = None if notify is None else notify(self._session, tasks, nodes, sign)
        if stale is None:
            return
        self.news += 1
        # A filter is asked whole: affinity domains span more rows than moved.
        known = stale[0].tolist() if len(stale[0]) else list(self._plans)
        for plan in [self._plans[shape] for shape in known if shape in self._plans]:
            self._filter(plan)
            if plan.judged >= 0:
                self._judge(plan)
            plan.mask, plan.score = Mask(), None
            for plans in self._plans_within.values():
                plans.pop(plan.shape, None)

    # -- upkeep ------------------------------------------------------------------------------------

    def _current(self) -> CapacityTable:
        """Return the shared table; a private one if a later cycle has taken that over.

        Records are made when they are read, which may be cycles later.
        """
        if self._shared.turn != self._turn:
            self._shared = CapacityTable(self._session.snapshot)
            self._turn = self._shared.turn
        return self._shared

    def _slot(self, shape: int) -> int:
        """Return the shape's slot in the table of free capacity, updated with every move."""
        table = self._current()
        slot = table.slot_of_shape.get(shape)
        if slot is None:
            table.add([shape], self._session.snapshot, self._capacity)
            slot = table.slot_of_shape[shape]
        else:
            table.catch_up(slot, self._capacity)
        return slot

    def scores(self, plan: ShapePlan) -> FloatVec:
        """``(N,)`` scores as of now: asked for all nodes once, then for touched rows.

        All are asked for again where a plugin has named them as stale.
        """
        if plan.whole is not None:  # scores do not depend on the set that is tried
            return self.scores(plan.whole)
        session = self._session
        touched = self._capacity.touched
        if plan.score is None:
            plan.score = self._ask.node_score(session, plan.shape, self._rows, self._none)
        elif plan.seen < len(touched):
            rows = np.array(sorted(set(touched[plan.seen :])), np.int64)
            fresh = self._ask.node_score(session, plan.shape, rows, self._none[: rows.size])
            plan.score[rows] = fresh
            plan.fresh = plan.seen, rows
        plan.seen = len(touched)
        return plan.score

    def _masked(self, free: FreeCapacity) -> FloatVec:
        """``(N,)`` score where there is room, else -1; a kept mask is updated in touched rows."""
        plan, room, _, mask = free
        score, touched = self.scores(plan), self._capacity.touched
        if mask is None or mask.values is None:
            values: FloatVec = np.where(room > 0, score, -1.0)
            if mask is not None:
                mask.values, mask.seen = values, len(touched)
            return values
        if mask.seen < len(touched):
            if plan.fresh is not None and plan.fresh[0] == mask.seen:
                rows = plan.fresh[1]
            else:
                rows = np.array(sorted(set(touched[mask.seen :])), np.int64)
            mask.values[rows] = np.where(room[rows] > 0, score[rows], -1.0)
            mask.seen = len(touched)
        return mask.values

    def scorer(self, shape: int) -> Scores:
        """Return what scores nodes with so many more pods of the shape."""
        return partial(self._ask.node_score, self._session, shape)


class _Empty(NamedTuple):
    """Pods that fit on all empty nodes by shape, and the nodes that they were counted on."""

    generation: int
    statics: object
    allocatable: Amounts
    pods: dict[int, int]

    def holds(self, session: Session) -> bool:
        nodes = session.nodes
        return (
            self.generation == session.generation
            and self.statics is nodes.statics
            and np.array_equal(self.allocatable, nodes.allocatable)
        )


def pods_if_empty(session: Session, shape: int) -> int:
    """Return how many pods of a shape would fit on all nodes if nothing ran at all: a bound.

    It is kept from cycle to cycle while the nodes are the same.
    """
    known: dict[int, int] | None = session.found.get(_EMPTY)
    if known is None:
        hint: _Empty | None = session.hints.get(_EMPTY)
        if hint is None or not hint.holds(session):
            nodes = session.nodes
            hint = _Empty(session.generation, nodes.statics, nodes.allocatable, {})
        known, session.hints[_EMPTY] = hint.pods, hint
        session.found[_EMPTY] = known
    if shape not in known:
        with session.placement.within(None):
            pods = session.places_when_empty(shape)
        if (cards := session.capacity.cards) is not None:
            pods = pods * cards.could_take(shape)
        known[shape] = int(pods.sum())
    return known[shape]
