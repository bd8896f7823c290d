"""Small full clusters of small jobs, and many claims of one pod each that are mostly equal."""

from __future__ import annotations

import random

from kaisched.cluster.nodes import NodeRow
from kaisched.cluster.queues import QueueRow
from kaisched.core.axis import TaskState
from kaisched.testing.builder import Job, Task
from tests.laws.clusters import Cluster

_CPU, _GPU = 1000, 1000
_ONE = {"cpu": _CPU, "gpu": _GPU}
_ODD = (
    {"cpu": 2 * _CPU, "gpu": _GPU},
    {"cpu": _CPU, "gpu": 2 * _GPU},
    {"cpu": 2 * _CPU},
    {"gpu": _GPU},
)
_STATES = (TaskState.RUNNING, TaskState.RUNNING, TaskState.BOUND, TaskState.RELEASING)


class _Dice:
    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.odd = self.rng.choice([0, 0, 0.1, 0.4])
        """How often a pod asks for something else than most."""
        self.strange = self.rng.choice([0, 0.05, 0.3])
        """How often a job is no victim, or no claim, like the others."""
        self.usual = self.rng.choice([_ONE, _ONE, *_ODD[:2]])
        """What most of the running pods ask for."""

    def request(self, usual: dict[str, int]) -> dict[str, int]:
        return self.rng.choice(_ODD) if self.rng.random() < self.odd else usual

    def is_strange(self, part: float = 1.0) -> bool:
        return self.rng.random() < self.strange * part

    def queues(self, total: int) -> list[QueueRow]:
        """Some that hold the cluster, one that takes it back, mostly below one parent."""
        rng = self.rng
        made = [QueueRow("all", weight={"gpu": 1.0})] if rng.random() < 0.5 else []
        above = made[0].name if made else ""
        for name in ("taker", *(f"giver{at}" for at in range(rng.randint(1, 3)))):
            taken = [total, total, total // 2]
            quota = rng.choice(taken if name == "taker" else [0, 0, 2, total // 4, total // 2])
            made.append(
                QueueRow(
                    name,
                    above if rng.random() < 0.8 else "",
                    created_s=float(rng.randrange(2)),
                    quota={"gpu": _GPU * quota, "cpu": rng.choice([0, 4, 40]) * _CPU},
                    limit={"gpu": _GPU * rng.randint(2, total)} if rng.random() < 0.2 else {},
                    weight={"gpu": float(rng.choice([0, 0, 1]))},
                )
            )
        return made

    def running(self, node: NodeRow, givers: list[str]) -> list[Job]:
        """Fill a node with jobs of one pod."""
        rng, free = self.rng, dict(node.allocatable)
        made: list[Job] = []
        while True:
            asked = self.request(self.usual)
            if any(free[name] < amount for name, amount in asked.items()):
                return made
            for name, amount in asked.items():
                free[name] -= amount
            state = rng.choice(_STATES) if self.is_strange() else TaskState.RUNNING
            name = f"r-{node.name}-{len(made)}"
            made.append(
                Job(
                    name,
                    "taker" if rng.random() < self.strange + 0.1 else rng.choice(givers),
                    (Task(f"{name}-0", asked, state=state, node=node.name),),
                    priority=rng.choice([50, 50, 50, 40]),
                    is_preemptible=not self.is_strange(0.5),
                    created_s=float(rng.randrange(4)),
                    started_s=0.0,
                )
            )

    def waiting(self, at: int, givers: list[str], together: int) -> Job:
        """Make a job of one pod, created along with as many others as are ``together``."""
        rng = self.rng
        return Job(
            f"w{at}",
            rng.choice(givers) if self.is_strange(0.3) else "taker",
            (Task(f"w{at}-0", self.request(_ONE)),),
            priority=rng.choice([50, 75]) if self.is_strange() else 75,
            is_preemptible=not self.is_strange(0.5),
            created_s=float(at // together),
        )


def make_queued(seed: int) -> Cluster:
    """Make a full cluster with one or two levels of queues, in which equal jobs wait."""
    dice = _Dice(seed)
    rng = dice.rng
    nodes = tuple(
        NodeRow(f"n{at}", {"cpu": rng.choice([8, 16, 64]) * _CPU, "gpu": 8 * _GPU, "pods": 110})
        for at in range(rng.randint(2, 6))
    )
    total = 8 * len(nodes)
    queues = dice.queues(total)
    givers = [row.name for row in queues if row.name.startswith("giver")]
    jobs = [job for node in nodes for job in dice.running(node, givers)]
    rng.shuffle(jobs)
    together = rng.choice([1, 2, 30])
    jobs += [dice.waiting(at, givers, together) for at in range(rng.randint(6, 2 * total))]
    return Cluster(nodes, tuple(queues), tuple(jobs))
