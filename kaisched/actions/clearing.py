"""Which pods to move off which nodes so that more pods of a shape fit: as little as possible.

A node's price is the least amount of the main resource that must leave it for one more pod, found
exactly over the pods that may move; nodes are taken cheapest first. Prices are bounded from below
by what is missing, so that most nodes are never priced.
"""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from kaisched.actions.victims import last_first
from kaisched.core.states import ALLOCATED_STATES
from kaisched.framework.disruption import disruptions_left

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kaisched.actions.future import Future
    from kaisched.core.axis import RowVec
    from kaisched.framework.session import Session

_MOST_SUMS = 256
"""Above so many different sums the smallest are kept: a node with more kinds of pods is rare."""


class Item(NamedTuple):
    """A pod that may move."""

    place: int
    """Its place in the order of victims; the lowest goes first."""
    task: int
    job: int
    amounts: list[int]
    """By resource."""


class Clearing(NamedTuple):
    """What would leave a node."""

    cost: int
    """Amount of the main resource that moves."""
    place: int
    """The highest place in the order of victims among the pods that move."""
    node: int
    items: tuple[Item, ...]


class Prices:
    """Prices of one shape's nodes, worked out when first asked for and kept while nothing moves."""

    def __init__(self, session: Session, future: Future, main: int) -> None:
        """Price nothing yet; ``main`` is the resource that is counted."""
        self._session = session
        self._future = future
        self._main = main
        self._known: dict[int, Clearing | None] = {}
        self._seen = len(session.ledger.touched)

    def cheapest_first(self, movable: Movable) -> Iterator[Clearing]:
        """Yield clearings for one more pod each, on different nodes, the cheapest first."""
        self._forget_touched()
        ledger, future, main = self._session.ledger, self._future, self._main
        asked = dict(future.asked)[main]
        spare = ledger.idle[main] + ledger.releasing[main] - future.room * asked
        nodes = movable.nodes
        if future.allowed is not None:
            nodes = nodes[future.allowed[nodes]]
        least = np.maximum(asked - spare[nodes], 0).tolist()
        heap = [(cost, -1, node) for cost, node in zip(least, nodes.tolist(), strict=True)]
        heapq.heapify(heap)
        while heap:
            _, place, node = heapq.heappop(heap)
            if node not in self._known:
                self._known[node] = self._price(node, movable.on(node))
            known = self._known[node]
            if known is None:
                continue
            if place < 0:
                heapq.heappush(heap, (known.cost, known.place, node))
            else:
                yield known

    def _forget_touched(self) -> None:
        touched = self._session.ledger.touched
        for node in set(touched[self._seen :]):
            self._known.pop(node, None)
        self._seen = len(touched)

    def _price(self, node: int, items: list[Item]) -> Clearing | None:
        """Return the cheapest set of pods whose leaving makes room for one more, or None."""
        future, main, ledger = self._future, self._main, self._session.ledger
        free = (ledger.idle[:, node] + ledger.releasing[:, node]).tolist()
        pods = int(future.room[node]) + 1
        missing = [(at, amount * pods - free[at]) for at, amount in future.asked]
        lacks = dict(missing)[main]
        sets: dict[int, tuple[Item, ...]] = {0: ()}
        for item in items:
            for total, some in list(sets.items()):
                more = total + item.amounts[main]
                if total < lacks and more not in sets and len(sets) < _MOST_SUMS:
                    sets[more] = (*some, item)
        for total in sorted(total for total in sets if total >= lacks):
            chosen = _completed(sets[total], items, missing)
            if chosen is not None:
                cost = sum(item.amounts[main] for item in chosen)
                return Clearing(cost, max(item.place for item in chosen), node, chosen)
        return None


def _completed(
    chosen: tuple[Item, ...], items: list[Item], missing: list[tuple[int, int]]
) -> tuple[Item, ...] | None:
    """Add pods until every resource suffices; None when all of them are not enough."""
    left = [item for item in items if item not in chosen]
    while any(sum(item.amounts[at] for item in chosen) < lack for at, lack in missing):
        if not left:
            return None
        chosen = (*chosen, left.pop(0))
    return chosen or None


class Movable:
    """The running pods of jobs by node, the first to go first; a node's when it is looked at."""

    def __init__(self, session: Session, job: RowVec, *, heeds_budgets: bool = False) -> None:
        """Sort the jobs, and find their pods that run where they did when the cycle began.

        With ``heeds_budgets`` pods whose disruption budgets let none go are left out.
        """
        self._session = session
        rank = np.full(len(session.jobs.pending) + 1, -1, np.int64)  # the last: of no job
        keys = [*session.ask.job_order(session, job), session.jobs.created_s[job]]
        rank[job[last_first(session, job, keys)]] = np.arange(len(job))
        tasks, state = session.tasks, session.ledger.state
        node_of_task = session.ledger.node_of_task
        runs = ALLOCATED_STATES[state] & (state == tasks.state) & (node_of_task >= 0)
        runs &= rank[tasks.job_of_task] >= 0
        if heeds_budgets:
            left = np.append(disruptions_left(session), (0, 1))  # SEVERAL is -2, UNPROTECTED -1
            runs &= left[session.snapshot.disruption_budgets.of_task] > 0
        rows = runs.nonzero()[0]
        node = node_of_task[rows]
        self._rank = rank
        rows = rows[np.argsort(node, kind="stable")]
        node = np.sort(node)
        begins = np.ones(len(node), np.bool_)
        np.not_equal(node[1:], node[:-1], out=begins[1:])
        starts = begins.nonzero()[0]
        self.nodes: RowVec = node[starts]
        """The nodes that have such pods, ascending."""
        pods = np.split(rows, starts[1:]) if rows.size else []
        self._pods = dict(zip(self.nodes.tolist(), pods, strict=True))
        self._items: dict[int, list[Item]] = {}

    def on(self, node: int) -> list[Item]:
        """Return the pods on a node."""
        items = self._items.get(node)
        if items is None:
            tasks, names = self._session.tasks, self._session.tasks.name
            request = self._session.shapes.request
            items = []
            for task in self._pods[node].tolist():
                job = int(tasks.job_of_task[task])
                rows = self._session.jobs.tasks[job]
                behind = 0  # of a job's pods the last by name goes first
                if len(rows) > 1:
                    behind = sum(names[other] > names[task] for other in rows)
                place = int(self._rank[job]) * len(names) + behind
                amounts = request[:, tasks.shape_of_task[task]].tolist()
                items.append(Item(place, task, job, amounts))
            items.sort()
            self._items[node] = items
        return items

    def forget(self, node: int, item: Item) -> None:
        """Take out a pod that has moved: nothing moves twice in one cycle."""
        self.on(node).remove(item)
