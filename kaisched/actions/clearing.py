"""Which pods to move off which nodes so that more pods of a shape fit: as little as possible.

A node's price is the least amount of the main resource that must leave it for one more pod, found
exactly over the pods that may move; nodes are taken cheapest first. Prices are bounded from below
by what is missing, so that most nodes are never priced.
"""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from kaisched.core.states import ALLOCATED_STATES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kaisched.actions.future import Future
    from kaisched.core.axis import RowVec
    from kaisched.framework.session import Session

_RUNS = ALLOCATED_STATES.tolist()
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

    def cheapest_first(self, items_on: dict[int, list[Item]]) -> Iterator[Clearing]:
        """Yield clearings for one more pod each, on different nodes, the cheapest first."""
        self._forget_touched()
        ledger, future, main = self._session.ledger, self._future, self._main
        asked = dict(future.asked)[main]
        spare = ledger.idle[main] + ledger.releasing[main] - future.room * asked
        heap = [
            (max(int(asked - spare[node]), 0), -1, node)
            for node in items_on
            if future.allowed is None or future.allowed[node]
        ]
        heapq.heapify(heap)
        while heap:
            _, place, node = heapq.heappop(heap)
            if node not in self._known:
                self._known[node] = self._price(node, items_on[node])
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


def items_by_node(session: Session, job: RowVec) -> dict[int, list[Item]]:
    """Return the running pods of jobs by node, the first to go first."""
    jobs, tasks = session.jobs, session.tasks
    names, state, node_of_task = tasks.name, session.ledger.state, session.ledger.node_of_task
    job = np.array(sorted(job.tolist(), key=lambda row: jobs.name[row]), np.int64)  # settles ties
    keys = [*session.ask.job_order(session, job), jobs.created_s[job]]
    order = job[np.lexsort(keys[::-1])][::-1].tolist()
    requests: dict[int, list[int]] = {}
    found: dict[int, list[Item]] = {}
    place = 0
    for row in order:
        rows = jobs.tasks[row]
        if len(rows) > 1:
            rows = sorted(rows, key=lambda task: names[task], reverse=True)
        for task in rows:
            node = int(node_of_task[task])
            if node < 0 or state[task] != tasks.state[task] or not _RUNS[state[task]]:
                continue
            shape = int(tasks.shape_of_task[task])
            if shape not in requests:
                requests[shape] = session.shapes.request[:, shape].tolist()
            found.setdefault(node, []).append(Item(place, task, row, requests[shape]))
            place += 1
    return found
