"""Small full clusters of jobs that need some of their subgroups, and of gangs that claim room."""

from __future__ import annotations

import random
from dataclasses import replace
from itertools import count as counting

from kaisched.cluster.nodes import NodeRow
from kaisched.cluster.queues import QueueRow
from kaisched.core.axis import TaskState
from kaisched.testing.builder import Group, Job, Task
from tests.laws.clusters import Cluster

UNIT = 1000


def make_tree(dice: random.Random) -> Group:
    """Return a tree of one or two levels in which most groups need one of their children."""
    numbers = counting(1)

    def grown(depth: int) -> Group:
        name = f"{dice.choice('abcd')}{next(numbers)}"
        if not depth or (depth == 1 and dice.random() < 0.4):
            return Group(name, dice.choice([0, 1, 1, 2, 3]))
        children = tuple(grown(depth - 1) for _ in range(dice.randint(2, 3)))
        return Group(name, dice.choice([None, 1, 1, 1]), children)

    return grown(2)


def make_spare(seed: int) -> Cluster:
    """Make a cluster in which such jobs run, mostly of a queue that deserves little."""
    dice = random.Random(seed)
    gpus = [dice.choice([2, 3, 4, 4, 6, 8]) for _ in range(dice.choice([1, 2, 2, 3, 4]))]
    free = {f"n{at}": UNIT * number for at, number in enumerate(gpus)}
    nodes = tuple(
        NodeRow(name, {"cpu": 64 * UNIT, "gpu": free[name], "pods": 110}) for name in free
    )
    queues = tuple(
        QueueRow(name, quota={"gpu": UNIT * dice.choice(some)}, weight={"gpu": 1.0})
        for name, some in (("v", [0, 0, 1]), ("a", [0, 1, 2, 4]), ("b", [1, 2, 4, 8]))
    )
    sizes = dice.choice([[1], [1], [1, 1, 2], [1, 2, 4]])

    def task(name: str, podset: str = "default", *, runs: bool = False) -> Task:
        size = UNIT * dice.choice(sizes)
        made = Task(name, {"cpu": UNIT, "gpu": size}, podset=podset)
        rooms = [node for node, left in free.items() if left >= size]
        if not runs or not rooms or dice.random() > 0.93:
            return made
        node = dice.choice(rooms)
        free[node] -= size
        return replace(made, state=TaskState.RUNNING, node=node)

    def job(name: str, queue: str, root: Group, tasks: list[Task], priority: int) -> Job:
        made = Job(name, queue, tuple(tasks), root=root, priority=priority)
        return replace(made, created_s=float(dice.randrange(4)), started_s=0.0)

    jobs = []
    for number in range(dice.randint(1, 4)):
        root = make_tree(dice)
        names = [leaf.name for leaf in root.leaves()]
        pods = range(dice.randint(2, 9))
        tasks = [task(f"j{number}-{at}", dice.choice(names), runs=True) for at in pods]
        jobs.append(job(f"j{number}", dice.choice("vvva"), root, tasks, dice.choice([50, 50, 75])))
    for number in range(dice.randint(1, 3)):
        pods = range(dice.randint(1, 5))
        root = Group("default", dice.choice([1, len(pods), len(pods)]))
        tasks = [task(f"c{number}-{at}") for at in pods]
        jobs.append(job(f"c{number}", dice.choice("aabbv"), root, tasks, dice.choice([50, 75, 80])))
    return Cluster(nodes, queues, tuple(jobs))
