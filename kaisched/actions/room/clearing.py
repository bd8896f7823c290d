"""Which pods to move off which nodes, as few as possible, so that more pods of a shape fit.

A node's price is the number of pods that must move for one more pod to fit; between equal numbers
the amount of the main resource decides. The price is exact for the pods that may move. The cheapest
node is taken first. The missing amount is a lower bound, and so is the number of pods that hold as
much if each were as large as the largest: most nodes are never priced.
"""

from __future__ import annotations

import heapq
from bisect import bisect_right
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import numpy as np

from kaisched.core.axis import ALLOCATED_STATES, GPU, GPU_UNIT
from kaisched.framework.session.capacity import Holding
from kaisched.framework.session.limits import disruptions_left
from kaisched.framework.session.order import ordered_jobs
from kaisched.framework.session.units import Unit, units_of

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence

    from kaisched.actions.room.future import Future
    from kaisched.core.axis import BoolVec, IntVec, RowVec
    from kaisched.framework.session.session import Session

    Items: TypeAlias = "tuple[Item, ...]"
    Parts = dict[int, int]


# What may move off a node, and what clearing a node takes.


class Item(NamedTuple):
    """Pods that may move off a node: an elastic pod, or pods that need each other."""

    place: int
    """The item's place in the order of victims; the lowest goes first."""
    unit: Unit
    """All pods that move together, on this node and on others."""
    amounts: list[int]
    """What the item frees on the node, by resource."""
    moved: list[int]
    """What all pods of the unit hold, by resource."""


class Clearing(NamedTuple):
    """The items that would leave a node, and their cost."""

    cost: tuple[int, int]
    """Pods that move, off this node and others, and how much they hold of the main resource."""
    place: int
    """The highest place in the order of victims among the pods that move."""
    node: int
    items: tuple[Item, ...]
    pods: int = 1
    """For how many more pods it makes room."""


def fewest_items(items: list[Item], missing: list[tuple[int, int]]) -> list[Item] | None:
    """Return the items that have to leave, the largest first; None if all are too few."""
    most = max((at for at, lack in missing if lack > 0), default=0)
    chosen: list[Item] = []

    def is_enough(some: list[Item]) -> bool:
        return all(sum(item.amounts[at] for item in some) >= lack for at, lack in missing)

    for item in sorted(items, key=lambda item: (len(item.unit.tasks), -item.amounts[most], item)):
        if is_enough(chosen):
            break
        chosen.append(item)
    if not is_enough(chosen):
        return None
    for item in chosen.copy():
        rest = [each for each in chosen if each is not item]
        if is_enough(rest):
            chosen = rest
    return chosen


# Which pods to move off the shared GPUs of a node so that one more pod of a shape fits there.
#
# Parts of two cards are no whole card, so amounts do not say who has to move: the pods of one card
# do, or enough of them. What the pod asks for besides GPUs is not looked at here.

_NOTHING: tuple[Items, ...] = ((),)


class _Group(NamedTuple):
    """Items without which whole GPUs are free."""

    gpus: int
    items: Items


def choices_by_card(
    session: Session, node: int, shape: int, room: int, items: list[Item]
) -> tuple[Items, ...] | None:
    """Return choices of items without which one more pod than ``room`` fits, as far as cards say.

    None where cards say nothing: the pod asks for no GPU, or no pods share one on the node. One
    choice of no items says that cards have room enough.
    """
    cards = session.capacity.cards
    if cards is None or not cards.counts_for(shape):
        return None
    left, kept = cards.left_and_kept(node)
    if not any(kept):
        return None
    parts = [_parts_of(session, node, item) for item in items]
    groups = _groups(items, parts, kept)
    whole = session.capacity.whole_gpus(node)
    demand = cards.demand_of(shape)
    if demand is None:
        asked = int(session.shapes.request[GPU, shape]) * (room + 1)
        return _emptied(groups, asked // GPU_UNIT - whole)
    take, of_new_card = cards.take_of(shape, node)
    if demand.cards == 1:
        if sum(max(it, 0) // take for it in left) + whole * of_new_card > room:
            return _NOTHING
        some = [_fewest(items, parts, slot, take - it % take) for slot, it in _open(left)]
        return (*(it for it in some if it), *_emptied(groups, 1))
    lack = demand.cards - sum(it >= take for it in left) - whole
    some = [_fewest(items, parts, slot, take - it) for slot, it in _open(left) if it < take]
    return (*_together([it for it in some if it], lack), *_emptied(groups, lack))


def _open(left: list[int]) -> list[tuple[int, int]]:
    return [(slot, it) for slot, it in enumerate(left) if it >= 0]


def _parts_of(session: Session, node: int, item: Item) -> Parts:
    """Return what the pods of an item hold of the shared GPUs of a node, by slot."""
    cards, tasks = session.capacity.cards, session.tasks
    assert cards is not None
    held: Parts = {}
    for task in item.unit.tasks:
        if session.ledger.node_of_task[task] == node:
            for slot, part in cards.parts_of(task, node, int(tasks.shape_of_task[task])).items():
                held[slot] = held.get(slot, 0) + part
    return held


def _groups(items: list[Item], parts: list[Parts], kept: list[int]) -> list[_Group]:
    """Return what empties whole GPUs: all items of a shared one, or an item that holds whole ones.

    ``kept`` is what stays on each card. A card of which a pod must not move is never empty.
    """
    on_slot: dict[int, list[int]] = {}
    for at, held in enumerate(parts):
        for slot in held:
            on_slot.setdefault(slot, []).append(at)
    emptied = {
        slot: frozenset(some)
        for slot, some in on_slot.items()
        if sum(parts[at][slot] for at in some) == kept[slot]
    }
    groups = [
        _Group(sum(other <= some for other in emptied.values()), tuple(items[at] for at in some))
        for some in dict.fromkeys(emptied.values())
    ]
    for item, held in zip(items, parts, strict=True):
        if not held and item.amounts[GPU] >= GPU_UNIT:
            groups.append(_Group(item.amounts[GPU] // GPU_UNIT, (item,)))
    return groups


def _emptied(groups: list[_Group], lack: int) -> tuple[Items, ...]:
    """Return choices that empty enough whole GPUs.

    For one GPU these are all there are: the pods of the cheapest may find no new place. For several
    it is the one with the fewest pods, for each number of GPUs.
    """
    if lack <= 0:
        return _NOTHING
    if lack == 1:
        return tuple(items for gpus, items in groups if gpus)
    best: dict[int, Items] = {0: ()}
    for gpus, items in groups:
        for number, chosen in list(best.items()):
            if number >= lack:
                continue
            more = (*chosen, *(item for item in items if item not in chosen))
            known = best.get(number + gpus)
            if known is None or _pods(more) < _pods(known):
                best[number + gpus] = more
    return tuple(items for number, items in best.items() if number >= lack)


def _fewest(items: list[Item], parts: list[Parts], slot: int, lack: int) -> Items:
    """Return the fewest items of a card that leave so much of it; none if all are not enough."""
    here = sorted(
        ((held[slot], at) for at, held in enumerate(parts) if held.get(slot)),
        key=lambda part: (-part[0], part[1]),
    )
    if sum(part for part, _ in here) < lack:
        return ()
    chosen: list[int] = []
    while lack > 0:
        enough = [(part, -at) for part, at in here if part >= lack and at not in chosen]
        part, at = min(enough) if enough else (here[len(chosen)][0], -here[len(chosen)][1])
        chosen.append(-at)
        lack -= part
    return tuple(items[at] for at in chosen)


def _together(some: list[Items], lack: int) -> tuple[Items, ...]:
    """Return the cheapest choices together, one for each card that is lacking."""
    if lack <= 0:
        return _NOTHING
    if len(some) < lack:
        return ()
    together: Items = ()
    for items in sorted(some, key=_pods)[:lack]:
        together = (*together, *(item for item in items if item not in together))
    return (together,)


def _pods(items: Items) -> int:
    return sum(len(item.unit.tasks) for item in items)


_MOST_SUMS = 256
"""At most so many different sums are kept: a node with more kinds of pods is rare."""


class Prices:
    """Prices of one shape's nodes, computed on first use and kept while nothing moves."""

    def __init__(self, session: Session, future: Future, main: int) -> None:
        """Price nothing yet; ``main`` is the resource that is counted."""
        self._session = session
        self._future = future
        self._main = main
        self._known: dict[int, list[Clearing]] = {}
        """By node, the choices of what makes room for one more pod, the cheapest first."""
        self._seen = len(session.capacity.touched)
        self._drawn: CheapestFirst | None = None
        """What :meth:`cheapest_first` has yielded since pods moved for good."""

    def is_of(self, future: Future) -> bool:
        """Tell whether the prices are of this room: plugins may rule out other nodes by now."""
        return self._future is future

    def cheapest_first(self, movable: Movable, avoided: Collection[Clearing] = ()) -> CheapestFirst:
        """Return clearings for one more pod each, on different nodes, the cheapest first.

        A claim tries one choice after another, and what it tries is taken back. So the clearings
        are the same each time, until :meth:`forget`.
        """
        drawn = self._drawn
        if drawn is None or drawn.avoided != [*avoided]:
            self._forget_touched()
            drawn = self._drawn = self._draw(movable, [*avoided])
        return drawn

    def forget(self) -> None:
        """Take note that pods have moved for good."""
        self._drawn = None

    def _draw(self, movable: Movable, avoided: list[Clearing]) -> CheapestFirst:
        future, main = self._future, self._main
        nodes, largest = movable.nodes, movable.largest(main)
        could = self._could_hold_more(nodes)
        if future.allowed is not None:
            could &= future.allowed[nodes]
        nodes, largest = nodes[could], largest[could]
        capacity, asked = self._session.capacity, dict(future.asked)[main]
        least = np.maximum(capacity.lack_of(main, asked, future.room[nodes] + 1, nodes), 0)
        # Where pods share GPUs, the last one on a card frees more than it holds: the whole card. So
        # what is lacking does not say how many pods have to go, only whether any has to.
        fewest = -(-least // np.maximum(largest, 1)) if capacity.cards is None else least > 0
        order = np.lexsort((least, fewest))
        columns = [column[order].tolist() for column in (fewest, least, nodes)]
        rest = self._priced(zip(*columns, strict=True), movable, avoided)
        return CheapestFirst(columns[0], rest, avoided)

    def _priced(
        self, bounds: Iterable[tuple[int, int, int]], movable: Movable, avoided: list[Clearing]
    ) -> Iterator[Clearing]:
        """Yield the clearings of nodes, given in the order of the least pods and amounts."""
        priced: list[tuple[tuple[int, int], int, int, Clearing]] = []
        for pods, amount, node in bounds:
            bound = (pods, amount), -1, node
            while priced and priced[0][:3] < bound:
                yield heapq.heappop(priced)[3]
            known = next((it for it in self._choices(node, movable) if it not in avoided), None)
            if known is not None:
                heapq.heappush(priced, (known.cost, known.place, node, known))
        while priced:
            yield heapq.heappop(priced)[3]

    def has_others(
        self, clearing: Clearing, movable: Movable, avoided: Collection[Clearing]
    ) -> bool:
        """Tell whether other pods of the same node could leave instead."""
        choices = self._choices(clearing.node, movable)
        return any(it != clearing and it not in avoided for it in choices)

    def _choices(self, node: int, movable: Movable) -> list[Clearing]:
        """Return what makes room for one more pod on a node, the cheapest first."""
        if node not in self._known:
            self._known[node] = self._price(node, movable.on(node))
        return self._known[node]

    def deeper(self, clearing: Clearing, movable: Movable) -> Clearing | None:
        """Return the cheapest clearing of the same node for one pod more, or None.

        Only for pods of whole GPUs, where pods share some: else a clearing makes room for one.
        """
        cards = self._session.capacity.cards
        if cards is None or cards.demand_of(self._future.shape) is not None:
            return None
        node = clearing.node
        return next(iter(self._price(node, movable.on(node), clearing.pods + 1)), None)

    def _could_hold_more(self, nodes: RowVec) -> BoolVec:
        """``(K,)`` whether one more pod would fit on a node if all its pods left."""
        could = np.ones(len(nodes), np.bool_)
        pods = self._future.room[nodes] + 1
        for at, amount in self._future.asked:
            could &= pods * amount <= self._session.nodes.allocatable[at, nodes]
        return could

    def _forget_touched(self) -> None:
        touched = self._session.capacity.touched
        for node in set(touched[self._seen :]):
            self._known.pop(node, None)
        self._seen = len(touched)

    def _price(self, node: int, items: list[Item], more: int = 1) -> list[Clearing]:
        """Return sets of pods whose leaving makes room for so many more, the cheapest first.

        Only where pods share GPUs is there more than one.
        """
        future, main = self._future, self._main
        here = self._session.capacity.on(node)
        room = int(future.room[node])
        missing = here.lack(future.asked, room + more)
        choices = choices_by_card(self._session, node, future.shape, room + more - 1, items)
        if choices is not None:
            return self._by_cost(node, choices, items, missing, more)
        lacks = dict(missing)[main]
        # By amount that leaves the node: (cost, items).
        sets: dict[int, tuple[tuple[int, int], tuple[Item, ...]]] = {0: ((0, 0), ())}
        for item in items:
            amount, pods, held = item.amounts[main], len(item.unit.tasks), item.moved[main]
            for total, (cost, some) in list(sets.items()):
                if total >= lacks:
                    continue
                dearer = cost[0] + pods, cost[1] + held
                known = sets.get(total + amount)
                if known[0] > dearer if known is not None else len(sets) < _MOST_SUMS:
                    sets[total + amount] = dearer, (*some, item)
        enough = [(cost, total) for total, (cost, _) in sets.items() if total >= lacks]
        for _, total in sorted(enough):
            found = self._by_cost(node, (sets[total][1],), items, missing, more)
            if found:
                return found
        return []

    def _by_cost(
        self,
        node: int,
        choices: Iterable[tuple[Item, ...]],
        items: list[Item],
        missing: list[tuple[int, int]],
        more: int,
    ) -> list[Clearing]:
        """Return some choices, with what is missing besides, the cheapest first."""
        found = []
        for choice in choices:
            chosen = completed(choice, items, missing)
            if chosen:
                pods_moved = sum(len(item.unit.tasks) for item in chosen)
                cost = pods_moved, sum(item.moved[self._main] for item in chosen)
                place = max(item.place for item in chosen)
                found.append(Clearing(cost, place, node, chosen, more))
        return sorted(found)


class CheapestFirst:
    """Clearings of different nodes, the cheapest first, found when they are asked for."""

    def __init__(
        self, fewest: list[int], rest: Iterator[Clearing], avoided: list[Clearing]
    ) -> None:
        """Begin with what was not found yet, and lower bounds on pods of nodes, ascending."""
        self.avoided = avoided
        """The clearings that are left out."""
        self._fewest = fewest
        self._rest = rest
        self._found: list[Clearing] = []

    def __iter__(self) -> Iterator[Clearing]:
        """Yield all clearings from the first one on."""
        yield from self._found
        for clearing in self._rest:
            self._found.append(clearing)
            yield clearing

    def fewest_pods(self, count: int) -> int:
        """Return how many pods at least leave the nodes of so many clearings.

        Where pods share GPUs that is not known.
        """
        return sum(self._fewest[:count])


def completed(
    chosen: tuple[Item, ...], items: list[Item], missing: list[tuple[int, int]]
) -> tuple[Item, ...] | None:
    """Add items until every resource suffices; None when all items are not enough."""
    left: list[Item] | None = None
    while not _are_enough(chosen, missing):
        if left is None:
            left = [item for item in items if item not in chosen]
        if not left:
            return None
        chosen = (*chosen, left.pop(0))
    return chosen


def _are_enough(items: Iterable[Item], missing: list[tuple[int, int]]) -> bool:
    """Tell whether items free what is missing; loops, as this is asked of every node."""
    for at, lack in missing:
        left = lack
        for item in items:
            left -= item.amounts[at]
        if left > 0:
            return False
    return True


class Movable:
    """The running pods of jobs by node, in the order of victims; a node's are sorted on demand."""

    def __init__(self, session: Session, job: RowVec, *, respects_budgets: bool = False) -> None:
        """Sort the jobs, and find their pods that run where they did when the cycle began.

        Refused jobs are left out: their pods would not start again after an eviction. With
        ``respects_budgets`` pods whose disruption budgets allow no eviction are left out too.
        """
        self._session = session
        job = job[session.jobs.refusal[job] == 0]
        rank = np.full(len(session.jobs.pending) + 1, -1, np.int64)  # the last: of no job
        rank[ordered_jobs(session, job)[::-1]] = np.arange(len(job))
        tasks, state = session.tasks, session.ledger.state
        node_of_task = session.ledger.node_of_task
        runs = ALLOCATED_STATES[state] & (state == tasks.state) & (node_of_task >= 0)
        runs &= rank[tasks.job_of_task] >= 0
        if respects_budgets:
            left = np.append(disruptions_left(session), (0, 1))  # SEVERAL is -2, UNPROTECTED -1
            runs &= left[session.snapshot.disruption_budgets.of_task] > 0
        self._runs: BoolVec = runs
        self._largest: dict[int, IntVec] = {}
        self._pods_of_job: IntVec | None = None
        rows = runs.nonzero()[0]
        node = node_of_task[rows]
        self._rank = rank
        rows = rows[np.argsort(node, kind="stable")]
        node = np.sort(node)
        begins = np.ones(len(node), np.bool_)
        np.not_equal(node[1:], node[:-1], out=begins[1:])
        starts = begins.nonzero()[0]
        self._rows, self._starts = rows, starts
        self.nodes: RowVec = node[starts]
        """The nodes with pods that may move, ascending."""
        pods = np.split(rows, starts[1:]) if rows.size else []
        self._pods = dict(zip(self.nodes.tolist(), pods, strict=True))
        self._items: dict[int, list[Item]] = {}
        self._units: dict[int, dict[int, Unit | None]] = {}
        """By job and pod; None where a part of the unit must not move."""
        self._held: dict[int, list[int]] = {}
        """By shape: what a pod holds."""
        self._behind: dict[int, dict[int, int]] = {}
        """By job and pod: how many pods of the job go before it."""

    def holding(self) -> Holding:
        """Return what the movable pods hold, by node."""
        return self._session.ledger.holding(self._runs.nonzero()[0])

    def pods_of(self, jobs: int) -> int:
        """Return the most pods that so many jobs have among the pods that may move."""
        if self._pods_of_job is None:
            counts = np.bincount(self._session.tasks.job_of_task[self._rows])
            self._pods_of_job = np.sort(counts)[::-1]
        return int(self._pods_of_job[:jobs].sum())

    def largest(self, resource: int) -> IntVec:
        """``(K,)`` the most that a pod on each of the nodes held at first."""
        found = self._largest.get(resource)
        if found is None:
            session = self._session
            held = session.shapes.request[resource, session.tasks.shape_of_task[self._rows]]
            found = np.maximum.reduceat(held, self._starts) if held.size else held
            self._largest[resource] = found
        return found

    def on(self, node: int) -> list[Item]:
        """Return the items on a node."""
        items = self._items.get(node)
        if items is None:
            tasks = self._pods[node]
            tasks = tasks[self._runs[tasks]]
            here = tasks.tolist()
            job = self._session.tasks.job_of_task[tasks].tolist()
            of_job, items, others = self._session.jobs.tasks, [], []
            for task, row in zip(here, job, strict=True):
                if len(of_job[row]) == 1:  # nearly all: what follows costs several times as much
                    items.append(self._item_alone(task, row))
                else:
                    others.append(task)
            if others:
                units = {self._unit(task) for task in others} - {None}
                items.extend(self._item(unit, set(others)) for unit in units if unit is not None)
            items.sort()
            self._items[node] = items
        return items

    def _item_alone(self, task: int, job: int) -> Item:
        """Return the item of a job's only pod."""
        session = self._session
        held = self._held_by(task)
        place = int(self._rank[job]) * len(session.tasks.name)
        return Item(place, Unit(job, (task,), is_core=True), held, held)

    def _held_by(self, task: int) -> list[int]:
        """Return what a pod holds, by resource."""
        shape = int(self._session.tasks.shape_of_task[task])
        held = self._held.get(shape)
        if held is None:
            held = self._held[shape] = self._session.shapes.request[:, shape].tolist()
        return held

    def _unit(self, task: int) -> Unit | None:
        """Return the unit that a pod moves with; None where a part of it must not move."""
        job = int(self._session.tasks.job_of_task[task])
        if job not in self._units:
            self._units[job] = {
                pod: unit if all(self._runs[it] for it in unit.tasks) else None
                for unit in units_of(self._session, job)
                for pod in unit.tasks
            }
        return self._units[job].get(task)

    def _item(self, unit: Unit, here: set[int]) -> Item:
        job = unit.job
        behind = self._behind.get(job)
        if behind is None:
            behind = self._behind[job] = self._places_in(job)
        on_node = [task for task in unit.tasks if task in here]
        place = int(self._rank[job]) * len(self._session.tasks.name)
        place += min(behind[task] for task in on_node)
        amounts = self._sum_of(on_node)
        moved = amounts if len(on_node) == len(unit.tasks) else self._sum_of(unit.tasks)
        return Item(place, unit, amounts, moved)

    def _places_in(self, job: int) -> dict[int, int]:
        """Return how many pods of a job go before each: the last by name goes first."""
        names, rows = self._session.tasks.name, self._session.jobs.tasks[job]
        name_of = {int(row): names[row] for row in rows}
        ascending = sorted(name_of.values())
        return {row: len(rows) - bisect_right(ascending, name) for row, name in name_of.items()}

    def _sum_of(self, tasks: Sequence[int]) -> list[int]:
        """Return what pods hold together, by resource."""
        if len(tasks) == 1:
            return self._held_by(tasks[0])
        return [sum(amounts) for amounts in zip(*map(self._held_by, tasks), strict=True)]

    def forget(self, units: Iterable[Unit]) -> None:
        """Take out units that have moved: no pod moves twice in one cycle."""
        gone = {task for unit in units for task in unit.tasks}
        rows = list(gone)
        for node in set(self._session.tasks.node_of_task[rows].tolist()):
            items = self._items.get(node)
            if items is not None:
                items[:] = [item for item in items if gone.isdisjoint(item.unit.tasks)]
        self._runs[rows] = False
        self._units.clear()
