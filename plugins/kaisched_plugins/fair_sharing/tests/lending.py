"""Random trees of queues that lend, the knock-out between them, and cycles until they rest."""

import random
from collections.abc import Mapping
from fractions import Fraction

import numpy as np

from kaisched import UNLIMITED
from kaisched.cluster.rowstore import RowStore
from kaisched.core.axis import TaskState
from kaisched.framework.cycle import run_cycle
from kaisched.framework.memory import Memory
from kaisched.framework.policy import Policy
from kaisched.framework.report.result import CycleResult
from kaisched_plugins.fair_sharing.quotas import Holdings, Quotas
from kaisched_plugins.fair_sharing.work import Work, entry_at, meeting


def some_tree(rng: random.Random, *, depth: int, rows: int = 2) -> Quotas:
    """Return a tree of up to so many levels below its root; ``rows`` are resources."""
    parent, level = [-1], [0]
    for _ in range(rng.randint(2, 9)):
        above = rng.choice([row for row in range(len(parent)) if level[row] < depth])
        parent.append(above)
        level.append(level[above] + 1)
    order = _preorder(parent)
    place = {row: at for at, row in enumerate(order)}
    parents = np.array([place.get(parent[row], -1) for row in order], np.int64)
    count, shape = len(order), (rows, len(order))

    def limits(often: float) -> np.ndarray:
        amounts = np.full(shape, UNLIMITED)
        for at in np.ndindex(*shape):
            if rng.random() < often:
                amounts[at] = rng.randint(0, 4)
        return amounts

    nominal = np.array([[rng.randint(0, 4) for _ in range(count)] for _ in range(rows)], np.int64)
    often = rng.choice((0.0, 0.0, 0.3))
    return Quotas(
        parents,
        nominal.reshape(shape),
        limits(often),
        limits(rng.choice((0.0, often))),
        [Fraction(rng.choice(("1", "1", "1", "2", "0.5", "3", "0"))) for _ in range(count)],
        np.arange(rows),
    )


def _preorder(parent: list[int]) -> list[int]:
    children: dict[int, list[int]] = {}
    for row, above in enumerate(parent):
        children.setdefault(above, []).append(row)
    order, stack = [], list(reversed(children[-1]))
    while stack:
        row = stack.pop()
        order.append(row)
        stack.extend(reversed(children.get(row, [])))
    return order


def next_head(holdings: Holdings, heads: Mapping[int, Work]) -> Work:
    """Return the winner of a knock-out between the heads of queues, all compared anew (F8)."""
    rows, winner = holdings.rows, dict(heads)
    below = list(zip(range(len(rows.parent)), rows.children, strict=True))
    roots = [row for row, above in enumerate(rows.parent) if above < 0]
    for node, children in [*reversed(below), (-1, roots)]:  # children come after their parents
        alive = [child for child in children if child in winner]
        if alive:
            best = min(alive, key=lambda it: entry_at(holdings, it, winner[it]))
            winner[node] = winner[best]
    return winner[-1]


def goes_before(holdings: Holdings, one: Work, other: Work) -> bool:
    """Tell whether a head would win against another, where their paths meet (F8)."""
    mine, theirs = meeting(holdings, one.queue, other.queue)
    return entry_at(holdings, mine, one) < entry_at(holdings, theirs, other)


def until_rest(store: RowStore, policy: Policy, most: int, *, quiet: int = 1) -> list[CycleResult]:
    """Run cycles, each obeyed at once, until nothing is decided any more in ``quiet`` of them."""
    memory, results, still = Memory(), [], 0
    for turn in range(most):
        result, memory = run_cycle(store.snapshot(), None, policy, 1e6 + turn, memory)
        results.append(result)
        moved = len(result.bind_tasks) + len(result.nominate_tasks) + len(result.evict_tasks)
        still = 0 if moved else still + 1
        if still == quiet:
            break
        for task in result.evict_tasks.tolist():
            store.set_state(task, TaskState.PENDING)
            store.nominate(task, -1)
        for tasks, nodes in (
            (result.bind_tasks, result.bind_nodes),
            (result.nominate_tasks, result.nominate_nodes),
        ):
            for task, node in zip(tasks.tolist(), nodes.tolist(), strict=True):
                if tasks is result.bind_tasks:
                    store.set_state(task, TaskState.RUNNING, node, 1e6 + turn)
                store.nominate(task, -1 if tasks is result.bind_tasks else node)
    return results
