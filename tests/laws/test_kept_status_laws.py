"""Statuses that are kept from cycle to cycle are those that would be computed anew."""

import random

from hypothesis import given, settings
from hypothesis import strategies as st

from kaisched.cluster.kubernetes.statuses import GroupAmounts, QueueStatuses, queue_statuses
from kaisched.cluster.nodes import NodeRow
from kaisched.cluster.queues import QueueRow
from kaisched.cluster.rowstore import RowStore
from kaisched.core.axis import TaskState
from kaisched.engine.policy import default_policy
from kaisched.framework.cycle import run_cycle
from kaisched.framework.memory import Memory

POLICY = default_policy()
GPU = 1000
STATES = (TaskState.PENDING, TaskState.RUNNING, TaskState.RELEASING, TaskState.GONE)


def make_store():
    store = RowStore()
    store.put_node(NodeRow("n0", {"cpu": 8000, "memory": 1 << 24, "gpu": 8 * GPU, "pods": 99}))
    store.put_queue(QueueRow("a"))
    for name in "bc":
        store.put_queue(QueueRow(name, parent="a", quota={"gpu": GPU}))
    return store


def change(store, dice):
    """Let a job or a queue come, or a pod change its state; nothing may happen, too."""
    what = dice.choice(("job", "job", "pod", "pod", "pod", "queue", "nothing"))
    if what == "job":
        number = store.jobs.size
        shape = store.intern_shape({"cpu": 100, "gpu": GPU * dice.randint(0, 2)})
        tasks = [(f"x/j{number}-{at}", shape) for at in range(dice.randint(1, 3))]
        store.add_job(
            f"x/j{number}",
            dice.choice("abc"),
            priority=50,
            is_preemptible=dice.random() < 0.5,
            created_s=float(number),
            tasks=tasks,
        )
    elif what == "pod" and store.tasks.size:
        task = dice.randrange(store.tasks.size)
        state = dice.choice(STATES)
        is_placed = state in (TaskState.RUNNING, TaskState.RELEASING)
        store.set_state(task, state, 0 if is_placed else -1)
    elif what == "queue":
        store.put_queue(QueueRow(dice.choice("bcd"), parent="a", quota={"gpu": dice.randint(0, 3)}))


@given(st.integers(0, 1 << 30))
@settings(max_examples=15)
def test_statuses_that_are_kept_are_those_of_now(seed):
    dice, store = random.Random(seed), make_store()
    queues, groups, memory = QueueStatuses(), GroupAmounts(), Memory()
    of_queue, of_group = {}, {}
    for turn in range(12):
        for _ in range(dice.randint(0, 3)):
            change(store, dice)
            store.settle()
        snapshot = store.snapshot()
        result, memory = run_cycle(snapshot, None, POLICY, 100.0 * turn, memory)
        of_queue |= dict(queues.changed(snapshot, result.shares, {}))
        of_group |= dict(groups.changed(snapshot, lambda _: True))
        assert of_queue == dict(queue_statuses(snapshot, list(result.shares), {}))
        assert of_group == dict(GroupAmounts().changed(snapshot, lambda _: True))
