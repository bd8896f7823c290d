"""Small clusters that are partly full, and what becomes of them when a cycle is carried out."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from dataclasses import replace

from hypothesis import strategies as st

from kaisched.cluster.nodes import NodeRow
from kaisched.cluster.queues import QueueRow
from kaisched.core.axis import TaskState
from kaisched.framework.report.result import CycleResult
from kaisched.testing.builder import Group, Job, Task
from tests.laws.clusters import Cluster

CPU, GPU = 1000, 1000
RUNNING, PENDING = TaskState.RUNNING, TaskState.PENDING
_REQUESTS = (
    {"cpu": CPU, "gpu": GPU},
    {"cpu": CPU, "gpu": GPU},
    {"cpu": CPU, "gpu": GPU},
    {"cpu": CPU, "gpu": 2 * GPU},
    {"cpu": 2 * CPU, "gpu": 2 * GPU},
    {"cpu": CPU, "gpu": 4 * GPU},
    {"cpu": 3 * CPU},
)
_TREES = (
    Group("root", None, (Group("x", 1), Group("y", 1))),
    Group("root", 1, (Group("x", 2), Group("y", 1))),
)


class _Dice:
    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.free: dict[str, dict[str, int]] = {}

    def chance(self, one_in: int) -> bool:
        return self.rng.randrange(one_in) == 0

    def nodes(self, count: int) -> tuple[NodeRow, ...]:
        pick = self.rng.choice
        made = tuple(
            NodeRow(f"n{at}", {"cpu": pick([6, 16]) * CPU, "gpu": gpus * GPU, "pods": 110})
            for at, gpus in enumerate(pick([1, 2, 4, 4, 8]) for _ in range(count))
        )
        self.free = {node.name: dict(node.allocatable) for node in made}
        return made

    def queues(self, count: int) -> tuple[QueueRow, ...]:
        """A forest, up to three levels deep."""
        made: list[QueueRow] = []
        depth = {"": 0}
        for name in "abcdefgh"[:count]:
            above = self.rng.choice(["", *(queue for queue, level in depth.items() if level < 3)])
            depth[name] = depth[above] + 1
            limit = {"gpu": GPU * self.rng.randint(1, 8)} if self.chance(6) else {}
            made.append(
                QueueRow(
                    name,
                    above,
                    created_s=float(self.rng.randrange(3)),
                    priority=self.rng.choice([100, 100, 100, 200]),
                    quota=self.quota(),
                    limit=limit,
                    weight={"gpu": float(self.rng.choice([0, 1, 1, 1, 3]))},
                )
            )
        return tuple(made)

    def quota(self) -> dict[str, int]:
        quota = {"gpu": GPU * self.rng.choice([0, 0, 1, 2, 3, 4])}
        if self.chance(4):
            quota["cpu"] = CPU * self.rng.randint(0, 8)
        return {} if self.chance(10) else quota

    def job(self, number: int, queue: str, *, most: int, runs: bool) -> Job:
        """A gang, an elastic job or one with a tree; what of it runs is whole, but for a few."""
        count = self.rng.choice([1, 1, 1, 2, 3, most]) if most > 1 else 1
        root = self.rng.choice(_TREES) if count > 1 and self.chance(6) else None
        minimum = count if root else self.rng.choice([1, count, count, (count + 1) // 2])
        podsets = [leaf.name for leaf in root.leaves()] if root else ["default"]
        request = self.rng.choice(_REQUESTS)
        is_mixed = self.chance(8)
        tasks = [
            Task(
                f"j{number}-{at}",
                self.rng.choice(_REQUESTS) if is_mixed else request,
                podset=podsets[at % len(podsets)],
            )
            for at in range(count)
        ]
        return Job(
            f"j{number}",
            queue,
            self.placed(tasks, minimum) if runs else tuple(tasks),
            priority=self.rng.choice([50, 50, 50, 75]),
            is_preemptible=not self.chance(7),
            created_s=float(self.rng.randrange(6)),
            started_s=0.0,
            root=root or Group("default", minimum),
        )

    def placed(self, tasks: list[Task], minimum: int) -> tuple[Task, ...]:
        """Let pods run where there is room, if enough of them find some."""
        before = {name: dict(free) for name, free in self.free.items()}
        made = []
        for task in tasks:
            node = self.room_for(task.request)
            made.append(replace(task, state=RUNNING, node=node) if node else task)
        if sum(bool(task.node) for task in made) < minimum and not self.chance(20):
            self.free = before
            return tuple(tasks)
        return tuple(made)

    def room_for(self, request: dict[str, int]) -> str:
        for name in self.rng.sample(sorted(self.free), len(self.free)):
            free = self.free[name]
            if all(free[resource] >= amount for resource, amount in request.items()):
                for resource, amount in request.items():
                    free[resource] -= amount
                return name
        return ""


def make_crowded(
    seed: int, nodes: int = 3, queues: int = 3, running: int = 6, pending: int = 3, most: int = 5
) -> Cluster:
    """Make a cluster in which some jobs run and others wait."""
    dice = _Dice(seed)
    made, rows = dice.nodes(nodes), dice.queues(queues)
    leaves = sorted({row.name for row in rows} - {row.parent for row in rows})
    # Some queues hold more than others: else nobody would have anything to take back.
    greedy = dice.rng.choice(leaves)
    jobs = [
        dice.job(
            at,
            greedy if at < running and dice.chance(2) else dice.rng.choice(leaves),
            most=most,
            runs=at < running,
        )
        for at in range(running + pending)
    ]
    return Cluster(made, rows, tuple(jobs))


crowded = st.builds(
    make_crowded,
    st.integers(0, 1 << 32),
    nodes=st.sampled_from([2, 1, 3, 4, 5]),
    queues=st.sampled_from([2, 1, 3, 4, 6]),
    running=st.sampled_from([6, 1, 2, 4, 8, 12]),
    pending=st.sampled_from([2, 1, 3, 5]),
    most=st.sampled_from([3, 1, 5]),
)


def carried_out(cluster: Cluster, result: CycleResult) -> Cluster:
    """Return the cluster once all is done: binds run, evicted pods wait anew, promises are noted.

    An evicted pod comes back as another pod of its job, under no promise even where it was moved.
    """
    bound = {bind.pod: bind.node for bind in result.binds}
    gone = {move.pod for move in result.evictions}
    promised = {each.pod: each.node for each in result.nominations}

    def after(task: Task) -> Task:
        name = f"default/{task.name}"
        if name in bound:
            return replace(task, state=RUNNING, node=bound[name], nominated="")
        if name in gone:
            return replace(task, state=PENDING, node="", nominated="")
        if name in promised:
            return replace(task, nominated=promised[name])
        return task

    return with_tasks(cluster, after)


def with_tasks(cluster: Cluster, change: Callable[[Task], Task]) -> Cluster:
    """Return the cluster with every pod changed."""
    jobs = tuple(
        replace(job, tasks=tuple(change(task) for task in job.tasks)) for job in cluster.jobs
    )
    return replace(cluster, jobs=jobs)


def moves_of(result: CycleResult) -> list[str]:
    """Tell what a cycle decided, one line a pod."""
    lines = [f"bind {each.pod} to {each.node}" for each in result.binds]
    lines += [
        f"{each.action} evicts {each.pod} from {each.node} for {each.beneficiary}"
        for each in result.evictions
    ]
    lines += [f"promise {each.node} to {each.pod}" for each in result.nominations]
    return lines


def kinds_of(result: CycleResult) -> Counter[str]:
    """Count evictions by action."""
    return Counter(each.action for each in result.evictions)
