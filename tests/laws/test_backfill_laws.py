"""Backfill beside promises: what fills idle room leaves each promise enough room in the end."""

import numpy as np
from hypothesis import event, given
from hypothesis import strategies as st

from kaisched.cluster.nodes import NodeRow
from kaisched.cluster.queues import QueueRow
from kaisched.cluster.rowstore import RowStore
from kaisched.core.axis import TaskState
from kaisched.core.tables import INTERACTIVE
from kaisched.engine.policy import default_policy
from kaisched.framework import cycle as cycles
from kaisched.framework.memory import Memory

NOW_S = 1e6
ROOM = {"cpu": 64_000, "memory": 1 << 30, "gpu": 4_000, "pods": 110}
GPU = {"cpu": 1_000, "memory": 1 << 20, "gpu": 1_000}
POLICY = default_policy()
SLOTS = 4


def decided(store):
    run = cycles.run_cycle.__wrapped__  # its invariants are the business of other laws
    result, memory = run(store.snapshot(), None, POLICY, NOW_S, Memory())
    return result, memory.facts


def cluster(seed, nodes, gangs):
    """Draw slots of one GPU that are free, leave or stay, and gangs that are promised some.

    Returns what each slot is, and the slots of each gang.
    """
    rng = np.random.default_rng(seed)
    kinds = rng.choice(["free", "leaves", "stays"], nodes * SLOTS, p=[0.4, 0.4, 0.2])
    open_slots = rng.permutation(np.flatnonzero(kinds != "stays")).tolist()
    found = []
    for _ in range(gangs):
        size = int(rng.integers(1, 4))
        if len(open_slots) < size:
            break
        found.append([open_slots.pop() for _ in range(size)])
    return kinds.tolist(), found


def add(store, shape, name, queue, pods=1, *, minimum=None, priority=50, created_s=0.0):
    """Add a job that is not preemptible; return the row of its first pod."""
    row = store.add_job(
        name,
        queue,
        priority=priority,
        is_preemptible=False,
        created_s=created_s,
        tasks=[(f"{name}-{pod}", shape) for pod in range(pods)],
        minimum=pods if minimum is None else minimum,
    )
    return int(store.jobs.first_task.data[row])


def store_of(kinds, gangs, fillers, *, have_left, placed, run_time=()):
    """Load the cluster before or after what leaves has left; fillers on nodes run there."""
    store = RowStore()
    for at in range(len(kinds) // SLOTS):
        store.put_node(NodeRow(f"n{at}", ROOM))
    store.put_queue(QueueRow("big", quota={"gpu": 1_000 * len(kinds)}))
    quota = {"gpu": 1_000 * len(kinds)}
    store.put_queue(QueueRow("small", created_s=1.0, quota=quota, max_run_time=run_time))
    store.settle()
    shape = store.intern_shape(GPU)

    for slot, kind in enumerate(kinds):
        if kind == "stays" or (kind == "leaves" and not have_left):
            task = add(store, shape, f"ns/old{slot}", "small")
            store.place(np.array([task]), np.array([slot // SLOTS]), TaskState.RUNNING, 0.0)
            if kind == "leaves":
                store.evict(task, NOW_S - 5.0)
    for at, slots in enumerate(gangs):
        first = add(store, shape, f"ns/gang{at}", "big", len(slots), created_s=1.0)
        for pod, slot in enumerate(slots):
            store.nominate(first + pod, slot // SLOTS)
    for at, (pods, minimum, priority) in enumerate(fillers):
        first = add(store, shape, f"ns/fill{at}", "small", pods, minimum=minimum, priority=priority)
        for pod in range(pods):
            node = placed.get(f"ns/fill{at}-{pod}")
            if node is not None:
                there = np.array([int(node[1:])])
                store.place(np.array([first + pod]), there, TaskState.RUNNING, 0.0)
    return store


def of_gangs(moves):
    return {move.pod: move.node for move in moves if move.pod.startswith("ns/gang")}


fillers = st.lists(
    st.sampled_from([(1, 1, 10), (1, 1, 90), (3, 1, 50), (4, 0, 90), (2, 2, 50)]), max_size=10
)


run_times = st.sampled_from([(), ((INTERACTIVE, False, 60.0),)])


@given(st.integers(0, 1 << 32), st.integers(1, 4), st.integers(1, 5), fillers, run_times)
def test_what_fills_idle_room_leaves_every_promise_its_room(seed, nodes, gangs, wanted, run_time):
    """Whether it is one pod, elastic or a gang, of lower or higher priority, older or due more.

    Whether its run time is bounded makes no difference.
    """
    kinds, found = cluster(seed, nodes, gangs)
    alone, _ = decided(store_of(kinds, found, (), have_left=False, placed={}))
    first, _ = decided(
        store_of(kinds, found, wanted, have_left=False, placed={}, run_time=run_time)
    )
    assert of_gangs(first.binds) == of_gangs(alone.binds)
    assert of_gangs(first.nominations) == of_gangs(alone.nominations)
    filled = {bind.pod: bind.node for bind in first.binds if bind.pod.startswith("ns/fill")}
    event(f"filled {min(len(filled), 3)}")
    after, _ = decided(store_of(kinds, found, wanted, have_left=True, placed=filled))
    promised = {
        f"ns/gang{at}-{pod}": f"n{slot // SLOTS}"
        for at, slots in enumerate(found)
        for pod, slot in enumerate(slots)
    }
    assert of_gangs(after.binds) == promised


def test_small_jobs_fill_what_no_promise_needs_in_the_end():
    """Of two idle GPUs and two that leave a gang of three needs three: one pod may start."""
    kinds, gang = ["leaves", "leaves", "free", "free"], [[0, 2, 3]]
    wanted = [(1, 1, 90), (1, 1, 10)]
    result, _ = decided(store_of(kinds, gang, wanted, have_left=False, placed={}))
    assert [bind.pod for bind in result.binds] == ["ns/fill0-0"]
    assert len(of_gangs(result.nominations)) == 3


def test_a_gang_waits_at_most_for_the_last_pod_that_leaves():
    """Alone it might start after the first of the two: idle room of now is nobody's."""
    kinds, gang, wanted = ["leaves", "leaves", "free", "free"], [[0, 2, 3]], [(1, 1, 90)]
    first, _ = decided(store_of(kinds, gang, wanted, have_left=False, placed={}))
    filled = {bind.pod: bind.node for bind in first.binds}
    assert list(filled) == ["ns/fill0-0"]
    kinds[0] = "free"
    alone, _ = decided(store_of(kinds, gang, (), have_left=False, placed={}))
    assert len(of_gangs(alone.binds)) == 3
    after, _ = decided(store_of(kinds, gang, wanted, have_left=False, placed=filled))
    assert of_gangs(after.binds) == {}
    assert len(of_gangs(after.nominations)) == 3
    last, _ = decided(store_of(kinds, gang, wanted, have_left=True, placed=filled))
    assert len(of_gangs(last.binds)) == 3
