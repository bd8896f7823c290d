"""What quotas are worth in a department that has less (R34), and that clusters come to rest there.

The rest: of queues below one department, of one priority, none waits with a job that would stay
within what its quota and share are worth there, while a sibling holds more than its own is worth
and could give a pod that is at least as large, runs alone and leaves it that much.
"""

import random

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from kaisched import GPU, MEMORY, UNLIMITED, worth
from kaisched.cluster.nodes import NodeRow
from kaisched.cluster.queues import QueueRow
from kaisched.core.axis import ResourceAxis, TaskState
from kaisched.core.tree import build_tree
from kaisched.engine.policy import default_policy
from kaisched.framework.cycle import run_cycle
from kaisched.framework.memory import Memory
from kaisched.testing.builder import Job, Task
from tests.laws.clusters import NOW_S, Cluster
from tests.laws.crowded import carried_out
from tests.oracles import division_loop

POLICY = default_policy()
CYCLES = 12
UNIT = 1000


# -- what it is worth ----------------------------------------------------------------------------


def plainly(parents, quota, share, fixed, priority):
    """Return quotas and shares of one resource, lowered group by group as R34 says it."""
    quota, share = list(quota), list(share)
    for parent, has in enumerate(quota):
        group = [q for q, above in enumerate(parents) if above == parent]
        told = [share[q] for q in group]
        if has == UNLIMITED or sum(told) <= share[parent]:
            continue
        if any(quota[q] == UNLIMITED and share[q] for q in group):
            continue
        promised = [min(quota[q], share[q]) for q in group]

        def claims(wants, weights, first, group=group):
            rows = zip(group, wants, weights, first, strict=True)
            return [
                division_loop.Claim(own, UNLIMITED, want, max(weight, 1), priority[q], rank)
                for rank, (q, want, weight, own) in enumerate(rows)
            ]

        quotas = [quota[q] for q in group]
        sure = [min(fixed[q], most) for q, most in zip(group, promised, strict=True)]
        wants, first = list(promised), [0] * len(group)
        while True:
            kept = division_loop.divide(share[parent], claims(wants, quotas, first), UNIT)
            less = [at for at, has in enumerate(kept.share) if has < sure[at]]
            if not less:
                break
            for at in less:
                wants[at] = first[at] = sure[at]
        above = [most - has for most, has in zip(told, promised, strict=True)]
        whole = division_loop.divide_surplus(
            kept.left, kept.share, claims(told, above, [0] * len(group)), UNIT
        )
        for q, amount, most in zip(group, kept.share, whole.share, strict=True):
            if sum(promised) > share[parent]:
                quota[q] = amount
            share[q] = most
    return quota, share


AMOUNTS = st.integers(0, 6000) | st.sampled_from([0, 1000, 2000, 4000])


@given(
    st.lists(
        st.tuples(
            AMOUNTS | st.just(UNLIMITED),
            AMOUNTS,
            st.just(0) | AMOUNTS,
            st.sampled_from([100, 200]),
        ),
        min_size=7,
        max_size=7,
    )
)
def test_siblings_have_what_their_parent_has_as_the_cluster_is_divided(rows):
    tree = build_tree(list("abcdefg"), ["", "a", "a", "b", "b", "b", ""])
    *amounts, priority = (np.array(column, np.int64) for column in zip(*rows, strict=True))
    columns = [np.zeros((4, 7), np.int64) for _ in range(3)]
    for column, amount in zip(columns, amounts, strict=True):
        column[GPU] = amount
    unit = np.array([1, 1, UNIT, 1])
    found = worth(tree, unit, (columns[0], columns[1], columns[2], priority))
    expected = plainly(tree.parent_of_queue.tolist(), *amounts, priority.tolist())
    assert [column[GPU].tolist() for column in found] == [list(map(int, it)) for it in expected]


def test_where_nobody_was_promised_too_much_nothing_is_made_anew():
    tree = build_tree(["a", "b"], ["", "a"])
    quota, share = np.full((4, 2), 3000), np.full((4, 2), 2000)
    fixed = np.zeros((4, 2), np.int64)
    found = worth(tree, np.ones(4, np.int64), (quota, share, fixed, np.zeros(2, np.int64)))
    assert found[0] is quota
    assert found[1] is share


def test_halves_of_a_departments_memory_are_equal():
    # 40 GB in units of 64 bytes; in whole MiB one of the two would be worth less than 20 GB.
    tree, whole = build_tree(list("abc"), ["", "a", "a"]), 625_000_000
    columns = [np.zeros((4, 3), np.int64) for _ in range(3)]
    columns[0][MEMORY] = columns[1][MEMORY] = whole
    unit = ResourceAxis.of(()).unit
    for found in worth(tree, unit, (*columns, np.zeros(3, np.int64))):
        assert found[MEMORY].tolist() == [whole, whole // 2, whole // 2]


# -- at rest -------------------------------------------------------------------------------------


def make_department(seed):
    """Make departments whose projects were promised more, in a cluster that is partly full."""
    rng = random.Random(seed)
    sizes = rng.choice([(1,), (1,), (1, 2)])
    gpus = [rng.choice([4, 8]) for _ in range(rng.choice([1, 2]))]
    nodes = [
        NodeRow(f"n{at}", {"cpu": 100_000, "gpu": gpu * UNIT, "pods": 110})
        for at, gpu in enumerate(gpus)
    ]
    queues, leaves = [], []
    for department in "de"[: rng.choice([1, 2, 2])]:
        quota = rng.randint(2, sum(gpus) // 2)
        queues.append(QueueRow(department, quota={"gpu": quota * UNIT}))
        for at in range(rng.choice([2, 3])):
            leaves.append(f"{department}{at}")
            queues.append(
                QueueRow(
                    leaves[-1],
                    department,
                    created_s=float(rng.randrange(2)),
                    priority=rng.choice([100, 100, 200]),
                    quota={"gpu": rng.randint(0, 5) * UNIT},
                )
            )
    free = {node.name: node.allocatable["gpu"] // UNIT for node in nodes}
    jobs = []
    for at in range(rng.randint(4, 20)):
        size, queue = rng.choice(sizes), rng.choice(leaves)
        node = next((name for name, has in free.items() if has >= size), "")
        node = node if rng.randrange(4) else ""
        if node:
            free[node] -= size
        task = Task(
            f"j{at}-0",
            {"cpu": 1, "gpu": size * UNIT},
            state=TaskState.RUNNING if node else TaskState.PENDING,
            node=node,
        )
        jobs.append(Job(f"j{at}", queue, (task,), created_s=float(at), started_s=0.0))
    return Cluster(tuple(nodes), tuple(queues), tuple(jobs))


def at_rest(cluster):
    """Return the cluster and its last cycle once nothing happens any more."""
    memory = Memory()
    for _ in range(CYCLES + 1):
        snapshot = cluster.store().snapshot()
        result, memory = run_cycle(snapshot, None, POLICY, NOW_S, memory)
        if not (result.binds or result.evictions or result.nominations):
            return cluster, snapshot, result
        cluster = carried_out(cluster, result)
    raise AssertionError("the cluster does not come to rest")


def unfair(cluster, snapshot, result):
    """Return (who waits below its part, who holds too much of it) for every pair."""
    tree, queues = snapshot.queues.tree, snapshot.queues
    told = [round(each.fair_share["gpu"]) for each in result.shares]
    fixed = [0] * len(told)  # all of it may be evicted
    priority = queues.priority.tolist()
    quota, share = plainly(
        tree.parent_of_queue.tolist(), queues.deserved[GPU].tolist(), told, fixed, priority
    )
    row = {name: at for at, name in enumerate(queues.name)}
    runs, waits = {}, {}
    for job in cluster.jobs:
        (task,) = job.tasks
        sizes = runs if task.node else waits
        sizes.setdefault(row[job.queue], []).append(task.request["gpu"])
    for mine, asks in waits.items():
        for theirs, units in runs.items():
            is_sibling = tree.parent_of_queue[mine] == tree.parent_of_queue[theirs]
            if mine == theirs or not is_sibling or queues.priority[mine] != queues.priority[theirs]:
                continue
            due, left = max(quota[theirs], share[theirs]), sum(units)
            spare = [unit for unit in units if left - unit >= due]
            is_below = sum(runs.get(mine, [])) + min(asks) <= share[mine]
            if spare and is_below and max(spare) >= min(asks):
                yield queues.name[mine], queues.name[theirs]


@pytest.mark.proportion
@example(0)
@given(st.integers(0, 1 << 32))
def test_at_rest_nobody_waits_for_what_a_sibling_holds_beyond_its_part(seed):
    assert not list(unfair(*at_rest(make_department(seed))))
