"""The backlog kept between cycles decides what gathering all waiting jobs would decide."""

import random

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from kaisched.actions.eviction import claimants
from kaisched.actions.order import backlog
from kaisched.cluster.nodes import NodeRow
from kaisched.cluster.queues import QueueRow
from kaisched.cluster.rowstore import RowStore
from kaisched.engine.policy import default_policy
from kaisched.framework.cycle import run_cycle
from kaisched.framework.memory import Memory
from kaisched.units import MEBIBYTE
from tests.laws.clusters import NOW_S
from tests.laws.crowded import carried_out, crowded, make_crowded

POLICY = default_policy()
NEVER = 1 << 30


def full_cluster(rng):
    """A small cluster with queues two levels deep, every second one with limits, and shapes."""
    gpus = rng.choice([None, 2000])
    limit = {} if gpus is None else {"gpu": gpus}
    store = RowStore()
    for row in range(rng.randint(1, 4)):
        gpus = rng.choice([1, 2, 4])
        room = {"cpu": 16000, "memory": 64 * MEBIBYTE, "gpu": 1000 * gpus, "pods": 20}
        store.put_node(NodeRow(f"n{row}", room))
    for name in "ab":
        store.put_queue(QueueRow(name, quota={"gpu": 1000 * rng.randint(0, 2)}))
    for name in "cdef":
        weight = {"gpu": float(rng.randint(0, 3))}
        store.put_queue(QueueRow(name, parent=rng.choice("ab"), weight=weight, limit=limit))
    gpus = [store.intern_shape({"cpu": 100, "gpu": 1000 * count}) for count in (1, 2)]
    return store, [*gpus, store.intern_shape({"cpu": 8000})]


def arrive(store, rng, shapes, number, now_s):
    """Add a job: mostly one pod, sometimes a gang, an elastic job or one of two shapes."""
    shape, pods = rng.choice(shapes), rng.choice([1, 1, 1, 2, 3])
    minimum = pods if rng.random() < 0.95 else 1
    mixed = pods > 1 and rng.random() < 0.05
    tasks = [(f"x/j{number}-{pod}", rng.choice(shapes) if mixed else shape) for pod in range(pods)]
    return store.add_job(
        f"x/j{number}",
        rng.choice("cdef"),
        priority=rng.choice([50, 50, 75]),
        is_preemptible=rng.random() < 0.9,
        created_s=float(now_s - rng.randint(0, 2)),
        tasks=tasks,
        minimum=minimum,
    )


def replay(seed, worth, monkeypatch):
    """Run thirty cycles of arrivals and ends; return what each decided, and how often it served."""
    monkeypatch.setattr(backlog, "_WORTH", worth)
    rng = random.Random(seed)
    store, shapes = full_cluster(rng)
    memory, told, served, running = Memory(), [], 0, {}
    for now_s in range(30):
        for _ in range(rng.randint(0, 3)):
            arrive(store, rng, shapes, len(told) * 10 + _, now_s)
        for name in rng.sample(sorted(running), min(len(running), rng.randint(0, 2))):
            store.remove_job(store.row_of_job(name))
            del running[name]
        snapshot = store.snapshot()
        result, memory = run_cycle(snapshot, None, POLICY, float(now_s), memory)
        told.append(result.encode())
        served += memory.hints.get("backlog.scarce", False) and "backlog" in memory.hints
        if result.bind_tasks.size:
            store.place(result.bind_tasks, result.bind_nodes)
            jobs = np.unique(snapshot.tasks.job_of_task[result.bind_tasks])
            running |= {snapshot.jobs.name[row]: row for row in jobs.tolist()}
    return told, served


@given(st.integers(0, 1 << 30))
@settings(max_examples=10)  # slow: sixty cycles each
@example(31083)  # an elastic pod is promised room, and its job is then a victim
def test_the_backlog_changes_no_decision(seed):
    """Same bytes with a backlog kept from the first waiting job on, and with none.

    Also where all jobs of the fitting classes are handed out, not the first of each.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(backlog, "_MANY", seed % 2 * NEVER)
        kept, _ = replay(seed, 0, patch)
        gathered, _ = replay(seed, NEVER, patch)
    assert kept == gathered


def test_the_backlog_is_used():
    """The law above would be empty if the backlog stepped aside each time."""
    with pytest.MonkeyPatch.context() as patch:
        assert sum(replay(seed, 0, patch)[1] for seed in range(10)) > 100
        assert replay(0, NEVER, patch)[1] == 0


def decided(cluster, worth, patch):
    """Return what three cycles decide, each carried out before the next, and what was spied on."""
    patch.setattr(backlog, "_WORTH", worth)
    asked = []
    patch.setattr(claimants.Claimants, "allowed", spied(claimants.Claimants.allowed, asked))
    memory, told = Memory(), []
    for _ in range(3):
        result, memory = run_cycle(cluster.store().snapshot(), None, POLICY, NOW_S, memory)
        told.append(result.encode())
        cluster = carried_out(cluster, result)
    return told, len(asked)


def spied(method, calls):
    def called(*arguments):
        calls.append(arguments)
        return method(*arguments)

    return called


@given(crowded)
def test_asking_classes_about_claims_decides_what_asking_every_job_does(cluster):
    """The same bytes, and with them the same reasons why nothing was taken for a job."""
    with pytest.MonkeyPatch.context() as patch:
        by_class, _ = decided(cluster, 0, patch)
    with pytest.MonkeyPatch.context() as patch:
        by_job, calls = decided(cluster, NEVER, patch)
    assert by_class == by_job
    assert not calls


def test_classes_are_asked_about_claims():
    """The law above would be empty if jobs were asked one by one each time."""
    calls = 0
    for seed in range(40):
        with pytest.MonkeyPatch.context() as patch:
            calls += decided(make_crowded(seed), 0, patch)[1]
    assert calls > 20
