"""A busy cluster over many cycles: pods end at random, and their places are wanted again.

A pod that ends waits again in its job, as the next one of its kind. Run as a module, with a first
and a last seed and a number of cycles, it compares how much of the GPUs is used with first come,
first served.
"""

import random
import sys
from collections import Counter
from fractions import Fraction

from kaisched import GPU
from kaisched.cluster.rowstore import RowStore
from kaisched.core.axis import TaskState
from kaisched.core.tables import Sharing
from kaisched.framework.cycle import run_cycle
from kaisched.framework.memory import Memory
from kaisched.testing import ClusterBuilder
from kaisched_plugins.fair_sharing.tests.rings import POLICY, obey
from kaisched_plugins.fair_sharing.work import ANY

ENDS = 0.1
"""How probable it is that a running pod ends in a cycle."""


def held_over(store: RowStore, cycles: int, rng: random.Random) -> Counter[str]:
    """Return the GPU-cycles that each queue held, by name."""
    memory, held = Memory(), Counter[str]()
    for turn in range(cycles):
        now_s = 1e6 + turn
        result, memory = run_cycle(store.snapshot(), None, POLICY, now_s, memory)
        obey(store, result, now_s)
        snapshot = store.snapshot()
        gpus = (snapshot.allocated[GPU] // 1000).tolist()
        held.update(dict(zip(snapshot.queues.name, gpus, strict=True)))
        for task, state in enumerate(snapshot.tasks.state.tolist()):
            if state == TaskState.RUNNING and rng.random() < ENDS:
                store.set_state(task, TaskState.PENDING)
    return held


def busy_tree(rng: random.Random) -> tuple[list[tuple[str, str, int, Fraction]], int]:
    """Return queues with their parents, quotas and weights, and all GPUs: the sum of the quotas."""
    queues = [("top", "", rng.randint(6, 12), Fraction(1))]
    for at in range(rng.randint(2, 3)):
        queues.append((f"d{at}", "top", rng.randint(0, 4), Fraction(1)))
        for leaf in range(rng.randint(1, 3)):
            weight = Fraction(rng.choice((1, 1, 2)))
            queues.append((f"d{at}-{leaf}", f"d{at}", rng.randint(0, 6), weight))
    return queues, sum(quota for _, _, quota, _ in queues)


def busy(seed: int, *, is_one_queue: bool) -> tuple[RowStore, int]:
    """Return a cluster whose jobs ask for twice its GPUs, and its GPUs.

    With ``is_one_queue`` all jobs are in one queue and of one priority, so that the oldest comes
    first.
    """
    rng = random.Random(seed)
    queues, gpus = busy_tree(rng)
    made = ClusterBuilder().node("n0", gpu=gpus)
    parents = {parent for _, parent, _, _ in queues}
    leaves = [name for name, *_ in queues if name not in parents]
    if is_one_queue:
        made.queue("all", deserved=gpus, sharing=Sharing(within="Never", across="Never"))
    else:
        for name, parent, quota, weight in queues:
            sharing = Sharing(weight=weight, across=ANY)
            made.queue(name, parent=parent, deserved=quota, sharing=sharing)
    asked = 0
    while asked < 2 * gpus:
        size, leaf, priority = rng.choice((1, 1, 2, 4)), rng.choice(leaves), 50 + rng.randint(0, 1)
        made.job(
            f"w{asked}",
            queue="all" if is_one_queue else leaf,
            gpu=size,
            priority=50 if is_one_queue else priority,
        )
        asked += size
    return made.store(), gpus


def used(seed: int, cycles: int, *, is_one_queue: bool) -> float:
    """Return the part of the GPUs that is held, on average over the cycles."""
    store, gpus = busy(seed, is_one_queue=is_one_queue)
    held = held_over(store, cycles, random.Random(seed))
    return sum(held.values()) / gpus / cycles


def split(seed: int, size: int, cycles: int) -> float:
    """Return the GPUs that a queue holds on average with work in pieces of a size.

    It has one or two siblings of the same weight, and all have more work than there is room.
    """
    rng = random.Random(seed)
    others, gpus = rng.randint(1, 2), rng.choice((12, 16, 24))
    made = ClusterBuilder().node("n0", gpu=gpus).queue("top", deserved=gpus)
    names = ["it", *(f"other{at}" for at in range(others))]
    rng.shuffle(names)
    for name in names:
        made.queue(name, parent="top")
        each = size if name == "it" else rng.choice((1, 2))
        for at in range(gpus // each + 1):
            made.job(f"{name}-{at}", queue=name, gpu=each)
    return held_over(made.store(), cycles, random.Random(seed))["it"] / cycles


def main(first: int, last: int, cycles: int) -> None:
    """Print how much less is used than by first come, first served, on average and at most."""
    less = [
        used(seed, cycles, is_one_queue=True) - used(seed, cycles, is_one_queue=False)
        for seed in range(first, last)
    ]
    print(f"{len(less)} trees, {cycles} cycles: less is used by")
    print(f"{100 * sum(less) / len(less):.2f} points on average, {100 * max(less):.2f} at most")
    sizes = [[split(seed, size, 100) for size in (1, 2, 4, 8)] for seed in range(first, last)]
    most = max(max(held) - min(held) for held in sizes)
    print(f"100 cycles, pieces of 1, 2, 4 and 8 GPUs: they differ by {most:.1f} GPUs at most")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:4]))
