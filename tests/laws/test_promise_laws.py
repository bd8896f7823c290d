"""Promises that are kept together are kept as one by one, whatever else there is."""

import numpy as np
import pytest
from hypothesis import event, example, given, note
from hypothesis import strategies as st

from kaisched.actions.room import promises
from kaisched.cluster.nodes import NodeRow
from kaisched.cluster.queues import QueueRow
from kaisched.cluster.rowstore import RowStore
from kaisched.core.axis import TaskState
from kaisched.engine.policy import default_policy
from kaisched.framework import cycle as cycles
from kaisched.framework.memory import Memory
from kaisched.framework.session.ledger import Ledger

NOW_S = 1e6
ROOM = {"cpu": 64_000, "memory": 1 << 30, "gpu": 4_000, "pods": 110}
GPU = {"cpu": 1_000, "memory": 1 << 20, "gpu": 1_000}
LIMITED, FREE = "limited", "free"
POLICY = default_policy()


def promised(seed, *, nodes=3, jobs=12, leaving=6, limit=-1):
    """Jobs of one or two pods, promised nodes on which some pods run, leave or have left."""
    rng = np.random.default_rng(seed)
    store = RowStore()
    for at in range(nodes):
        store.put_node(NodeRow(f"n{at}", ROOM))
    store.put_queue(QueueRow("above", quota={"gpu": 1_000 * nodes}))
    most = {} if limit < 0 else {"gpu": 1_000 * limit}
    store.put_queue(QueueRow(LIMITED, parent="above", quota={"gpu": 2_000}, limit=most))
    store.put_queue(QueueRow(FREE, parent="above", created_s=1.0))
    store.settle()
    shapes = [store.intern_shape({**GPU, "gpu": gpus}) for gpus in (1_000, 1_000, 1_000, 2_000)]
    places = rng.permutation(np.repeat(np.arange(nodes), 4))[:leaving]
    for at, node in enumerate(places.tolist()):
        task = running(store, f"ns/old{at}", shapes[0], node)
        if rng.random() < 0.8:
            store.evict(task, NOW_S - 5.0)
    for at in range(jobs):
        pods, shape = 1 + (rng.random() < 0.1), shapes[rng.integers(len(shapes))]
        queue, may_go = LIMITED if rng.random() < 0.7 else FREE, bool(rng.random() < 0.8)
        first = added(store, f"ns/new{at:02}", queue, shape, pods, may_go, float(at))
        for task in range(first, first + pods):
            if rng.random() < 0.9:
                store.nominate(task, int(rng.integers(nodes)))
    return store


def added(store, name, queue, shape, pods=1, may_go=True, created_s=0.0):
    """Add a waiting gang; return the row of its first pod."""
    row = store.add_job(
        name,
        queue,
        priority=50,
        is_preemptible=may_go,
        created_s=created_s,
        tasks=[(f"{name}-{pod}", shape) for pod in range(pods)],
        minimum=pods,
    )
    return int(store.jobs.first_task.data[row])


def running(store, name, shape, node):
    task = added(store, name, FREE, shape)
    store.place(np.array([task]), np.array([node]), TaskState.RUNNING, 0.0)
    return task


def decided(store):
    run = cycles.run_cycle.__wrapped__  # its invariants are the business of other laws
    result, memory = run(store.snapshot(), None, POLICY, NOW_S, Memory())
    return result, memory.facts


@example(seed=1, nodes=2, jobs=9, leaving=5, limit=3)
@given(
    seed=st.integers(0, 1 << 32),
    nodes=st.integers(1, 4),
    jobs=st.integers(1, 14),
    leaving=st.integers(0, 12),
    limit=st.integers(-1, 6),
)
def test_a_run_of_promises_is_kept_as_one_by_one(seed, nodes, jobs, leaving, limit):
    size = {"nodes": nodes, "jobs": jobs, "leaving": leaving, "limit": limit}
    together, facts = decided(promised(seed, **size))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(promises, "run_ends", lambda _, wanted: range(1, len(wanted) + 1))
        alone, facts_alone = decided(promised(seed, **size))
    note(f"{list(together.binds)}\n{list(together.nominations)}")
    event(
        f"promised again {min(len(together.nominations), 4)}, bound {min(len(together.binds), 4)}"
    )
    assert list(together.binds) == list(alone.binds)
    assert list(together.nominations) == list(alone.nominations)
    assert list(together.evictions) == list(alone.evictions)
    assert list(together.records) == list(alone.records)
    assert facts == facts_alone


def test_promises_that_stand_are_kept_in_one_move(monkeypatch):
    """While the victims leave, a cycle does not work out each promise anew."""
    store = RowStore()
    for at in range(4):
        store.put_node(NodeRow(f"n{at}", ROOM))
    store.put_queue(QueueRow(FREE, quota={"gpu": 16_000}))
    store.settle()
    shape = store.intern_shape(GPU)
    for at in range(16):
        store.evict(running(store, f"ns/old{at}", shape, at % 4), NOW_S - 5.0)
        store.nominate(added(store, f"ns/new{at}", FREE, shape), at % 4)
    moves = []
    for name in ("set_state", "promise_pending", "place_pending"):
        monkeypatch.setattr(Ledger, name, counted(getattr(Ledger, name), name, moves))
    result, _ = decided(store)
    assert len(result.nominations) == 16
    assert moves == ["promise_pending"]


def counted(method, name, calls):
    def call(*given):
        calls.append(name)
        return method(*given)

    return call
