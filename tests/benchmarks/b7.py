"""B7: fair division of 1,000 to 100,000 queues, 3 resources, 2 and 3 levels, with usage.

Reports our time, the floor measured in the same process, and their ratio. The floor is one plain
pass of as many rounds on flat arrays, without tree, contests, units or ties. The published floor is
the one of the project's performance notes, taken on another machine. Before a time counts, the
answer must equal the plain loop's bit for bit.
"""

from dataclasses import dataclass

import numpy as np

from kaisched.core.fairshare import Entitlements, fair_share, plan_levels
from kaisched.core.tree import QueueTree, build_tree, roll_up
from tests.benchmarks.harness import Measured, Watch, expect
from tests.oracles import division_loop

K = 1.0
UNIT = np.array([1, 1, 1000])
PUBLISHED_MS = {1_000: 0.55, 10_000: 3.2, 100_000: 37.0}


@dataclass
class Case:
    """One tree with what its queues want and used."""

    tree: QueueTree
    total: np.ndarray
    entitlements: Entitlements
    usage: np.ndarray

    def transform(self, resource, queue, group, active, weights):
        return weights + K * (weights - self.usage.take(resource * len(self.tree) + queue))


def make_case(queues: int, levels: int, seed: int = 7) -> Case:
    """Make a tree in which an inner queue has about ten children."""
    rng = np.random.default_rng(seed)
    names = [f"q{i:06}" for i in range(queues)]
    # Queue i > 0 of a depth hangs under a random queue of the depth above.
    bounds = [0, *(max(2, queues // 10 ** (levels - 1 - d)) for d in range(levels - 1)), queues]
    parents: list[str | None] = [None] * bounds[1]
    for above, start, end in zip(bounds, bounds[1:], bounds[2:], strict=False):
        parents += [names[p] for p in rng.integers(above, start, end - start)]
    tree = build_tree(names, parents)
    shape = (3, queues)
    own = np.where(tree.is_leaf, rng.integers(0, 60, shape), 0) * UNIT[:, None]
    request = roll_up(own, tree)
    deserved = roll_up(np.where(tree.is_leaf, rng.integers(0, 10, shape), 0), tree)
    usage = roll_up(np.where(tree.is_leaf, rng.random(shape), 0), tree)
    roots = tree.depth_of_queue == 0
    entitlements = Entitlements(
        deserved * UNIT[:, None],
        np.full(shape, 1 << 62),
        request,
        rng.integers(1, 10, shape).astype(np.float64),
        np.zeros(queues, dtype=np.int64),
        np.arange(queues),
    )
    total = request[:, roots].sum(axis=1) // 2
    return Case(tree, total, entitlements, usage / usage[:, roots].sum(axis=1, keepdims=True))


def rounds_of(case: Case) -> list[int]:
    """Return the depth of each round that the division plays."""
    played = []

    def transform(resource, queue, group, active, weights):
        played.append(int(case.tree.depth_of_queue[queue[0]]))
        return case.transform(resource, queue, group, active, weights)

    fair_share(case.tree, case.total, case.entitlements, UNIT, transform)
    return played


def floor(columns: list[list[tuple[np.ndarray, ...]]], played: list[int]) -> None:
    """Do one plain pass of as many rounds per depth, each resource as one flat group.

    Columns are laid out beforehand; no tree, contests, priorities, units or ties.
    """
    for depth, resources in enumerate(columns):
        for deserved, request, weight, usage in resources:
            got = np.minimum(deserved, request)
            left = 0.5 * got.sum()
            for _ in range(played.count(depth)):
                w = np.where(got < request, weight, 0.0)
                w = w / w.sum()
                p = np.maximum(w + K * (w - usage), 0.0) * (got < request)
                give = np.minimum(np.floor(left * p / p.sum()), request - got)
                got = got + give
                left -= 0.5 * give.sum()


def floor_columns(case: Case) -> list[list[tuple[np.ndarray, ...]]]:
    entitlements = case.entitlements
    columns = (entitlements.deserved, entitlements.request + 1e6, entitlements.weights, case.usage)
    return [
        [tuple(column[r, level].astype(np.float64) for column in columns) for r in range(3)]
        for level in case.tree.levels
    ]


def expected(case: Case) -> np.ndarray:
    """The plain loop's answer, group by group."""
    tree, entitlements = case.tree, case.entitlements
    share = np.zeros(entitlements.request.shape, dtype=np.int64)
    children: dict[int, list[int]] = {}
    for q, parent in enumerate(tree.parent_of_queue.tolist()):
        children.setdefault(parent, []).append(q)
    for r in range(3):
        usage = case.usage[r].tolist()
        for parent, members in children.items():

            def loop_transform(normal, members=members, usage=usage):
                return {i: w + K * (w - usage[members[i]]) for i, w in normal.items()}

            rows = [
                division_loop.Claim(
                    int(entitlements.deserved[r, q]),
                    int(entitlements.limit[r, q]),
                    int(entitlements.request[r, q]),
                    float(entitlements.weights[r, q]),
                    0,
                    q,
                )
                for q in members
            ]
            amount = int(case.total[r] if parent < 0 else share[r, parent])
            share[r, members] = division_loop.divide(
                amount, rows, int(UNIT[r]), loop_transform
            ).share
    return share


def divide(repeat: int, queues: int, levels: int) -> Measured:
    case = make_case(queues, levels)
    plan = plan_levels(case.tree, case.entitlements.priority, case.entitlements.rank, len(UNIT))

    def ours() -> np.ndarray:
        return fair_share(case.tree, case.total, case.entitlements, UNIT, case.transform, plan=plan)

    expect(np.array_equal(ours(), expected(case)), "the division differs from the plain loop")
    columns, played = floor_columns(case), rounds_of(case)
    floor(columns, played)
    watch, plain = Watch(), Watch()
    # In turns, so that a busy moment of the machine meets both.
    for _ in range(repeat):
        watch.time(ours)
        plain.time(lambda: floor(columns, played))
    ours_s, floor_s = watch.summary()["cpu_s"], plain.summary()["cpu_s"]
    detail = {
        "rounds": len(played),
        "floor_s": floor_s,
        "ratio_to_floor": ours_s / floor_s,
        "published_floor_s": PUBLISHED_MS.get(queues, 0.0) / 1000,
    }
    return Measured(watch, detail)
