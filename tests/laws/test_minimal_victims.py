"""How little is given up for one claim, against every set of victims by the same rules."""

import random
from dataclasses import replace

from hypothesis import event, given, note
from hypothesis import strategies as st

from kaisched.actions.preempt import Preempt
from kaisched.actions.reclaim import Reclaim
from kaisched.cluster.nodes import NodeRow
from kaisched.cluster.queues import QueueRow
from kaisched.core.axis import GPU
from kaisched.core.states import TaskState
from kaisched.engine.policy import default_policy
from kaisched.framework.cycle import run_cycle
from kaisched.framework.memory import Memory
from kaisched.testing.rows import Group, Job, Task
from tests.laws.clusters import NOW_S, Cluster, told
from tests.oracles.exhaustive_victims import Exhaustive

POLICIES = {
    action.name: replace(default_policy(), actions=(action,), allows_consolidating_reclaim=False)
    for action in (Reclaim(), Preempt())
}
_MOST = 8


def make_contest(seed, action, nodes, queues):
    """Make nearly full nodes and one waiting job: of the first queue, or the most important one."""
    rng = random.Random(seed)
    rows = tuple(NodeRow(f"n{at}", {"cpu": 64_000, "gpu": 1000 * rng.choice([2, 4, 8]), "pods": 110}) for at in range(nodes))
    free = {row.name: row.allocatable["gpu"] // 1000 for row in rows}
    names = "abcd"[:queues]
    tree = tuple(
        QueueRow(
            name,
            created_s=float(at),
            quota={"gpu": 1000 * rng.choice([0, 1, 2, 4])},
            limit={"gpu": 1000 * rng.choice([4, 6])} if rng.random() < 0.1 else {},
            weight={"gpu": 1.0},
        )
        for at, name in enumerate(names)
    )
    others = names[1:] if action == "reclaim" else names[:1]
    jobs = []
    for at in range(rng.randint(3, _MOST)):
        pods, gpus = rng.choice([1, 1, 1, 2]), rng.choice([1, 1, 2, 4])
        tasks = []
        for pod in range(pods):
            able = [name for name, left in sorted(free.items()) if left >= gpus]
            if able:
                node = rng.choice(able)
                free[node] -= gpus
                tasks.append(Task(f"r{at}-{pod}", {"cpu": 1000, "gpu": 1000 * gpus}, state=TaskState.RUNNING, node=node))
        if tasks:
            jobs.append(Job(f"r{at}", rng.choice(others), tuple(tasks), created_s=float(rng.randrange(4)), started_s=0.0, priority=rng.choice([40, 50]), root=Group("default", len(tasks))))
    pods, gpus = rng.choice([1, 1, 2, 3]), rng.choice([1, 2, 2, 4])
    waiting = tuple(Task(f"w-{at}", {"cpu": 1000, "gpu": 1000 * gpus}) for at in range(pods))
    jobs.append(Job("w", names[0], waiting, priority=90, created_s=9.0, root=Group("default", pods)))
    return Cluster(rows, tree, tuple(jobs))
