"""A store that was told of objects, and what a cycle decides on it."""

from kaisched.cluster.store import StateStore, update
from kaisched.engine.policy import default_policy
from kaisched.framework.cycle import run_cycle
from kaisched.framework.memory import Memory
from tests.contract.clusters import node, queue

POLICY = default_policy()
NOW_S = 1_800_000_000.0


def store_of(*objects):
    """Return a store with node n0, of eight GPUs, queues a and b, and these objects."""
    return told(StateStore(), node("n0"), queue("a"), queue("b"), *objects)


def told(store, *objects):
    for obj in objects:
        update(store, obj)
    return store


def decide(store, memory=None, now_s=NOW_S):
    """Run a cycle; the fixtures of all tests check that it broke nothing."""
    return run_cycle(store.snapshot(), None, POLICY, now_s, memory or Memory())[0]


def placed(result):
    """Pod to node, of those bound."""
    return {bind.pod.partition("/")[2]: bind.node for bind in result.binds}


def reasons(result):
    """Job to the reason why it waits; a job of one pod goes by the name of the pod."""
    return {
        record.pod_group.partition("/")[2].removeprefix("pg-").removesuffix("-pod"): record.reason
        for record in result.records
    }
