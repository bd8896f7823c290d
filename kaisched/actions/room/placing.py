"""Places one job's batch through a statement: on idle room, or on room being released.

Pods of several shapes are tried in their order and in others. Subgroups of a structured job get a
set of nodes each. Pods that ask for memory of a GPU keep to the cards on which their queues take
them. Where no order of unequal pods fits, all choices of nodes are tried.
"""

from __future__ import annotations

from collections import Counter
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from kaisched.actions.order.gates import first_shut
from kaisched.core.axis import GPU, GPU_UNIT, PODS, TaskState
from kaisched.core.card_packing import CardKind, CardNode, CardPacking
from kaisched.core.devices import card_mib, charges
from kaisched.core.packing import Bin, pack
from kaisched.framework.session.node_sets import NodeSet, shapes_of, subgroup_sets
from kaisched.framework.session.order import as_neighbours

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from kaisched.core.axis import Amounts, IntVec, RowVec
    from kaisched.core.claims.model import Allocation
    from kaisched.core.tables import SubGroup
    from kaisched.framework.session.cards import Cards
    from kaisched.framework.session.devices import Devices
    from kaisched.framework.session.node_sets import NodeSets
    from kaisched.framework.session.session import Session
    from kaisched.framework.session.statement import Statement

    Place = Callable[[Session, Statement, RowVec], bool]
    Size = Callable[[RowVec], int]
    """How large the pods of a subgroup are."""
    Chosen = Mapping[int, RowVec]
    """By shape, a node for each of its pods."""


# Places pods that ask for memory of a GPU where their queues would take them on some cards only.
#
# What such a pod counts depends on the card of its node (rule V2 of docs/explanation/devices.md).
# The gates are asked first with the least it could count, on the largest card. If a queue would
# refuse it on the smallest one, it is asked again about each pod in turn, and, if that leaves too
# little for the last ones, about all of them together: on which nodes would it take them? If these
# have no room for all, each pod in turn takes the largest cards with room.

_APART: Final = "placing.apart"
_LABEL: Final = "cards on which it stays within the bounds of its queues"


def least_ask(session: Session, tasks: RowVec | Sequence[int], ask: Amounts) -> Amounts:
    """``(R,)`` the least of what they ``ask`` for that pods could count, on the largest cards."""
    if session.shapes.by_card is None:
        return ask
    least: Amounts = session.least_charge[:, session.tasks.shape_of_task[list(tasks)]].sum(axis=1)
    return least


def is_tight(session: Session, tasks: RowVec) -> bool:
    """Tell whether a queue would refuse pods of a job on the smallest cards of the cluster."""
    if not _depends_on_cards(session, tasks):
        return False
    shapes = session.tasks.shape_of_task[tasks]
    ask = session.shapes.charge.take(shapes, axis=1).sum(axis=1)
    return bool(first_shut(session, session.action, _job_of(session, tasks), ask))


def is_spread(session: Session, shape: int) -> bool:
    """Tell whether each pod of a shape changes where the next goes, so that none go together."""
    constraints = session.shapes.constraints[shape]
    if constraints.spread or constraints.preferences.are_about_pods:
        return True
    return bool(constraints.pod_anti_affinity) and _is_apart(session, shape)


def _is_apart(session: Session, shape: int) -> bool:
    """Tell whether a pod of a shape keeps the next off more nodes than its own."""
    known: dict[int, bool] = session.found.setdefault(_APART, {})
    if shape not in known:
        asked, sets = session.shapes.constraints[shape], session.label_sets
        own = asked.label_set
        about_itself = {
            term.topology_key
            for term in asked.pod_anti_affinity
            if own >= 0 and term.selects(sets.namespace[own], sets.labels[own])
        }
        columns = [session.nodes.statics.label_column(key)[0] for key in about_itself]
        known[shape] = any(np.bincount(it[it >= 0]).max(initial=0) > 1 for it in columns)
    return known[shape]


def within_bounds(place: Place) -> Place:
    """Make a way to place pods keep to the cards on which the queues of their job take them."""

    def placed(session: Session, statement: Statement, tasks: RowVec) -> bool:
        if not tasks.size or not is_tight(session, tasks):
            return place(session, statement, tasks)
        around, mark = session.placement.nodes, statement.checkpoint()
        # A bound says how many pods of the whole batch parts of the set get.
        is_bounded = around is not None and around.most is not None
        if not is_bounded and all(
            _place_on_open(session, statement, tasks[at : at + 1], place)
            for at in range(len(tasks))
        ):
            return True
        statement.rollback(mark)
        if len(tasks) == 1 and not is_bounded:
            return False
        # The first pods may have taken small cards, which left too little for the last ones.
        if _place_on_open(session, statement, tasks, place):
            return True
        statement.rollback(mark)
        return not is_bounded and all(
            _place_on_largest(session, statement, tasks[at : at + 1], place)
            for at in range(len(tasks))
        )

    return placed


def _place_on_open(session: Session, statement: Statement, tasks: RowVec, place: Place) -> bool:
    """Place pods on the nodes on which the queues of their job take all of them."""
    with session.placement.within(_open_nodes(session, tasks)):
        return place(session, statement, tasks)


def _place_on_largest(session: Session, statement: Statement, tasks: RowVec, place: Place) -> bool:
    """Place pods on the largest cards that have room, so that they count least."""
    size, mark = card_mib(session.nodes, np.arange(len(session.nodes))), statement.checkpoint()
    around = session.placement.nodes
    for mib in np.unique(size)[::-1]:
        some = NodeSet(_LABEL, size == mib)
        with session.placement.within(some if around is None else around.meet(some)):
            if _place_on_open(session, statement, tasks, place):
                return True
        statement.rollback(mark)
    return False


def is_over(session: Session, tasks: RowVec | Sequence[int]) -> bool:
    """Tell whether a queue would not have taken pods of a job where they are placed by now."""
    if not _depends_on_cards(session, tasks):
        return False
    rows = np.array(tasks, np.int64)
    ask = charges(session, rows, session.ledger.node_of_task[rows]).sum(axis=1)
    job = _job_of(session, rows)
    return bool(first_shut(session, session.action, job, ask, is_counted=True))


def _depends_on_cards(session: Session, tasks: RowVec | Sequence[int]) -> bool:
    by_card = session.shapes.by_card
    if by_card is None:
        return False
    return bool(by_card.memory_mib.take(session.tasks.shape_of_task[list(tasks)]).any())


def _job_of(session: Session, tasks: RowVec) -> int:
    return int(session.tasks.job_of_task[tasks[0]])


def _open_nodes(session: Session, tasks: RowVec) -> NodeSet:
    """Return the nodes of the present set on whose cards the queues of a job take these pods."""
    by_card = session.shapes.by_card
    assert by_card is not None
    shapes, job = session.tasks.shape_of_task[tasks], _job_of(session, tasks)
    most = session.shapes.charge.take(shapes, axis=1).sum(axis=1)
    size = card_mib(session.nodes, np.arange(len(session.nodes)))
    is_open = np.zeros(len(size), np.bool_)
    for mib in np.unique(size):
        ask = most.copy()
        ask[GPU] -= int(by_card.saved(shapes, mib).sum())
        if not first_shut(session, session.action, job, ask):
            is_open |= size == mib
    found, around = NodeSet(_LABEL, is_open), session.placement.nodes
    return found if around is None else around.meet(found)


# Other orders in which the pods of a batch are placed: the largest first, by each resource.


def in_orders(place: Place) -> Place:
    """Return what places pods in their order, and in others where these do not fit so.

    On all nodes, or on a set of nodes that says it; the caller rolls back.
    """

    def placed(session: Session, statement: Statement, tasks: RowVec) -> bool:
        mark = statement.checkpoint()
        if place(session, statement, tasks):
            return True
        nodes = session.placement.nodes
        if nodes is not None and not nodes.reorders:
            return False
        statement.rollback(mark)
        if nodes is None and not _are_counted(session, tasks):
            return False
        for some in _orders(session, tasks):
            statement.rollback(mark)
            if place(session, statement, some):
                return True
        return False

    return placed


def _are_counted(session: Session, tasks: RowVec) -> bool:
    """Tell whether there is room for the pods kind by kind: if not, no order of them would do."""
    placement = session.placement
    has_releasing = session.capacity.has_releasing
    free_of = placement.future_capacity if has_releasing else placement.free_capacity
    shapes, counts = np.unique(session.tasks.shape_of_task[tasks], return_counts=True)
    pairs = zip(shapes.tolist(), counts.tolist(), strict=True)
    return len(shapes) > 1 and all(free_of(shape).total >= count for shape, count in pairs)


def by_size(session: Session, tasks: RowVec) -> Iterator[Callable[[RowVec], int]]:
    """Yield for each resource of which pods want unequal amounts what tells how much one wants."""
    return (partial(_largest, session, it) for it in _unequal(session, tasks))


def _largest(session: Session, amounts: IntVec, tasks: RowVec) -> int:
    return int(amounts[session.tasks.shape_of_task[tasks]].max())


def _orders(session: Session, tasks: RowVec) -> Iterator[RowVec]:
    """Yield pods in other orders, each order of shapes once."""
    shapes = session.tasks.shape_of_task[tasks]
    tried = {shapes.tobytes()}
    for amounts in _unequal(session, tasks):
        at = np.argsort(-amounts[shapes], kind="stable")
        if (key := shapes[at].tobytes()) not in tried:
            tried.add(key)
            yield tasks[at]


def _unequal(session: Session, tasks: RowVec) -> Iterator[IntVec]:
    """Yield ``(S,)`` what shapes ask for of each resource of which some pods want more."""
    shapes = np.unique(session.tasks.shape_of_task[tasks])
    for amounts in session.shapes.request:
        if amounts[shapes].min() < amounts[shapes].max():
            yield amounts


# Places the subgroups of a structured job, each on a set of nodes of its own.


def has_parts(session: Session, job: int) -> bool:
    """Tell whether subgroups of a job, or all of it, may have sets when they are placed."""
    is_structured = session.jobs.structure.get(job) is not None
    return is_structured and session.ask.has_subgroup_sets(session)


class Budget:
    """How many sets of nodes of subgroups may still be tried to place one batch."""

    def __init__(self, left: int) -> None:
        self.left = left

    @property
    def share(self) -> int:
        """What one search may use: half of it, so that the next set of the job gets some too."""
        return (self.left + 1) // 2


def place_parts(
    session: Session,
    statement: Statement,
    tasks: RowVec,
    place: Place,
    budget: Budget | None = None,
) -> bool:
    """Place pods of one job, those of each subgroup on the first of its sets that has room.

    If pods of several shapes find none, they are tried in other orders, where the set of nodes says
    so. With a budget other choices are tried too: subgroups with most pods first, or with the
    largest, and the next set of an earlier subgroup where a later one finds no place.
    """
    job = int(session.tasks.job_of_task[tasks[0]])
    if len(tasks) > 1:
        place = in_orders(place)
    if not has_parts(session, job):
        return place(session, statement, tasks)
    root, mark = session.jobs.structure[job], statement.checkpoint()
    if _Parts(session, statement, job, place).put_part(root, tasks):
        return True
    statement.rollback(mark)
    if budget is None:
        return False
    return _Search(session, statement, job, place, budget).find(root, tasks)


def is_bound_in_parts(session: Session, job: int, tasks: RowVec) -> bool:
    """Tell whether some of these pods have sets of nodes of their subgroups."""
    return has_parts(session, job) and bool(_bound_parts(session, job, tasks))


def are_within(session: Session, job: int, tasks: RowVec, nodes: RowVec) -> bool:
    """Tell whether these nodes of pods are in one set of nodes of each subgroup."""
    return not has_parts(session, job) or all(
        any(each.nodes[nodes[np.isin(tasks, some)]].all() for each in sets)
        for some, sets in _bound_parts(session, job, tasks)
    )


def may_go_anywhere(session: Session, tasks: RowVec) -> bool:
    """Tell whether pods of a job may go to any node: none of them is bound, unless by a wish."""
    job = int(session.tasks.job_of_task[tasks[0]])
    if not _is_everywhere(session.placement.nodes):
        return False
    return not has_parts(session, job) or all(
        len(sets) and _is_everywhere(sets[-1]) for _, sets in _bound_parts(session, job, tasks)
    )


def _is_everywhere(nodes: NodeSet | None) -> bool:
    return nodes is None or (nodes.most is None and bool(nodes.nodes.all()))


def _bound_parts(session: Session, job: int, tasks: RowVec) -> list[tuple[RowVec, NodeSets]]:
    """Return the pods of each subgroup that has sets of nodes of its own, with the sets."""
    found: list[tuple[RowVec, NodeSets]] = []
    left = [(session.jobs.structure[job], tasks)]
    while left:
        group, some = left.pop()
        sets = subgroup_sets(session, job, group, shapes_of(session, some))
        if sets is not None:
            found.append((some, sets))
        left += _parts(session, group, some)
    return found


class _Parts:
    """One attempt to place a batch of a structured job."""

    def __init__(self, session: Session, statement: Statement, job: int, place: Place) -> None:
        self._session = session
        self._statement = statement
        self._job = job
        self._place = place

    def put(self, group: SubGroup, tasks: RowVec) -> bool:
        """Place the pods of a group on the set that is tried now, and its subgroups within it."""
        parts = self._bound_parts(group, tasks)
        if not parts:
            return self._place(self._session, self._statement, tasks)
        return all(self.put_part(child, some) for child, some in parts)

    def put_part(self, group: SubGroup, tasks: RowVec) -> bool:
        """Place a subgroup on the first of its sets where all of it fits."""
        session = self._session
        sets = self._sets(group, tasks)
        if sets is None:
            return self.put(group, tasks)
        for nodes in sets:
            mark = self._statement.checkpoint()
            with session.placement.within(nodes):
                if self.put(group, tasks):
                    return True
            self._statement.rollback(mark)
        return False

    def _sets(self, group: SubGroup, tasks: RowVec) -> NodeSets | None:
        return subgroup_sets(self._session, self._job, group, shapes_of(self._session, tasks))

    def _bound_parts(self, group: SubGroup, tasks: RowVec) -> list[tuple[SubGroup, RowVec]]:
        """Return the subgroups with some of the pods; none if nothing below has sets of its own."""
        parts = _parts(self._session, group, tasks)
        return parts if any(self._is_bound(child, some) for child, some in parts) else []

    def _is_bound(self, group: SubGroup, tasks: RowVec) -> bool:
        """Tell whether a subgroup has sets of its own, or one below it."""
        if self._sets(group, tasks) is not None:
            return True
        return any(
            self._is_bound(child, some) for child, some in _parts(self._session, group, tasks)
        )


def _parts(session: Session, group: SubGroup, tasks: RowVec) -> list[tuple[SubGroup, RowVec]]:
    """Return the subgroups with some of the pods, in the order of their first pods."""
    podset = session.tasks.podset_of_task[tasks]
    found: list[tuple[int, SubGroup, RowVec]] = []
    for child in group.children:
        at = np.flatnonzero(np.isin(podset, child.podsets))
        if at.size:
            found.append((int(at[0]), child, tasks[at]))
    found.sort(key=lambda part: part[0])
    return [(child, some) for _, child, some in found]


class _Item(NamedTuple):
    """A subgroup to place, and the set of nodes around it."""

    group: SubGroup
    tasks: RowVec
    around: NodeSet | None


class _Search(_Parts):
    """Tries the choices of subgroups in turn, until all of them fit."""

    def __init__(
        self, session: Session, statement: Statement, job: int, place: Place, budget: Budget
    ) -> None:
        super().__init__(session, statement, job, place)
        self._budget = budget
        self._steps = budget.share
        self._size: Size = len

    def find(self, root: SubGroup, tasks: RowVec) -> bool:
        """Place all pods, subgroups in one order after the other; nothing is placed on failure."""
        around = self._session.placement.nodes
        if not self._below(root, tasks, around):  # there is nothing to choose
            return False
        is_bound = self._sets(root, tasks) is not None
        steps, is_found = self._steps, False
        for size in (len, *by_size(self._session, tasks)):
            self._size = size
            items = [_Item(root, tasks, around)] if is_bound else self._below(root, tasks, around)
            if is_found := self._rest(items):
                break
        self._budget.left -= steps - max(self._steps, 0)
        return is_found

    def _below(self, group: SubGroup, tasks: RowVec, around: NodeSet | None) -> list[_Item]:
        """Return the subgroups of a group, the largest first."""
        parts = sorted(self._bound_parts(group, tasks), key=lambda part: -self._size(part[1]))
        return [_Item(child, some, around) for child, some in parts]

    def _rest(self, items: list[_Item]) -> bool:
        """Place the first subgroup somewhere so that the others fit too."""
        if not items:
            return True
        (group, tasks, around), others = items[0], items[1:]
        placement = self._session.placement
        with placement.within(around):
            sets = self._sets(group, tasks)
        for nodes in (around,) if sets is None else sets:
            self._steps -= 1
            if self._steps < 0:
                return False
            mark = self._statement.checkpoint()
            with placement.within(nodes):
                below = self._below(group, tasks, nodes)
                is_open = bool(below) or self._place(self._session, self._statement, tasks)
            if is_open and self._rest(below + others):
                return True
            self._statement.rollback(mark)
        return False


# Places a batch of unequal pods that fits in no order of them, by trying all choices of nodes.
#
# With a constraint, which leaves fewer nodes to choose from, plain ways of placing may find a
# choice that they miss on all nodes. So on all nodes all choices are tried, as far as the steps
# go.

PACKING_STEPS: Final = 256
"""How often a pod is put on a node at most to place one batch."""


def place_packed(
    session: Session, statement: Statement, tasks: RowVec, *, is_later: bool = False
) -> bool:
    """Place pods that may go to any node on idle room, or else on what will be released, too.

    Not equal pods: counting has told whether they fit. And only where there is a Topology:
    elsewhere pods are placed as ever. Nothing is placed on failure.
    """
    if len(tasks) > PACKING_STEPS or not session.nodes.topologies:
        return False
    shapes = session.tasks.shape_of_task[tasks]
    if shapes.min() == shapes.max() or not may_go_anywhere(session, tasks):
        return False
    if is_tight(session, tasks):
        return False
    mark = statement.checkpoint()
    for later in (False, True) if is_later else (False,):
        chosen = _chosen(session, tasks, is_later=later)
        if chosen is not None and _put_packed(session, statement, tasks, chosen, is_later=later):
            return True
        statement.rollback(mark)
    return False


def _chosen(session: Session, tasks: RowVec, *, is_later: bool) -> Chosen | None:
    """Choose nodes; None if there is too little kind by kind, or no choice is found."""
    capacity, placement = session.capacity, session.placement
    free_of = placement.future_capacity if is_later else placement.free_capacity
    shapes, counts = (np.array(each) for each in zip(*shapes_of(session, tasks), strict=True))
    room = np.stack([free_of(shape).room for shape in shapes.tolist()])
    if (room.sum(axis=1) < counts).any():
        return None
    rows = np.flatnonzero(room.any(axis=0))
    request = session.shapes.request[:, shapes]
    asked = request.any(axis=1)
    free = capacity.free()[:, rows] if is_later else capacity.unpromised(rows)
    bins, kept = _bins(np.maximum(free[asked], 0), room[:, rows], len(tasks))
    found = pack(bins, request[asked].T.tolist(), counts.tolist(), PACKING_STEPS)
    if found is None:
        return None
    return {shape: rows[kept[it]] for shape, it in zip(shapes.tolist(), found, strict=True)}


def _bins(free: IntVec, room: IntVec, most: int) -> tuple[Sequence[Bin], RowVec]:
    """Return nodes as bins, and which they are; of equal nodes no more than there are pods."""
    bins, kept, known = [], [], Counter[Bin]()
    for at, (has, takes) in enumerate(zip(free.T.tolist(), room.T.tolist(), strict=True)):
        known[each := Bin(tuple(takes), tuple(has))] += 1
        if known[each] <= most:
            bins.append(each)
            kept.append(at)
    return bins, np.array(kept)


def _put_packed(
    session: Session, statement: Statement, tasks: RowVec, chosen: Chosen, *, is_later: bool
) -> bool:
    """Place pods on the nodes chosen; False where a plugin or a card says no after all."""
    placement, shapes = session.placement, session.tasks.shape_of_task[tasks]
    for shape, nodes in chosen.items():
        pairs = as_neighbours(session, tasks[shapes == shape], nodes, placement.neighbours)
        for task, node in zip(*(each.tolist() for each in pairs), strict=True):
            if placement.free_capacity(shape).room[node] > 0:
                statement.allocate(task, node)
            elif is_later and placement.future_capacity(shape).room[node] > 0:
                statement.pipeline(task, node)
            else:
                return False
    return True


# Places a gang that fits in no order of its pods: chooses GPUs and devices for all together.
#
# One by one, each pod gets the GPUs with the least left (rule V8), and the first devices that do
# (V13). A gang that does not fit so gets others if that lets it start.

CARD_STEPS: Final = 2_000
"""How often a pod is put on GPUs at most to place one gang."""
DEVICE_STEPS: Final = 200
"""How often a pod is given devices on a node at most to place one gang: this takes longer."""
_GANGS: Final = 5
"""So many gangs may take all these steps in one cycle."""
_MOST_TOGETHER: Final = 64
"""Gangs with more pods are placed one by one only."""
_STEPS: Final = "placing.together"


class _Steps:
    """The steps that are left in a cycle."""

    def __init__(self) -> None:
        self.left = {CARD_STEPS: _GANGS * CARD_STEPS, DEVICE_STEPS: _GANGS * DEVICE_STEPS}
        """By how many a gang may take."""

    def of_gang(self, most: int) -> int:
        """Return how many one gang may take now."""
        return min(most, self.left[most])


def place_together(
    session: Session,
    statement: Statement,
    tasks: RowVec,
    on: RowVec | None = None,
    *,
    may_wait: bool = True,
) -> bool:
    """Place pods of a job by trying all choices of GPUs or devices: on idle room.

    If they do not fit there and ``may_wait``, all are promised what is idle or being released.
    ``on`` says which node each pod has. Nothing is placed on failure.
    """
    ways = [_place_on_cards] if _has_shares(session, tasks) else []
    ways += [_place_on_devices] if _has_claims(session, tasks) else []
    if not ways or not 1 < len(tasks) <= _MOST_TOGETHER:
        return False
    if on is None and not _is_free_to_choose(session, tasks):
        return False
    nodes = np.full(len(tasks), -1) if on is None else on
    later = (False, True) if may_wait and session.capacity.has_releasing else (False,)
    return any(way(session, statement, tasks, nodes, is_later=it) for it in later for way in ways)


def _has_shares(session: Session, tasks: RowVec) -> bool:
    cards = session.capacity.cards
    if cards is None:
        return False
    shapes = np.unique(session.tasks.shape_of_task[tasks]).tolist()
    return any(cards.demand_of(shape) for shape in shapes)


def _has_claims(session: Session, tasks: RowVec) -> bool:
    if session.devices is None:
        return False
    shapes = np.unique(session.tasks.shape_of_task[tasks]).tolist()
    return any(session.shapes.constraints[shape].claims for shape in shapes)


def _is_free_to_choose(session: Session, tasks: RowVec) -> bool:
    """Tell whether nothing else than room says where each pod goes."""
    shapes = np.unique(session.tasks.shape_of_task[tasks]).tolist()
    if _is_bounded(session) or any(is_spread(session, shape) for shape in shapes):
        return False
    job = _job_of(session, tasks)
    return not (is_tight(session, tasks) or is_bound_in_parts(session, job, tasks))


def _steps_of(session: Session) -> _Steps:
    steps: _Steps = session.found.setdefault(_STEPS, _Steps())
    return steps


def _place_on_cards(
    session: Session, statement: Statement, tasks: RowVec, on: RowVec, *, is_later: bool
) -> bool:
    """Place pods, or promise them room, on GPUs that are chosen for all of them together."""
    cards, steps = session.capacity.cards, _steps_of(session)
    most = steps.of_gang(CARD_STEPS)
    if cards is None or not most:
        return False
    columns = np.stack((session.tasks.shape_of_task[tasks], on))
    kinds, which = np.unique(columns, axis=1, return_inverse=True)
    rows, packing = _card_packing(session, cards, kinds.T.tolist(), most, is_later=is_later)
    chosen = packing.pack(which.ravel().tolist())
    steps.left[CARD_STEPS] -= most - packing.steps
    if chosen is None:
        return False
    mark = statement.checkpoint()
    for task, (at, slots) in zip(tasks.tolist(), chosen, strict=True):
        with cards.giving(cards.as_chosen(task, slots, is_later=is_later)):
            if not _put_on(session, statement, task, int(rows[at]), is_later=is_later):
                statement.rollback(mark)
                return False
    return True


def _put_on(
    session: Session, statement: Statement, task: int, node: int, *, is_later: bool
) -> bool:
    """Place or promise a pod on a node; False where it has no room, or a plugin says no."""
    placement, shape = session.placement, int(session.tasks.shape_of_task[task])
    free_of = placement.future_capacity if is_later else placement.free_capacity
    if free_of(shape).room[node] <= 0:
        return False
    (statement.pipeline if is_later else statement.allocate)(task, node)
    return True


def _place_on_devices(
    session: Session, statement: Statement, tasks: RowVec, on: RowVec, *, is_later: bool
) -> bool:
    """Place pods, or promise them room, with devices that are chosen for all on a node together."""
    devices, steps = session.devices, _steps_of(session)
    most = steps.of_gang(DEVICE_STEPS)
    shapes = np.unique(session.tasks.shape_of_task[tasks]).tolist()
    if devices is None or not most or (len(shapes) == 1 and devices.are_alike(shapes[0])):
        return False
    search = _OnDevices(session, devices, tasks, on, most, is_later=is_later)
    is_found = search.rest(0)
    steps.left[DEVICE_STEPS] -= most - search.steps
    if not is_found:
        return False
    mark = statement.checkpoint()
    with devices.giving(search.given):
        for node, some in search.on.items():
            for task in some:
                if not _put_on(session, statement, task, node, is_later=is_later):
                    statement.rollback(mark)
                    return False
    return True


class _OnDevices:
    """Finds a node for each pod, so that claims of all pods of a node get devices together."""

    def __init__(
        self,
        session: Session,
        devices: Devices,
        tasks: RowVec,
        on: RowVec,
        steps: int,
        *,
        is_later: bool,
    ) -> None:
        capacity, placement = session.capacity, session.placement
        self._devices, self._is_later, self.steps = devices, is_later, steps
        shapes = session.tasks.shape_of_task[tasks]
        order = np.lexsort((on, shapes))
        self._tasks, self._on = tasks[order].tolist(), on[order].tolist()
        self.on: dict[int, list[int]] = {}
        """By node, its pods."""
        self._given: dict[int, Mapping[int, Mapping[str, Allocation]]] = {}
        """By node, what their claims get."""
        self._shape: list[int] = shapes[order].tolist()
        self._asked = {shape: capacity.asked(shape) for shape in self._shape}
        free_of = placement.future_capacity if is_later else placement.free_capacity
        self._rows = {shape: np.flatnonzero(free_of(shape).room).tolist() for shape in self._asked}
        rows = np.unique(np.concatenate([*self._rows.values()])).astype(np.int64)
        free = capacity.free()[:, rows] if is_later else capacity.unpromised(rows)
        self._free = dict(zip(rows.tolist(), free.T.tolist(), strict=True))

    @property
    def given(self) -> Mapping[int, Mapping[str, Allocation]]:
        """What the claims of each pod get."""
        return {task: it for of_node in self._given.values() for task, it in of_node.items()}

    def rest(self, number: int, last: int = -1) -> bool:
        """Find nodes for the pods from a number on; the pod before is on the ``last`` node."""
        if number == len(self._tasks):
            return True
        task, shape, own = self._tasks[number], self._shape[number], self._on[number]
        is_like = bool(number) and (shape, own) == (self._shape[number - 1], self._on[number - 1])
        for node in self._rows[shape]:
            if is_like and node < last:  # of equal pods the first is on the first node
                continue
            free = self._free[node]
            if own not in (-1, node) or any(free[at] < it for at, it in self._asked[shape]):
                continue
            self.steps -= 1
            if self.steps < 0:
                return False
            before, given = self.on.get(node, []), self._given.get(node, {})
            found = self._devices.together([*before, task], node, is_later=self._is_later)
            if found is None:
                continue
            self.on[node], self._given[node] = [*before, task], found
            self._take(node, shape, 1)
            if self.rest(number + 1, node):
                return True
            self.on[node], self._given[node] = before, given
            self._take(node, shape, -1)
        return False

    def _take(self, node: int, shape: int, sign: int) -> None:
        for at, amount in self._asked[shape]:
            self._free[node][at] -= sign * amount


def _card_packing(
    session: Session, cards: Cards, kinds: list[tuple[int, int]], steps: int, *, is_later: bool
) -> tuple[RowVec, CardPacking]:
    """Return the rows of nodes with room for some of the pods, and the search over their cards.

    A kind of pods is a shape and the node that they have, -1 for any.
    """
    request = session.shapes.request
    free_of = session.placement.future_capacity if is_later else session.placement.free_capacity
    room = np.stack([free_of(shape).room > 0 for shape, _ in kinds])
    for number, (_, node) in enumerate(kinds):
        if node >= 0:
            room[number, np.arange(room.shape[1]) != node] = False
    rows = np.flatnonzero(room.any(axis=0))
    others = [PODS, *(at for at in range(len(request)) if at not in (PODS, GPU))]
    free = session.capacity.free()[:, rows] if is_later else session.capacity.unpromised(rows)
    nodes = [
        CardNode(
            tuple(amounts),
            tuple(sorted((has, slot) for slot, has in enumerate(left) if has > 0)),
            whole,
            size,
        )
        for amounts, (left, whole), size in zip(
            free[others].T.tolist(),
            cards.choices(rows, is_later=is_later),
            cards.table.size[rows].tolist(),
            strict=True,
        )
    ]
    found = []
    for (shape, _), fits in zip(kinds, room[:, rows], strict=True):
        count, take = cards.take_on(shape, rows)
        whole = 0 if count else int(request[GPU, shape]) // GPU_UNIT
        takes = tuple(np.where(fits, take, -1).tolist())
        found.append(CardKind(tuple(request[others, shape].tolist()), whole, count, takes))
    return rows, CardPacking(nodes, found, steps)


# Places one job's batch through a statement: pods of several shapes, or on room being released.

_PIPELINED = int(TaskState.PIPELINED)
SUBGROUP_STEPS: Final = 256
"""How many sets of nodes of subgroups are tried at most to place one batch."""


def place_mixed(session: Session, statement: Statement, tasks: RowVec) -> bool:
    """Place ``tasks`` in their order, equal neighbours together; False when a task finds no room.

    The caller rolls back. Where room is being released, some tasks may get only a promise (see
    :func:`place_waiting`).
    """
    if session.capacity.has_releasing:
        return place_waiting(session, statement, tasks, Budget(SUBGROUP_STEPS))
    return place_now(session, statement, tasks, Budget(SUBGROUP_STEPS))


def place_within(
    session: Session,
    statement: Statement,
    tasks: RowVec,
    sets: Sequence[NodeSet],
    *,
    has_promises: bool = False,
) -> bool:
    """Place ``tasks`` on the first set of nodes that has idle room for all of them.

    Without such a set, place them on the first that has room once room being released is free, as
    always for a job that has promises: its gang starts as a whole. Nothing is placed on failure.
    """
    tries = [] if has_promises else [place_now]
    if session.capacity.has_releasing:
        tries.append(place_waiting)
    budget = Budget(SUBGROUP_STEPS)
    for place in tries:
        for nodes in sets:
            mark = statement.checkpoint()
            with session.placement.within(nodes):
                if place(session, statement, tasks, budget):
                    return True
            statement.rollback(mark)
    return False


def place_now(
    session: Session, statement: Statement, tasks: RowVec, budget: Budget | None = None
) -> bool:
    """Place ``tasks`` in their order on idle room; False when a task finds none.

    With a budget other choices are tried too, see :func:`place_parts` and :func:`place_packed`.
    """
    mark = statement.checkpoint()
    if place_parts(session, statement, tasks, within_bounds(_place_idle), budget):
        return True
    if budget is None:
        return False
    statement.rollback(mark)
    return place_packed(session, statement, tasks) or place_together(
        session, statement, tasks, may_wait=False
    )


def place_waiting(
    session: Session, statement: Statement, tasks: RowVec, budget: Budget | None = None
) -> bool:
    """Place ``tasks`` one by one, on idle room or room being released; False when a task has none.

    When a pod set reaches its minimum only with promises, earlier ones of this cycle included, all
    of ``tasks`` become promises: a gang is never bound in part.
    """
    mark = statement.checkpoint()
    if not place_parts(session, statement, tasks, within_bounds(_place_future), budget):
        statement.rollback(mark)
        if not (
            (budget is not None and place_packed(session, statement, tasks, is_later=True))
            or place_together(session, statement, tasks)
        ):
            return False
    job = int(session.ledger.job_of_task[tasks[0]])
    if statement.has_allocated(mark) and leans_on_promises(session, job):
        statement.pipeline_all(mark)
    return True


def _place_idle(session: Session, statement: Statement, tasks: RowVec) -> bool:
    """Place ``tasks`` in order, equal neighbours together, on idle room of the present set."""
    tasks = _by_shape(session, tasks)
    shapes = session.tasks.shape_of_task[tasks]
    cuts = (np.flatnonzero(shapes[1:] != shapes[:-1]) + 1).tolist()
    for start, end in pairwise((0, *cuts, len(tasks))):
        shape, placement = int(shapes[start]), session.placement
        if is_spread(session, shape):
            if not _place_spread(session, statement, tasks[start:end]):
                return False
            continue
        nodes = placement.choose(placement.free_capacity(shape), end - start)
        if nodes is None:
            return False
        group, nodes = as_neighbours(session, tasks[start:end], nodes, placement.neighbours)
        statement.place(group, nodes, shape)
    return True


def _place_spread(session: Session, statement: Statement, tasks: RowVec) -> bool:
    """Place equal pods one by one on idle room: each changes where the next may go."""
    shape, placement = int(session.tasks.shape_of_task[tasks[0]]), session.placement
    # A bound of the set counts the whole batch: then the nodes are chosen before, and checked.
    chosen = (
        placement.choose(placement.free_capacity(shape), len(tasks))
        if _is_bounded(session)
        else None
    )
    if _is_bounded(session) and chosen is None:
        return False
    for at, task in enumerate(tasks.tolist()):
        free = placement.free_capacity(shape)
        node = placement.choose(free, 1) if chosen is None else chosen[at : at + 1]
        if node is None or free.room[node[0]] <= 0:
            return False
        statement.allocate(task, int(node[0]))
    return True


def _place_future(session: Session, statement: Statement, tasks: RowVec) -> bool:
    """Place ``tasks`` one by one on idle room of the present set, or promise room there."""
    if _is_bounded(session):
        return _place_future_by_shape(session, statement, tasks)
    for task in tasks.tolist():
        best = session.placement.best_future(int(session.tasks.shape_of_task[task]))
        if best is None:
            return False
        node, fits_now = best
        if fits_now:
            statement.allocate(task, node)
        else:
            statement.pipeline(task, node)
    return True


def _is_bounded(session: Session) -> bool:
    """Tell whether the present set says how many pods of a batch its nodes get."""
    nodes = session.placement.nodes
    return nodes is not None and nodes.most is not None


def _by_shape(session: Session, tasks: RowVec) -> RowVec:
    """Return ``tasks`` with equal pods next to each other where a bound counts all of them."""
    shapes = session.tasks.shape_of_task[tasks]
    if not _is_bounded(session) or not shapes.size or shapes.min() == shapes.max():
        return tasks
    _, first, which = np.unique(shapes, return_index=True, return_inverse=True)
    return tasks[np.argsort(first[which], kind="stable")]


def _place_future_by_shape(session: Session, statement: Statement, tasks: RowVec) -> bool:
    """Place equal pods together on room that is idle or being released, within the bounds."""
    tasks = _by_shape(session, tasks)
    shapes = session.tasks.shape_of_task[tasks]
    for shape in dict.fromkeys(shapes.tolist()):
        some = tasks[shapes == shape]
        nodes = session.placement.choose_future(shape, len(some))
        if nodes is None:
            return False
        some, nodes = as_neighbours(session, some, nodes, session.placement.neighbours)
        for task, node in zip(some.tolist(), nodes.tolist(), strict=True):
            if session.placement.free_capacity(shape).room[node] > 0:
                statement.allocate(task, node)
            elif (
                is_spread(session, shape)
                and not session.placement.future_capacity(shape).room[node]
            ):
                return False
            else:
                statement.pipeline(task, node)
    return True


def leans_on_promises(session: Session, job: int) -> bool:
    """Tell whether some pod set of a job would lack its minimum without its promised pods."""
    ledger, tasks = session.ledger, np.asarray(session.jobs.tasks[job], np.int64)
    promised = tasks[ledger.state[tasks] == _PIPELINED]
    if not promised.size:
        return False
    rows, counts = np.unique(session.tasks.podset_of_task[promised], return_counts=True)
    return bool((ledger.podset_active[rows] - counts < session.podsets.minimum[rows]).any())
