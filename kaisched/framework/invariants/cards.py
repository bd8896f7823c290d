"""Counts, from nothing, what the cards of nodes hold after a cycle and once all is released."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

import numpy as np

from kaisched.core.axis import GPU, GPU_UNIT, HOLDING_STATES, PODS, TaskState
from kaisched.core.devices import CARD

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kaisched.core.axis import IntVec, RowVec
    from kaisched.core.snapshot import Snapshot
    from kaisched.framework.report.result import CycleResult

_RELEASING = int(TaskState.RELEASING)


def cards(snapshot: Snapshot, result: CycleResult) -> Iterator[str]:
    """I25: no card holds more than its size, and none that is shared is a whole pod's as well.

    Where cards are opened there are pod slots for their reservation pods too.
    """
    table, tasks = snapshot.nodes.cards, snapshot.tasks
    if table is None:
        return
    holding = HOLDING_STATES[tasks.state] & (tasks.node_of_task >= 0)
    held = holding.nonzero()[0]
    bound = list(zip(result.bind_tasks.tolist(), result.bind_nodes.tolist(), strict=True))
    now = _Count(snapshot, held)
    yield from now.unequal()
    for task, node in bound:
        now.add(task, node, result.bind_cards.get(task, ()))
    yield from now.faults("bound", {node for task, node in bound if now.takes(task)})
    is_leaving = tasks.state[held] == _RELEASING
    later = _Count(snapshot, held[~(is_leaving | np.isin(held, result.evict_tasks))])
    for task, node in bound:
        later.add(task, node, result.bind_cards.get(task, ()))
    promised = zip(result.nominate_tasks.tolist(), result.nominate_nodes.tolist(), strict=True)
    nodes = set()
    for task, node in promised:
        told = result.nominate_cards.get(task)
        # A card that will be whole has no slot yet: it is counted beside them.
        slots = (*told.opened, *(-1 - number for number in told.later)) if told else ()
        later.add(task, node, slots)
        nodes |= {node} if later.takes(task) else set()
    yield from later.faults("promised", nodes)
    yield from _slots(snapshot, result)


def opened_cards(snapshot: Snapshot, result: CycleResult) -> tuple[IntVec, IntVec]:
    """``(N,)`` cards that are opened for pods that are bound, and for pods that are promised.

    Each takes a pod slot of its node besides those of pods: that of its reservation pod. The second
    are less the cards that everything leaves, if their reservation pods are there to leave too.
    """
    table = snapshot.nodes.cards
    if table is None:
        none = np.zeros(len(snapshot.nodes), np.int64)
        return none, none
    node_of = dict(zip(result.bind_tasks.tolist(), result.bind_nodes.tolist(), strict=True))
    held = {(node_of[task], slot) for task, slots in result.bind_cards.items() for slot in slots}
    width = table.tasks.shape[1]
    opened = [node for node, slot in held if slot >= width or not table.tasks[node, slot]]
    node_of = dict(zip(result.nominate_tasks.tolist(), result.nominate_nodes.tolist(), strict=True))
    told = result.nominate_cards.items()
    later = {(node_of[task], number) for task, cards in told for number in cards.later}
    bound, promised = (
        np.bincount(np.array(nodes, np.int64), minlength=len(snapshot.nodes))
        for nodes in (opened, [node for node, _ in later])
    )
    return bound, promised - _vacated(snapshot, result, held)


def _vacated(snapshot: Snapshot, result: CycleResult, held: set[tuple[int, int]]) -> IntVec:
    """``(N,)`` cards whose users all leave, and whose reservation pods leave their slots then.

    ``held`` are those that pods are bound to.
    """
    table, tasks = snapshot.nodes.cards, snapshot.tasks
    assert table is not None
    gone = set(result.evict_tasks.tolist())
    gone |= set(np.flatnonzero(tasks.state == _RELEASING).tolist())
    stays = held | {
        (node, slot)
        for task, node in zip(result.nominate_tasks, result.nominate_nodes, strict=True)
        if task in result.nominate_cards
        for slot in result.nominate_cards[task].opened
    }
    used = set()
    for task, slots in table.slots_of_task.items():
        demand = snapshot.shapes.constraints[int(tasks.shape_of_task[task])].devices
        if demand is not None and demand.is_share:
            cards = {(int(tasks.node_of_task[task]), slot) for slot in slots}
            used |= cards
            stays |= set() if task in gone else cards
    left = [node for node, slot in used - stays if table.is_reserved[node, slot]]
    return np.bincount(np.array(left, np.int64), minlength=len(snapshot.nodes))


def _slots(snapshot: Snapshot, result: CycleResult) -> Iterator[str]:
    """Yield the nodes that lack pod slots for what is bound and promised, if cards are opened."""
    nodes, count = snapshot.nodes, len(snapshot.nodes)
    opened, later = opened_cards(snapshot, result)
    bound, promised, left = (
        np.bincount(it, minlength=count)
        for it in (
            result.bind_nodes,
            result.nominate_nodes,
            snapshot.tasks.node_of_task[result.evict_tasks],
        )
    )
    free = nodes.idle[PODS] - (0 if nodes.cards is None else nodes.cards.awaited)
    yield from _short_of_slots(snapshot, "bound", (bound, opened), free)
    free = free + nodes.releasing[PODS] + left - bound - opened
    yield from _short_of_slots(snapshot, "promised", (promised, later), free)


def _short_of_slots(
    snapshot: Snapshot, what: str, counts: tuple[IntVec, IntVec], free: IntVec
) -> Iterator[str]:
    pods, cards = counts
    for node in ((cards > 0) & (pods + cards > free)).nonzero()[0].tolist():
        yield (
            f"I25 node {snapshot.nodes.name[node]}: {pods[node]} pods and {cards[node]} opened"
            f" cards are {what}, with {free[node]} pod slots"
        )


class _Count:
    """What pods take of cards, and how many whole GPUs they take, by node."""

    def __init__(self, snapshot: Snapshot, rows: RowVec) -> None:
        self._snapshot = snapshot
        self._used: dict[tuple[int, int], int] = defaultdict(int)
        self._whole: dict[int, int] = defaultdict(int)
        self._wrong: dict[int, list[str]] = defaultdict(list)
        table = snapshot.nodes.cards
        assert table is not None
        self._table = table
        for task, node in zip(
            rows.tolist(), snapshot.tasks.node_of_task[rows].tolist(), strict=True
        ):
            self.add(task, node, table.slots_of_task.get(task, ()))

    def add(self, task: int, node: int, slots: tuple[int, ...]) -> None:
        snapshot = self._snapshot
        shape = int(snapshot.tasks.shape_of_task[task])
        demand = snapshot.shapes.constraints[shape].devices
        if demand is None or not demand.has_cards:
            self._whole[node] += int(snapshot.shapes.request[GPU, shape]) // GPU_UNIT
            return
        if demand.is_share and len(set(slots)) != demand.cards:
            name = snapshot.tasks.name[task]
            self._wrong[node].append(f"pod {name} has {len(set(slots))} of {demand.cards} cards")
        take = demand.take(int(self._table.size[node]) // CARD)
        for slot in slots:
            self._used[node, slot] += take

    def takes(self, task: int) -> bool:
        """Tell whether a pod takes GPUs; others may go where pods hold more than there is."""
        shape = int(self._snapshot.tasks.shape_of_task[task])
        demand = self._snapshot.shapes.constraints[shape].devices
        is_on_cards = demand is not None and demand.has_cards
        return is_on_cards or int(self._snapshot.shapes.request[GPU, shape]) >= GPU_UNIT

    def unequal(self) -> Iterator[str]:
        """Yield where the table of cards is not the sum over the tasks."""
        counted = np.zeros_like(self._table.used)
        for (node, slot), used in self._used.items():
            counted[node, slot] = used
        for node, slot in np.argwhere(counted != self._table.used).tolist():
            said, name = self._table.used[node, slot], self._snapshot.nodes.name[node]
            yield f"I25 node {name}, card {slot}: {said} is said, {counted[node, slot]} counted"

    def faults(self, what: str, nodes: set[int]) -> Iterator[str]:
        """Yield what is wrong on some nodes."""
        snapshot = self._snapshot
        opened: dict[int, int] = defaultdict(int)
        for (node, slot), used in self._used.items():
            # A card that only its reservation pod holds is a whole GPU once that pod is gone.
            opened[node] += used > 0 or what == "bound"
            size = int(self._table.size[node])
            if node in nodes and used > size:
                name = snapshot.nodes.name[node]
                yield f"I25 node {name}, card {slot}: {used} of {size} is {what}"
        for node in sorted(nodes):
            name, gpus = snapshot.nodes.name[node], int(snapshot.nodes.allocatable[GPU, node])
            whole = self._whole[node]
            if opened[node] + whole > gpus // GPU_UNIT and (opened[node] or whole):
                yield (
                    f"I25 node {name}: {opened[node]} shared cards and {whole} whole GPUs"
                    f" are {what} of {gpus // GPU_UNIT}"
                )
            yield from (f"I25 node {name}: {wrong}" for wrong in self._wrong[node])
